use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use rollout_probe_common::{
    abi::{CodeKey, Tally, TallyKey},
    outcome::{CodeClass, Origin, Protocol, Role},
};
use serde_json::json;

use super::{Counters, Ledger, SeriesKey, Totals, Unattributed};
use crate::{
    cgroup::{CgroupId, ContainerId, Place, PodUid},
    index::Index,
    naming::Naming,
    pod_record::{
        PodRecord,
        fixture::{UID, id},
    },
};

const OTHER_UID: &str = "1b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";
const GRACE: Duration = Duration::from_mins(1);

fn pod(uid: &str, name: &str, container: Option<char>) -> PodRecord {
    let statuses = container.map(|digit| {
        json!([{"name": "app", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
            "containerID": format!("containerd://{}", id(digit))}])
    });
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {"containers": [{"name": "app"}]},
        "status": {"containerStatuses": statuses},
    }))
    .expect("a pod");
    PodRecord::from_pod(&pod, &Naming::default()).expect("it has a uid")
}

fn container(uid: &str, digit: char) -> Place {
    Place::Container(PodUid::new(uid), ContainerId::new(&id(digit)))
}

fn responses(cgroup: u64, successful: u64, server_error: u64) -> (TallyKey, Tally) {
    let (role, origin, protocol) = (Role::SERVER, Origin::TRAFFIC, Protocol::HTTP1);
    let mut tally = Tally::ZERO;
    tally.responses[CodeClass::SUCCESSFUL.index()] = successful;
    tally.responses[CodeClass::SERVER_ERROR.index()] = server_error;
    (TallyKey { cgroup, role, origin, protocol, reserved: [0; 5] }, tally)
}

fn code(cgroup: u64, status: u16, count: u64) -> (CodeKey, u64) {
    let (role, origin, protocol) = (Role::SERVER, Origin::TRAFFIC, Protocol::HTTP1);
    (CodeKey { cgroup, status, role, origin, protocol, reserved: [0; 3] }, count)
}

fn counters(tallies: &[(TallyKey, Tally)], codes: &[(CodeKey, u64)]) -> Counters {
    Counters { tallies: tallies.to_vec(), codes: codes.to_vec(), ..Counters::default() }
}

/// (2xx, 5xx) of the container `app` of the pod with this name.
fn counted(totals: &Totals, name: &str) -> Option<(u64, u64)> {
    let is_it = |key: &&SeriesKey| {
        (key.identity.pod.as_str(), key.container.as_str()) == (name, "app")
            && (key.role, key.origin, key.protocol) == (Role::SERVER, Origin::TRAFFIC, Protocol::HTTP1)
    };
    let tally = &totals.series[totals.series.keys().find(is_it)?];
    Some((tally.responses[CodeClass::SUCCESSFUL.index()], tally.responses[CodeClass::SERVER_ERROR.index()]))
}

/// Every response of `totals`, wherever it went.
fn sum(totals: &Totals) -> u64 {
    let series: u64 = totals.series.values().flat_map(|tally| tally.responses).sum();
    series + totals.unattributed.values().sum::<u64>() + totals.host + totals.excluded
}

#[test]
fn counts_join_their_pod_whenever_its_name_comes() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    ledger.observe(counters(&[responses(7, 3, 1)], &[]), &index);
    assert_eq!(ledger.totals(&index).unattributed, [(Unattributed::Cgroup, 4)].into());

    ledger.cgroup_created(CgroupId(7), container(UID, 'a'));
    assert_eq!(ledger.totals(&index).unattributed, [(Unattributed::Pod, 4)].into());

    index.apply(pod(UID, "web", None), start);
    ledger.learn_containers(&index);
    let totals = ledger.totals(&index);
    assert_eq!(totals.unattributed, [(Unattributed::Container, 4)].into());
    assert_eq!(counted(&totals, "web"), Some((0, 0)), "its series are there from its discovery on");

    index.apply(pod(UID, "web", Some('a')), start);
    ledger.learn_containers(&index);
    let totals = ledger.totals(&index);
    assert_eq!(counted(&totals, "web"), Some((3, 1)));
    assert_eq!(totals.unattributed, [].into());
}

#[test]
fn pod_without_traffic_has_all_series_at_zero() {
    let (ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    index.apply(pod(UID, "web", None), start);
    let totals = ledger.totals(&index);
    assert_eq!(totals.series.len(), 6, "three sides of the connection and of HTTP");
    assert!(totals.series.values().all(|tally| *tally == Tally::ZERO));
}

#[test]
fn restarted_container_continues_its_series() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    for (cgroup, digit) in [(7, 'a'), (8, 'b')] {
        index.apply(pod(UID, "web", Some(digit)), start);
        ledger.cgroup_created(CgroupId(cgroup), container(UID, digit));
    }
    ledger.observe(counters(&[responses(7, 3, 0), responses(8, 2, 5)], &[]), &index);
    assert_eq!(counted(&ledger.totals(&index), "web"), Some((5, 5)));
}

