//! The users: they ask every pod that is Ready, over kept connections, as a Service would spread them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use testbed::{
    checkout::PORT,
    kubelet::{Endpoints, PodRecord},
    load::{self, Load, Target, TargetTally},
    node::Host,
};

const CONNECTIONS: u32 = 4;
const INTERVAL: Duration = Duration::from_millis(20);
/// `/missing` is a 404 in every revision: an error of the user, not of the pod.
const MIX: [(&str, u32); 4] = [("/ok", 11), ("/api/pay", 5), ("/api/cart", 2), ("/missing", 2)];

/// By pod uid, what the users saw.
pub(crate) type Seen = BTreeMap<String, TargetTally>;

/// Shared between the cluster, which says whom to ask, and the demo, which ends it.
#[derive(Clone)]
pub(crate) struct Traffic {
    user: Host,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<String, Load>, // by pod uid
    seen: Seen,
}

impl Traffic {
    pub(crate) fn new(user: Host) -> Self {
        Self { user, state: Arc::default() }
    }

    /// Lets what was sent be answered, and sends no more to anybody.
    pub(crate) fn stop(&self) -> Result<Seen> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for uid in state.running.keys().cloned().collect::<Vec<_>>() {
            state.end(&uid)?;
        }
        Ok(state.seen.clone())
    }
}

impl Endpoints for Traffic {
    fn add(&mut self, pod: &PodRecord) -> Result<()> {
        let target = Target::new(format!("{}:{PORT}", pod.ip), load::gets(&MIX));
        let target = target.connections(CONNECTIONS).interval(INTERVAL).until_stopped();
        let load = Load::start(&self.user.place, &[target])?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running.insert(pod.uid.clone(), load);
        Ok(())
    }

    fn remove(&mut self, pod: &PodRecord) -> Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end(&pod.uid)
    }
}

impl State {
    /// A pod that gets no traffic is fine.
    fn end(&mut self, uid: &str) -> Result<()> {
        let Some(load) = self.running.remove(uid) else { return Ok(()) };
        let tally = load.stop()?.pop().context("one target, no tally")?;
        if tally.timed_out > 0 || tally.connect_errors > 0 {
            bail!("{} requests timed out, {} connections failed: {uid}", tally.timed_out, tally.connect_errors);
        }
        self.seen.entry(uid.to_owned()).or_default().add(&tally);
        Ok(())
    }
}
