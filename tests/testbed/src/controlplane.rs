//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
//!
//! Owns the four processes and their temp dir, hands out kubeconfigs (admin, or bound to one `ServiceAccount`), a client and
//! a `kubectl` runner. There is no kubelet and no network here: `kubelet` plays a node. The binaries come from the folder
//! named by `KUBEBUILDER_ASSETS`, as in kubebuilder's envtest; v1.20 and newer releases are understood.

use std::{
    env,
    ffi::OsStr,
    fmt,
    fs::{self, File},
    future::Future,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

use crate::process::Process;

/// The folder with the binaries, as kubebuilder's envtest names it.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

const ADMIN_TOKEN: &str = "admin-token";
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Enough to roll Deployments and to clean up after them. Node lifecycle is left out: `kubelet` says when its node is ready.
const CONTROLLERS: &str = "deployment,replicaset,statefulset,daemonset,garbagecollector,namespace,serviceaccount";

/// A running control plane; stopped and removed on drop.
pub struct ControlPlane {
    processes: Vec<Process>, // first: dropped, and so stopped, before its files go
    runtime: Runtime,
    client: Client,
    binaries: Binaries,
    server: String,
    dir: TempDir,
}

impl ControlPlane {
    /// Why no control plane can be started here, if so.
    pub fn missing() -> Option<String> {
        Binaries::find().err().map(|error| format!("{error:#}"))
    }

    /// Starts all four and returns when the API server is ready.
    pub fn start() -> Result<Self> {
        let binaries = Binaries::find()?;
        let dir = tempfile::Builder::new().prefix("rollout-probe-controlplane-").tempdir()?;
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let port = free_port()?;
        let server = format!("https://127.0.0.1:{port}");
        write_credentials(dir.path())?;

        let mut processes = vec![spawn(dir.path(), etcd(&binaries, &etcd_url)?)?];
        processes.push(spawn(dir.path(), api_server(&binaries, &etcd_url, port))?);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let admin = dir.path().join("kubeconfig");
        fs::write(&admin, kubeconfig(dir.path(), &server, "admin", ADMIN_TOKEN).to_string())?;
        wait_until_ready(|| kubectl_command(&binaries.kubectl, &admin), &mut processes)?;
        let client = runtime.block_on(connect(&admin))?;

        let old = binaries.minor_version()? < 24; // these also served plain HTTP unless told not to
        for name in ["kube-controller-manager", "kube-scheduler"] {
            let mut command = Command::new(binaries.kubernetes(name));
            command.args(["--kubeconfig=kubeconfig", "--leader-elect=false", "--secure-port=0"]);
            command.args(old.then_some("--port=0"));
            if name == "kube-controller-manager" {
                command.arg("--service-account-private-key-file=sa.key").arg(format!("--controllers={CONTROLLERS}"));
            }
            processes.push(spawn(dir.path(), command)?);
        }
        Ok(Self { processes, runtime, client, binaries, server, dir })
    }

    /// An admin's client. Its calls need [`Self::block_on`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// For threads that make calls of their own.
    pub(crate) fn runtime_handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// kubectl as admin, for what [`Self::kubectl`] is too simple for.
    pub fn kubectl_command(&self) -> Command {
        kubectl_command(&self.binaries.kubectl, &self.kubeconfig())
    }

    /// Runs kubectl as admin and returns what it printed; its stderr is in the error.
    pub fn kubectl<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        run_to_string(self.kubectl_command().args(arguments))
    }

    /// `kubectl create -f -` and the like.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let path = self.dir.path().join("stdin.yaml");
        fs::write(&path, input)?;
        run_to_string(self.kubectl_command().args(arguments).stdin(File::open(path)?))
    }

    /// A kubeconfig that authenticates as this `ServiceAccount` and nobody else, with a token that the API server minted.
    pub fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let request = TokenRequest::default();
        let minted = self.block_on(accounts.create_token_request(name, &PostParams::default(), &request));
        let minted = minted.with_context(|| format!("cannot mint a token for ServiceAccount {namespace}/{name}"))?;
        let token = minted.status.context("the API server answered a TokenRequest without a token")?.token;
        let path = self.dir.path().join(format!("{namespace}-{name}.kubeconfig"));
        fs::write(&path, kubeconfig(self.dir.path(), &self.server, name, &token).to_string())?;
        Ok(path)
    }

    /// The last lines of every process's log, for failures.
    pub fn log_tails(&self) -> String {
        self.processes.iter().map(Process::log_tail).collect()
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ControlPlane").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Where each program is.
#[derive(Debug)]
struct Binaries {
    assets: PathBuf,
    etcd: PathBuf,
    kubectl: PathBuf,
}

impl Binaries {
    fn find() -> Result<Self> {
        let assets = env::var_os(ASSETS_VARIABLE).with_context(|| format!("{ASSETS_VARIABLE} is not set"))?;
        let assets = PathBuf::from(assets);
        for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            ensure!(assets.join(name).is_file(), "{ASSETS_VARIABLE}={} has no {name}", assets.display());
        }
        let find = |name: &str| {
            let path = env::var_os("PATH").unwrap_or_default();
            let mut candidates =
                std::iter::once(assets.clone()).chain(env::split_paths(&path)).map(|dir| dir.join(name));
            candidates.find(|file| file.is_file()).with_context(|| format!("no {name} in {ASSETS_VARIABLE} or PATH"))
        };
        Ok(Self { etcd: find("etcd")?, kubectl: find("kubectl")?, assets })
    }

    fn kubernetes(&self, name: &str) -> PathBuf {
        self.assets.join(name)
    }

    /// 20 of "Kubernetes v1.20.2".
    fn minor_version(&self) -> Result<u32> {
        let printed = run_to_string(Command::new(self.kubernetes("kube-scheduler")).arg("--version"))?;
        let minor = printed.split('.').nth(1).and_then(|minor| minor.parse().ok());
        minor.with_context(|| format!("cannot read a version from {printed:?}"))
    }
}