#[test]
fn host_and_kubelet_are_no_pods_and_not_lost() {
    let (mut ledger, index) = (Ledger::default(), Index::default());
    ledger.cgroup_created(CgroupId(1), Place::Host);
    ledger.cgroup_created(CgroupId(2), Place::Prober);
    ledger.observe(counters(&[responses(1, 3, 0), responses(2, 4, 0)], &[]), &index);
    let totals = ledger.totals(&index);
    assert_eq!((totals.host, totals.unattributed), (7, [].into()));
}

#[test]
fn retired_cgroup_keeps_its_counts_and_frees_the_kernel() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    index.apply(pod(UID, "web", Some('a')), start);
    ledger.cgroup_created(CgroupId(7), container(UID, 'a'));
    ledger.cgroup_created(CgroupId(9), Place::Host);
    let observed = counters(&[responses(7, 3, 1), responses(9, 1, 0)], &[code(7, 503, 1)]);
    ledger.observe(observed, &index);
    let before = ledger.totals(&index);

    ledger.cgroup_removed(CgroupId(7), start);
    assert_eq!(ledger.retire(start + GRACE / 2, GRACE, &index), (vec![], vec![]), "sockets may still count");
    let (tallies, codes) = ledger.retire(start + GRACE, GRACE, &index);
    assert_eq!((tallies, codes), (vec![responses(7, 0, 0).0], vec![code(7, 503, 0).0]));
    assert_eq!(ledger.totals(&index), before, "nothing jumps");

    ledger.observe(counters(&[responses(9, 1, 0)], &[]), &index);
    assert_eq!(ledger.totals(&index), before, "nor after the kernel forgot it");
}

#[test]
fn unattributed_counts_are_retired_as_such() {
    let (mut ledger, index, start) = (Ledger::default(), Index::default(), Instant::now());
    ledger.cgroup_created(CgroupId(7), container(UID, 'a'));
    ledger.observe(counters(&[responses(7, 3, 1)], &[]), &index);
    ledger.cgroup_removed(CgroupId(7), start);
    ledger.retire(start + GRACE, GRACE, &index);
    ledger.observe(Counters::default(), &index);
    assert_eq!(ledger.totals(&index).unattributed, [(Unattributed::Pod, 4)].into());
}

#[test]
fn series_of_a_forgotten_pod_go_unless_its_name_lives_on() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    for (uid, name, cgroup, digit) in [(UID, "web-0", 7, 'a'), (OTHER_UID, "web-1", 8, 'b')] {
        index.apply(pod(uid, name, Some(digit)), start);
        ledger.cgroup_created(CgroupId(cgroup), container(uid, digit));
    }
    ledger.observe(counters(&[responses(7, 3, 1), responses(8, 5, 0)], &[code(7, 500, 1)]), &index);
    for (uid, cgroup) in [(UID, 7), (OTHER_UID, 8)] {
        ledger.cgroup_removed(CgroupId(cgroup), start);
        index.delete(&PodUid::new(uid), start);
    }
    ledger.retire(start + GRACE, GRACE, &index);
    // `web-0` is made again under a new uid, `web-1` is not.
    index.apply(pod("2b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f", "web-0", Some('c')), start);
    index.expire(start + GRACE, GRACE);
    ledger.drop_series_without_pod(&index);
    let totals = ledger.totals(&index);
    assert_eq!(counted(&totals, "web-0"), Some((3, 1)), "the counter goes on");
    assert_eq!(counted(&totals, "web-1"), None);
}

#[test]
fn sum_of_everything_is_what_the_kernel_counted() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    index.apply(pod(UID, "web", Some('a')), start);
    let places = [
        container(UID, 'a'),
        container(UID, 'x'),
        container(OTHER_UID, 'b'),
        Place::Host,
        Place::Pod(PodUid::new(UID)),
    ];
    for (cgroup, place) in (1..).zip(places) {
        ledger.cgroup_created(CgroupId(cgroup), place);
    }
    let observed: Vec<_> = (1..=6).map(|cgroup| responses(cgroup, cgroup * 10, 1)).collect();
    let kernel: u64 = observed.iter().flat_map(|(_, tally)| tally.responses).sum();
    ledger.observe(counters(&observed, &[]), &index);
    assert_eq!(sum(&ledger.totals(&index)), kernel);
    for cgroup in 1..=3 {
        ledger.cgroup_removed(CgroupId(cgroup), start);
    }
    let (gone, _) = ledger.retire(start + GRACE, GRACE, &index);
    let left: Vec<_> = observed.into_iter().filter(|(key, _)| !gone.contains(key)).collect();
    ledger.observe(counters(&left, &[]), &index);
    assert_eq!(sum(&ledger.totals(&index)), kernel);
}

/// What can happen to one pod, in the orders in which it can reach us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    CgroupCreated,
    Counts(u64),
    PodApplied,
    CgroupRemoved,
    PodDeleted,
    Reset,
}

