//! The wiring: the only place that knows all parts.
//!
//! Start: find the cgroup root, read the pods file if there is one, bind, attach. Everything that can be wrong with the start
//! is found before the daemon calls itself started, and what is attached goes when the process goes. After that nothing is
//! fatal but the end of a task that must live.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use prometheus_client::{encoding::text, registry::Registry};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time,
};

use crate::{
    admin, cgroup,
    cgroup_fs::{self, CgroupEvent},
    cluster,
    config::{Config, PodSource},
    index::Index,
    kernel::{Probe, Settings},
    naming::Naming,
    node::Node,
    pod_record::PodRecord,
    pods::PodEvent,
    pods_file,
    series::{NodeCollector, SERIES_PER_CONTAINER},
};

/// How long the counters of a removed cgroup stay in the kernel: its last sockets may outlive it.
const CGROUP_GRACE: Duration = Duration::from_mins(1);
/// How often what is over is cleaned up. Nothing is lost between two rounds.
const HOUSEKEEPING: Duration = Duration::from_secs(10);
/// Events of pods and cgroups that may wait.
const QUEUE: usize = 1024;
/// For open connections at the end.
const DRAIN: Duration = Duration::from_secs(1);

/// The parts that more than one task uses.
struct App {
    node: Arc<Mutex<Node>>,
    probe: Mutex<Probe>,
    probers: Vec<String>,
    pod_grace: Duration,
    registry: Registry,
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(config: Config) -> Result<()> {
    let root = find_root(config.cgroup_root.clone())?;
    let (pods_tx, pods_rx) = mpsc::channel(QUEUE);
    let source = start_source(&config).await?;
    let listener = admin::bind(config.metrics_addr)
        .await
        .with_context(|| format!("cannot listen on `{}`", config.metrics_addr))?;
    let probe = Probe::attach(&root, &Settings { duration_bounds_ns: config.durations.for_the_programs() })?;
    let app = Arc::new(App::new(&config, probe));
    let addr = listener.local_addr().unwrap_or(config.metrics_addr);
    app.announce(&root, &addr.to_string());

    let (stop_tx, stop_rx) = tokio::sync::oneshot::channel::<()>();
    let mut server = tokio::spawn(admin::serve(listener, Arc::clone(&app), async {
        let _closed_is_stop_too = stop_rx.await;
    }));
    let ended = tokio::select! {
        result = signalled() => result,
        result = follow_cgroups(Arc::clone(&app), root) => result,
        result = source.run(pods_tx) => result,
        () = take_pods(&app, pods_rx) => Err(anyhow!("the source of pods ended")),
        () = app.keep_house() => Ok(()),
        result = &mut server => Err(anyhow!("the metrics server ended: {result:?}")),
    };
    let _server_may_be_gone = stop_tx.send(());
    let drained = time::timeout(DRAIN, &mut server).await.is_ok();
    tracing::info!(drained, "detached; the programs go with this process");
    ended
}

fn find_root(given: Option<PathBuf>) -> Result<PathBuf> {
    let root = match given {
        Some(root) => root,
        None => cgroup_fs::find_root("/proc/self/mountinfo".as_ref())?,
    };
    cgroup_fs::check_root(&root)?;
    Ok(root)
}

async fn signalled() -> Result<()> {
    let mut term = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let name = tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    };
    tracing::info!(signal = name, "stopping");
    Ok(())
}

/// Where the pods come from, checked as far as it can be before anything is attached.
enum Source {
    Api { client: kube::Client, node: String, naming: Naming },
    File { path: PathBuf, node: Option<String>, naming: Naming, first: Vec<PodRecord> },
}

async fn start_source(config: &Config) -> Result<Source> {
    let naming = config.naming.clone();
    Ok(match &config.pods {
        PodSource::Api { node, kubeconfig } => {
            Source::Api { client: cluster::client(kubeconfig.as_deref()).await?, node: node.clone(), naming }
        }
        PodSource::File(path) => {
            let first = pods_file::read(path, config.node.as_deref(), &naming)?;
            Source::File { path: path.clone(), node: config.node.clone(), naming, first }
        }
    })
}

impl Source {
    async fn run(self, pods: mpsc::Sender<PodEvent>) -> Result<()> {
        let ended = match self {
            Self::Api { client, node, naming } => cluster::watch(client, &node, &naming, pods).await,
            Self::File { path, node, naming, first } => {
                let _closed_is_found_below = pods.send(PodEvent::Reset(first)).await;
                pods_file::watch(path, node, naming, pods).await
            }
        };
        Err(anyhow!("the source of pods ended: {ended:?}"))
    }
}

/// Feeds pod events to the index for as long as they come.
async fn take_pods(app: &App, mut pods: mpsc::Receiver<PodEvent>) {
    while let Some(event) = pods.recv().await {
        app.take_pod(event);
    }
}

