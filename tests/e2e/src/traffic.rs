//! The users' traffic.
use testbed::{
    kubelet::PodRecord,
    load::{self, TargetTally},
    node::Host,
};
pub(crate) fn send(user: &Host, pods: &[PodRecord]) -> Vec<TargetTally> {
    pods.iter()
        .map(|p| {
            load::run(
                &user.place,
                &format!("{}:8080", p.ip),
                &[("/ok", 200), ("/missing", 20), ("/fail", 10), ("/api/pay", 150), ("/api/cart", 50), ("/ok", 70)],
            )
            .unwrap()
        })
        .collect()
}