/// Every order of the steps that keeps these pairs in order.
fn orders(left: &[Step], ordered: &[(Step, Step)]) -> Vec<Vec<Step>> {
    if left.is_empty() {
        return vec![Vec::new()];
    }
    let comes_too_early = |step: Step| ordered.iter().any(|(first, then)| *then == step && left.contains(first));
    let mut all = Vec::new();
    for step in left.iter().copied().filter(|step| !comes_too_early(*step)) {
        let rest: Vec<Step> = left.iter().copied().filter(|other| *other != step).collect();
        all.extend(orders(&rest, ordered).into_iter().map(|tail| [vec![step], tail].concat()));
    }
    all
}

#[test]
fn counts_are_named_in_every_order_of_events() {
    use Step::{CgroupCreated, CgroupRemoved, Counts, PodApplied, PodDeleted, Reset};
    let steps = [CgroupCreated, Counts(3), Counts(5), PodApplied, CgroupRemoved, PodDeleted, Reset];
    let mut ordered = vec![(CgroupCreated, CgroupRemoved), (Counts(3), Counts(5)), (PodApplied, PodDeleted)];
    // Quickly, so that sockets outlive their cgroup; and slowly, so that the pod may come long after it.
    assert_counts_are_named(Duration::from_secs(11), orders(&steps, &ordered));
    ordered.extend([(Counts(5), CgroupRemoved), (CgroupCreated, Counts(5))]);
    assert_counts_are_named(Duration::from_secs(25), orders(&steps, &ordered));
}

fn assert_counts_are_named(pace: Duration, orders: Vec<Vec<Step>>) {
    use Step::{CgroupCreated, CgroupRemoved, Counts, PodApplied, PodDeleted, Reset};
    assert!(orders.len() > 100, "{} orders", orders.len());
    for order in orders {
        let (mut ledger, mut index, mut now) = (Ledger::default(), Index::default(), Instant::now());
        let (mut kernel, mut taken) = (0, 0);
        for step in &order {
            now += pace;
            match *step {
                CgroupCreated => ledger.cgroup_created(CgroupId(7), container(UID, 'a')),
                Counts(count) => kernel = count,
                PodApplied => index.apply(pod(UID, "web", Some('a')), now),
                CgroupRemoved => ledger.cgroup_removed(CgroupId(7), now),
                PodDeleted => index.delete(&PodUid::new(UID), now),
                Reset => index.reset(Vec::new(), now),
            }
            ledger.learn_containers(&index);
            let in_kernel = if kernel > taken { vec![responses(7, kernel - taken, 0)] } else { Vec::new() };
            ledger.observe(counters(&in_kernel, &[]), &index);
            if !ledger.retire(now, GRACE, &index).0.is_empty() {
                taken = kernel;
            }
            assert_eq!(sum(&ledger.totals(&index)), kernel, "{step:?} in {order:?}");
        }
        assert_eq!(counted(&ledger.totals(&index), "web"), Some((5, 0)), "{order:?}");
    }
}

#[test]
fn counts_of_a_cgroup_nobody_saw_leave_the_kernel_too() {
    let (mut ledger, index, start) = (Ledger::default(), Index::default(), Instant::now());
    let observed = counters(&[responses(7, 3, 1)], &[code(7, 503, 1)]);
    ledger.observe(observed.clone(), &index);
    assert_eq!(ledger.retire(start, GRACE, &index), (vec![], vec![]), "its path may still be read");
    ledger.observe(observed, &index);
    let (tallies, codes) = ledger.retire(start + super::UNSEEN_GRACE, GRACE, &index);
    assert_eq!((tallies.len(), codes.len()), (1, 1));
    ledger.observe(Counters::default(), &index);
    assert_eq!(ledger.totals(&index).unattributed, [(Unattributed::Cgroup, 4)].into());
}

#[test]
fn counts_wait_long_for_a_name_but_not_for_ever() {
    let (mut ledger, index, start) = (Ledger::default(), Index::default(), Instant::now());
    ledger.cgroup_created(CgroupId(7), container(UID, 'a'));
    ledger.observe(counters(&[responses(7, 3, 1)], &[]), &index);
    ledger.cgroup_removed(CgroupId(7), start);
    ledger.retire(start + GRACE, GRACE, &index);
    assert_eq!(ledger.cgroups.len(), 1);
    ledger.observe(Counters::default(), &index);
    ledger.retire(start + super::NAME_GRACE, GRACE, &index);
    assert_eq!((ledger.cgroups.len(), ledger.waiting.tallies.len()), (0, 0));
    assert_eq!(ledger.totals(&index).unattributed, [(Unattributed::Pod, 4)].into());
}

#[test]
fn excluded_pods_are_one_sum() {
    let (mut ledger, mut index, start) = (Ledger::default(), Index::default(), Instant::now());
    let mut excluded = pod(UID, "web", Some('a'));
    excluded.excluded = true;
    index.apply(excluded, start);
    ledger.cgroup_created(CgroupId(7), container(UID, 'a'));
    ledger.observe(counters(&[responses(7, 3, 1)], &[code(7, 503, 1)]), &index);
    let totals = ledger.totals(&index);
    assert_eq!((totals.excluded, totals.series.len(), totals.codes.len()), (4, 0, 0));
}