/// The admin's token, and the key pair that signs `ServiceAccount` tokens.
fn write_credentials(dir: &Path) -> Result<()> {
    fs::write(dir.join("tokens.csv"), format!("{ADMIN_TOKEN},admin,admin,system:masters\n"))?;
    let key = rcgen::KeyPair::generate()?;
    fs::write(dir.join("sa.key"), key.serialize_pem())?;
    fs::write(dir.join("sa.pub"), key.public_key_pem())?;
    Ok(())
}

fn etcd(binaries: &Binaries, client_url: &str) -> Result<Command> {
    let peer_url = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = Command::new(&binaries.etcd);
    command.args(["--data-dir=etcd", "--unsafe-no-fsync"]); // nothing here outlives the test
    command.arg(format!("--listen-client-urls={client_url}")).arg(format!("--advertise-client-urls={client_url}"));
    command.arg(format!("--listen-peer-urls={peer_url}")).arg(format!("--initial-advertise-peer-urls={peer_url}"));
    command.arg(format!("--initial-cluster=default={peer_url}"));
    Ok(command)
}

fn kubectl_command(kubectl: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(kubectl);
    // HOME: its discovery cache belongs to this control plane only.
    command.env("KUBECONFIG", kubeconfig).env("HOME", kubeconfig.with_file_name("home")).stdin(Stdio::null());
    command
}

/// Two admission plugins are off: pods need no `ServiceAccount` token mounted, and nothing here would take the not-ready taint
/// off a new node.
fn api_server(binaries: &Binaries, etcd_url: &str, port: u16) -> Command {
    let mut command = Command::new(binaries.kubernetes("kube-apiserver"));
    command.arg(format!("--etcd-servers={etcd_url}")).arg(format!("--secure-port={port}")).args([
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--cert-dir=certs",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-signing-key-file=sa.key",
        "--service-account-key-file=sa.pub",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]);
    command
}

/// The API server signs its own certificate at start; clients trust exactly that one.
fn kubeconfig(dir: &Path, server: &str, user: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "test",
            "cluster": {"server": server, "certificate-authority": dir.join("certs/apiserver.crt")},
        }],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    })
}

/// Asks for /readyz until the API server says ok; a dead process or the deadline is an error with the logs.
fn wait_until_ready(kubectl: impl Fn() -> Command, processes: &mut [Process]) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    while let Err(error) = run_to_string(kubectl().args(["get", "--raw=/readyz"])) {
        let dead = processes.iter_mut().any(|process| !process.is_running());
        if dead || Instant::now() > deadline {
            let logs: String = processes.iter().map(Process::log_tail).collect();
            return Err(error.context(format!("the API server did not get ready; its log and etcd's:\n{logs}")));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

/// Every program runs in the temp dir, so that its arguments can be short names.
fn spawn(dir: &Path, mut command: Command) -> Result<Process> {
    command.current_dir(dir);
    Process::spawn(command)
}

fn run_to_string(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} {} failed: {}", command.get_program().display(), arguments.join(" "), stderr.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
