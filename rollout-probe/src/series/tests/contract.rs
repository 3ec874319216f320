//! `docs/metrics.md` against the exposition: the same families, of the same types, with the same labels, and no label value that
//! the document does not name.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics;
use crate::exposition::Format;

const DOCUMENT: &str = "docs/metrics.md";
/// Labels whose values come from outside.
const FREE: [&str; 11] = [
    "namespace",
    "pod",
    "container",
    "workload",
    "workload_kind",
    "revision",
    "node",
    "uid",
    "version",
    "images",
    "number",
];

/// Type and labels by name.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

fn document() -> String {
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md")).to_owned()
}

#[test]
fn families_types_and_labels_are_those_of_the_document() {
    let (documented, exposed) = (documented(&document()), exposed(&metrics(Format::Prometheus)));
    let names = documented.keys().chain(exposed.keys()).collect::<BTreeSet<_>>();
    let differences: Vec<_> = names
        .into_iter()
        .filter(|name| documented.get(*name) != exposed.get(*name))
        .map(|name| format!("{name}: documented {:?}, exposed {:?}", documented.get(name), exposed.get(name)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn label_values_are_named_in_the_document() {
    let document = document();
    let quoted: BTreeSet<&str> = document.split('`').skip(1).step_by(2).collect();
    for (label, value) in samples(&metrics(Format::Prometheus)).flat_map(|(_, labels)| labels) {
        let is_free = FREE.contains(&label.as_str()) || ["le", "code"].contains(&label.as_str());
        assert!(is_free || quoted.contains(value.as_str()), "{label}={value:?} is not in {DOCUMENT}");
    }
}

#[test]
fn examples_of_the_document_are_series_of_theirs() {
    let (document, text) = (document(), metrics(Format::Prometheus));
    let examples: String = document
        .lines()
        .filter(|line| line.starts_with("    rollout_probe_"))
        .flat_map(|line| [line.trim(), "\n"])
        .collect();
    let names = |labels: Vec<(String, String)>| labels.into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    let exposed: Vec<_> = samples(&text).map(|(name, labels)| (name, names(labels))).collect();
    assert!(examples.lines().count() >= 5, "the examples are gone from {DOCUMENT}");
    for (name, labels) in samples(&examples) {
        let example = (name, names(labels));
        assert!(exposed.contains(&example), "no series is like the example {example:?}");
    }
}

/// From the tables: a row begins with a family's name. Those of pods say which labels they have beside the identity, and `no x`.
fn documented(document: &str) -> Families {
    let mut families = Families::new();
    let mut identity = BTreeSet::new();
    for line in document.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells[..] else { continue };
        let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        if name == "label" && identity.is_empty() {
            identity.extend(identity_labels(document));
        }
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        if !name.starts_with("rollout_probe_") {
            continue;
        }
        let (with, without) = labels.split_once("no ").unwrap_or((labels, ""));
        let mut all = quoted(with);
        if is_of_pods(document, line) {
            all.extend(identity.difference(&quoted(without)).cloned());
        }
        let kind = kind.split(',').next().unwrap_or_default();
        assert!(families.insert(name.to_owned(), (kind.to_owned(), all)).is_none(), "{name} is documented twice");
    }
    families
}

fn identity_labels(document: &str) -> BTreeSet<String> {
    let (_, table) = document.split_once("Identity, on every series of a pod:").expect("the identity's table");
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn is_of_pods(document: &str, row: &str) -> bool {
    let (before, _) = document.split_once(row).expect("a row of it");
    let heading = before.lines().rev().find(|line| line.starts_with("## ")).unwrap_or_default();
    heading == "## What pods do"
}

fn exposed(text: &str) -> Families {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut families: Families =
        types.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), BTreeSet::new()))).collect();
    for (sample, labels) in samples(text) {
        let suffixes = ["", "_bucket", "_sum", "_count"];
        let family =
            suffixes.iter().find_map(|suffix| sample.strip_suffix(suffix).filter(|name| families.contains_key(*name)));
        let name = family.unwrap_or_else(|| panic!("{sample} has no TYPE")).to_owned();
        let (_, all) = families.get_mut(&name).expect("found above");
        all.extend(labels.into_iter().map(|(label, _)| label).filter(|label| label != "le"));
    }
    families
}

/// Names and labels. No value here has a comma or a quotation mark in it.
fn samples(text: &str) -> impl Iterator<Item = (String, Vec<(String, String)>)> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap_or_default(), "}"));
        let (labels, _) = labels.split_once('}').expect("a closing brace");
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        (name.to_owned(), pairs.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned())).collect())
    })
}
