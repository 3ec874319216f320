//! rollout-probe's daemon: counts what leaves the pods' sockets, names it, shows it.
//!
//! The flow, module by module. *Count*: [`kernel`] attaches the programs and reads their maps into the [`ledger`]. *Name*:
//! [`cgroup_fs`] follows the cgroup tree, [`mod@cgroup`] reads pod and container from a path; [`cluster`] or [`pods_file`] bring pods,
//! [`revision`] finds workload and revision, the [`index`] keeps them as [`identity`]. *Show*: [`series`] joins ledger and index
//! at each scrape, [`exposition`] picks the format, [`admin`] serves it. [`app`] wires everything; [`health`] and [`hook`] say how
//! the daemon itself is.
//!
//! `cgroup`, `exposition`, `health`, `hook`, `identity`, `index`, `ledger`, `node`, `pods`, `revision` and `series` are pure: no IO, tested
//! without root. `cgroup_fs`, `kernel`, `cluster`, `pods_file`, `admin` and `telemetry` are edges. Edges use pure modules, never each other.

pub mod admin;
pub mod app;
pub mod cgroup;
pub mod cgroup_fs;
pub mod cluster;
pub mod config;
pub mod exposition;
pub mod health;
pub mod hook;
pub mod identity;
pub mod index;
pub mod kernel;
pub mod ledger;
pub mod node;
pub mod pods;
pub mod pods_file;
pub mod revision;
pub mod series;
pub mod telemetry;
