//! Pure: from a cgroup's path to the pod and container that it belongs to.
//!
//! Kubelets name cgroups in two ways (systemd and cgroupfs drivers), container runtimes add a prefix of their own, and any
//! number of parents may come in front (kind runs a node inside a container). So the path is read from its components'
//! shapes: the last pod component, and the first container id below it. What lies deeper (systemd inside the container, `crun`'s
//! `container`) belongs to the same container.

use std::{fmt, sync::Arc};

/// A cgroup v2 id: the inode number of its directory. 64 bits, never reused within a boot on 64-bit kernels.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CgroupId(pub u64);

/// What the kubelet puts in cgroup names: the pod's uid, or for a static pod the hash of its configuration.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodUid(Arc<str>);

/// A container's id as its runtime gave it: 64 hex digits.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContainerId(Arc<str>);

impl PodUid {
    /// A uid as the API or an annotation has it.
    pub fn new(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl ContainerId {
    /// An id without its `containerd://`.
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id in a container status: `containerd://<id>`; nothing while the container has none.
    pub fn from_status(id: &str) -> Option<Self> {
        let (_runtime, id) = id.split_once("://")?;
        is_container_id(id).then(|| Self::new(id))
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a cgroup is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// A container's, or one inside it.
    Container(PodUid, ContainerId),
    /// A pod's own, above its containers.
    Pod(PodUid),
    /// Of a process that asks as the kubelet does: probes come from here.
    Prober,
    /// Any other: the host's services.
    Host,
}

/// Components that name a kubelet: systemd units and the cgroup of a kubelet that was started by hand; k3s, RKE2 and k0s
/// run it inside their one server process.
pub const DEFAULT_PROBERS: [&str; 8] = [
    "kubelet.service",
    "kubelet",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
];

/// What the cgroup at `path` is; `path` is relative to the cgroup root. `probers` are components that make it [`Place::Prober`].
pub fn place(path: &str, probers: &[String]) -> Place {
    let components: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let pod = components.iter().enumerate().rev().find_map(|(at, part)| Some((at, pod_uid(part)?)));
    let Some((at, (uid, in_same))) = pod else {
        let is_prober = components.iter().any(|part| probers.iter().any(|prober| prober == part));
        return if is_prober { Place::Prober } else { Place::Host };
    };
    let below = in_same.or_else(|| components[at + 1..].iter().find_map(|part| container_id(part)));
    match below {
        Some(id) => Place::Container(uid, id),
        None => Place::Pod(uid),
    }
}

/// The pod uid in a component, with the container id when containerd's cgroup path syntax has both in one:
/// `kubepods-burstable-pod<uid>.slice:cri-containerd:<id>`.
fn pod_uid(component: &str) -> Option<(PodUid, Option<ContainerId>)> {
    let mut parts = component.split(':');
    let first = parts.next()?;
    let name = first.strip_suffix(".slice").unwrap_or(first);
    // `pod<uid>` (cgroupfs) or `..-pod<uid>` (systemd, where `-` separates slices, so the uid has `_` instead)
    let uid = name.strip_prefix("pod").or_else(|| name.rsplit_once("-pod").map(|(_, uid)| uid))?;
    let uid = uid.replace('_', "-");
    is_pod_uid(&uid).then(|| (PodUid::new(&uid), parts.next_back().and_then(container_id)))
}

/// The container id in a component: `<id>`, or `<runtime>-<id>.scope`. Its monitor (`crio-conmon-<id>`) is not the container.
fn container_id(component: &str) -> Option<ContainerId> {
    let name = component.strip_suffix(".scope").unwrap_or(component);
    let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
    (is_container_id(id) && !runtime.ends_with("conmon")).then(|| ContainerId::new(id))
}

fn is_container_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A UUID, or the 32 hex digits of a static pod's configuration hash.
fn is_pod_uid(uid: &str) -> bool {
    match uid.len() {
        32 => uid.bytes().all(|byte| byte.is_ascii_hexdigit()),
        36 => uid.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{ContainerId, DEFAULT_PROBERS, Place, PodUid, place};

    const UID: &str = "0b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";
    const UNDERSCORED: &str = "0b1f9c6e_3c5d_4a7e_9f21_8a1b2c3d4e5f";
    const ID: &str = "4f0c1e7a9b3d5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8";
    const OTHER_ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn of(path: &str) -> Place {
        place(path, &DEFAULT_PROBERS.map(str::to_owned))
    }

    fn container() -> Place {
        Place::Container(PodUid::new(UID), ContainerId::new(ID))
    }

    #[test]
    fn container_is_found_under_every_driver_and_runtime() {
        for path in [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{ID}.scope"),
            format!(
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice/docker-{ID}.scope"
            ),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}"),
            format!("kubepods/besteffort/pod{UID}/{ID}/"),
        ] {
            assert_eq!(of(&path), container(), "{path}");
        }
    }

    #[test]
    fn nested_node_counts_its_own_container_and_not_the_one_it_runs_in() {
        let node = format!("/docker/{OTHER_ID}/kubelet.slice/kubelet-kubepods.slice");
        let path = format!(
            "{node}/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope"
        );
        assert_eq!(of(&path), container());
    }

    #[test]
    fn cgroup_inside_a_container_belongs_to_it() {
        let scope = format!("/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{ID}.scope");
        for below in ["container", "init.scope", "system.slice/app.service", "system.slice/docker-x.scope"] {
            assert_eq!(of(&format!("{scope}/{below}")), container(), "{below}");
        }
        assert_eq!(of(&format!("{scope}/kubepods/{OTHER_ID}")), container(), "the nearest id below the pod");
    }

    #[test]
    fn static_pod_is_named_by_its_configuration_hash() {
        let hash = "9aac5b5c8815def09a2ef9e37b89da55";
        let expected = Place::Container(PodUid::new(hash), ContainerId::new(ID));
        assert_eq!(of(&format!("/kubepods/burstable/pod{hash}/{ID}")), expected);
    }

    #[test]
    fn pod_without_a_container_is_the_pod() {
        let slice = format!("/kubepods.slice/kubepods-pod{UNDERSCORED}.slice");
        assert_eq!(of(&slice), Place::Pod(PodUid::new(UID)));
        assert_eq!(of(&format!("{slice}/crio-conmon-{ID}.scope")), Place::Pod(PodUid::new(UID)), "the monitor");
    }

    #[test]
    fn kubelet_is_a_prober_and_its_pods_are_not() {
        for path in
            ["/system.slice/kubelet.service", "/docker/x/kubelet.slice/kubelet.service", "/system.slice/k3s.service"]
        {
            assert_eq!(of(path), Place::Prober, "{path}");
        }
        assert_eq!(of(&format!("/k3s.service/kubepods/pod{UID}/{ID}")), container());
        assert_eq!(place("/my/kubelet.service", &["prober".to_owned()]), Place::Host, "the list was replaced");
        assert_eq!(place("/my/prober/x", &["prober".to_owned()]), Place::Prober);
    }

    #[test]
    fn everything_else_is_the_host() {
        for path in
            ["/", "/system.slice/ssh.service", "/kubepods", "/podman", "/user.slice/pod.slice", "/kubepods/pod123/x"]
        {
            assert_eq!(of(path), Place::Host, "{path}");
        }
    }

    #[test]
    fn container_id_of_a_status_has_a_runtime_in_front() {
        assert_eq!(ContainerId::from_status(&format!("containerd://{ID}")), Some(ContainerId::new(ID)));
        assert_eq!(ContainerId::from_status(&format!("cri-o://{ID}")), Some(ContainerId::new(ID)));
        assert_eq!(ContainerId::from_status(""), None, "not started yet");
        assert_eq!(ContainerId::from_status("containerd://../../x"), None, "hostile");
    }
}
