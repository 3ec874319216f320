//! rollout-probe's daemon: counts what leaves the pods' sockets, names it, shows it.
//!
//! The flow, module by module. *Count*: [`kernel`] attaches the programs and reads their maps into the [`ledger`]. *Name*:
//! [`cgroup_fs`] follows the cgroup tree, [`mod@cgroup`] reads pod and container from a path; [`cluster`] or [`pods_file`] bring pods,
//! a [`pod_record`] is what is kept of each: its [`revision`], its [`pod_status`], named as [`naming`] and [`selector`] say; the [`index`]
//! keeps them as [`identity`]. *Show*: [`recent`] remembers who failed lately, [`series`] joins ledger and index
//! at each scrape, with the buckets of [`durations`], [`exposition`] picks the format, [`admin`] serves it. [`app`] wires everything; [`health`] and [`hook`] say how
//! the daemon itself is.
//!
//! All are pure (no IO, tested without root) but the edges: `cgroup_fs`, `kernel`, `cluster`, `pods_file`, `admin` and `telemetry`. Edges use pure modules, never each other.

pub mod admin;
pub mod app;
pub mod cgroup;
pub mod cgroup_fs;
pub mod cluster;
pub mod config;
pub mod durations;
pub mod exposition;
pub mod health;
pub mod hook;
pub mod identity;
pub mod index;
pub mod kernel;
pub mod ledger;
pub mod naming;
pub mod node;
pub mod pod_record;
pub mod pod_status;
pub mod pods;
pub mod pods_file;
pub mod recent;
pub mod revision;
pub mod selector;
pub mod series;
pub mod telemetry;