/// Follows the cgroup tree in a thread of its own: inotify blocks.
async fn follow_cgroups(app: Arc<App>, root: PathBuf) -> Result<()> {
    let (done_tx, done_rx) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("cgroups".to_owned())
        .spawn(move || {
            let result = cgroup_fs::follow(&root, |event| {
                app.take_cgroup(event);
                true
            });
            let _nobody_waits_any_more = done_tx.send(result);
        })
        .context("cannot start the thread that follows the cgroup tree")?;
    match done_rx.await {
        Ok(Ok(())) | Err(_) => Err(anyhow!("the thread that follows the cgroup tree ended")),
        Ok(Err(error)) => Err(error.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    fn new(config: &Config, probe: Probe) -> Self {
        let mut node = Node {
            name: config.node.clone().unwrap_or_default(),
            index: Index::with_limit(config.max_series / SERIES_PER_CONTAINER),
            durations: config.durations.clone(),
            aggregated: !config.naming.keep_pod,
            ..Node::default()
        };
        node.health.hooks = probe.hooks().clone();
        let node = Arc::new(Mutex::new(node));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(NodeCollector(Arc::clone(&node))));
        let (probers, pod_grace) = (config.probe_cgroups.clone(), config.pod_grace);
        Self { node, probe: Mutex::new(probe), probers, pod_grace, registry }
    }

    /// The one line of the start that says what is on and what is not.
    fn announce(&self, root: &std::path::Path, addr: &str) {
        let node = lock(&self.node);
        let state = |hook: &crate::hook::Hook| match &hook.unavailable {
            None => hook.name.to_owned(),
            Some(reason) => format!("{} (unavailable: {reason})", hook.name),
        };
        let hooks = node.health.hooks.iter().map(state).collect::<Vec<_>>().join(", ");
        tracing::info!(version = env!("CARGO_PKG_VERSION"), node = node.name, cgroup_root = %root.display(), metrics = addr, hooks, "counting");
    }

    fn take_pod(&self, event: PodEvent) {
        let mut node = lock(&self.node);
        let node = &mut *node;
        let now = Instant::now();
        match event {
            PodEvent::Apply(record) => node.index.apply(*record, now),
            PodEvent::Owner(uid, facts) => node.index.owner_known(&uid, facts),
            PodEvent::Delete(uid) => node.index.delete(&uid, now),
            PodEvent::Reset(records) => {
                tracing::info!(pods = records.len(), "pods listed");
                node.index.reset(records, now);
                node.health.pods_listed = true;
            }
            PodEvent::Error(stage, error) => {
                *node.health.watch_errors.entry(stage).or_default() += 1;
                let error: &dyn std::error::Error = &*error;
                tracing::warn!(stage = stage.label(), error, "cannot read the pods; counting goes on with those known");
                return;
            }
        }
        node.health.pods_heard = Some(now);
        node.ledger.learn_containers(&node.index);
    }

    fn take_cgroup(&self, event: CgroupEvent) {
        match event {
            CgroupEvent::Created(id, path) => {
                let place = cgroup::place(&path, &self.probers);
                if place == cgroup::Place::Prober
                    && let Err(error) = lock(&self.probe).add_prober(id)
                {
                    tracing::warn!(%error, path, "probes from this cgroup will be counted as traffic");
                }
                tracing::trace!(id = id.0, path, ?place, "cgroup created");
                let mut node = lock(&self.node);
                let node = &mut *node;
                node.ledger.cgroup_created(id, place);
                node.ledger.learn_containers(&node.index);
            }
            CgroupEvent::Removed(id) => {
                lock(&self.node).ledger.cgroup_removed(id, Instant::now());
                if let Err(error) = lock(&self.probe).remove_prober(id) {
                    tracing::debug!(%error, id = id.0, "cannot remove a prober");
                }
            }
            CgroupEvent::Walked => lock(&self.node).health.cgroups_walked = true,
        }
    }

    /// Reads the kernel's counters into the ledger. The ledger keeps the last ones when that fails.
    fn observe(&self) {
        let counters = lock(&self.probe).snapshot();
        let mut node = lock(&self.node);
        let node = &mut *node;
        match counters {
            Ok(counters) => node.ledger.observe(counters, &node.index),
            Err(error) => {
                node.health.snapshot_errors += 1;
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot read the kernel's counters");
            }
        }
    }

    async fn keep_house(&self) {
        let mut timer = time::interval(HOUSEKEEPING);
        loop {
            timer.tick().await;
            self.clean_up(Instant::now());
        }
    }

    /// Takes over the counters of cgroups that are gone, and drops the series of pods that are gone.
    fn clean_up(&self, now: Instant) {
        self.observe();
        let (tallies, codes) = {
            let mut node = lock(&self.node);
            let node = &mut *node;
            node.totals(now); // errors are noticed also when nobody scrapes
            let forgettable = node.ledger.retire(now, CGROUP_GRACE, &node.index);
            if node.index.expire(now, self.pod_grace) {
                node.ledger.drop_series_without_pod(&node.index);
            }
            forgettable
        };
        if let Err(error) = lock(&self.probe).forget(&tallies, &codes) {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot free counters of removed cgroups");
        }
    }
}

impl admin::Pages for App {
    fn metrics(&self) -> Result<String, String> {
        self.observe();
        let mut out = String::new();
        text::encode(&mut out, &self.registry).map_err(|error| format!("cannot render the metrics: {error}"))?;
        Ok(out)
    }

    fn is_ready(&self) -> bool {
        lock(&self.node).health.is_ready()
    }
}
