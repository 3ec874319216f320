//! A real Prometheus that scrapes the daemon, and promtool.
//!
//! Owns the process, its generated configuration and its data, in a temp dir. Queries go through the HTTP API as a
//! dashboard's would; `honor_labels` is on, as the shipped `PodMonitor` has it.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{controlplane::free_port, process::Process};

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The labels of a series, `__name__` among them.
pub type Labels = BTreeMap<String, String>;

/// Unix time and value, as stored.
pub type RawSample = (f64, f64);

/// A running Prometheus; stopped and removed on drop.
#[derive(Debug)]
pub struct Prometheus {
    process: Process, // first: dropped, and so stopped, before its files go
    address: SocketAddr,
    _dir: TempDir,
}

impl Prometheus {
    /// Which of its two programs are not installed.
    pub fn missing() -> Vec<&'static str> {
        let runs = |name: &&str| {
            let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        ["prometheus", "promtool"].into_iter().filter(|name| !runs(name)).collect()
    }

    /// Starts it with one target, scraped at this interval, and returns when it answers queries.
    pub fn start(target: SocketAddr, scrape_interval: Duration) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("rollout-probe-prometheus-").tempdir()?;
        let address: SocketAddr = format!("127.0.0.1:{}", free_port()?).parse()?;
        let interval = format!("{}ms", scrape_interval.as_millis());
        let config = serde_json::json!({
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": [{
                "job_name": "rollout-probe",
                "honor_labels": true,
                "static_configs": [{"targets": [target.to_string()]}],
            }],
        });
        std::fs::write(dir.path().join("prometheus.yml"), config.to_string())?; // JSON is YAML
        let mut command = Command::new("prometheus");
        command.current_dir(dir.path()).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address={address}"));
        let mut prometheus = Self { process: Process::spawn(command)?, address, _dir: dir };
        prometheus.wait_until_ready()?;
        Ok(prometheus)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = self.get("/-/ready") {
            if !self.process.is_running() || Instant::now() > deadline {
                return Err(
                    error.context(format!("prometheus did not get ready; its log:\n{}", self.process.log_tail()))
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The value of every series of an instant query, as of `at`.
    pub fn query(&self, promql: &str, at: SystemTime) -> Result<Vec<(Labels, f64)>> {
        let series = self.query_result(promql, at)?;
        series.into_iter().map(|(labels, value)| Ok((labels, sample(&value["value"])?.1))).collect()
    }

    /// The raw samples that a range selector such as `name[1m]` takes in, as of `at`.
    pub fn query_range_selector(&self, promql: &str, at: SystemTime) -> Result<Vec<(Labels, Vec<RawSample>)>> {
        let mut selected = Vec::new();
        for (labels, series) in self.query_result(promql, at)? {
            let values = series["values"].as_array().with_context(|| format!("no samples in {series}"))?;
            selected.push((labels, values.iter().map(sample).collect::<Result<_>>()?));
        }
        Ok(selected)
    }

    fn query_result(&self, promql: &str, at: SystemTime) -> Result<Vec<(Labels, Value)>> {
        let time = at.duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let path = format!("/api/v1/query?time={time:.3}&query={}", percent_encode(promql));
        let answer: Value = serde_json::from_str(&self.get(&path).with_context(|| format!("query {promql:?}"))?)?;
        let result = answer["data"]["result"].as_array().with_context(|| format!("no result in {answer}"))?;
        result.iter().map(|series| Ok((serde_json::from_value(series["metric"].clone())?, series.clone()))).collect()
    }

    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        // HTTP/1.0: the answer comes unchunked and ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        ensure!(head.split(' ').nth(1) == Some("200"), "{} answered: {head}\n{body}", self.address);
        Ok(body.to_owned())
    }
}

/// `promtool check metrics` over an exposition in Prometheus text format; what it finds wrong is the error.
pub fn promtool_check_metrics(exposition: &str) -> Result<()> {
    let mut input = tempfile::tempfile()?;
    input.write_all(exposition.as_bytes())?;
    std::io::Seek::rewind(&mut input)?;
    let output =
        Command::new("promtool").args(["check", "metrics"]).stdin(input).output().context("cannot run promtool")?;
    if !output.status.success() {
        bail!("promtool check metrics: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// `[1435781451.781, "1"]`
fn sample(value: &Value) -> Result<RawSample> {
    let parsed = || Some((value[0].as_f64()?, value[1].as_str()?.parse().ok()?));
    parsed().with_context(|| format!("not a sample: {value}"))
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::percent_encode;

    #[test]
    fn percent_encode_leaves_only_unreserved_bytes() {
        assert_eq!(percent_encode("sum(a_b{c=\"d é\"}[1m])"), "sum%28a_b%7Bc%3D%22d%20%C3%A9%22%7D%5B1m%5D%29");
    }
}
