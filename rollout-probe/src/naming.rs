//! Pure: which pods get series of their own, and with which labels. What the operator says of cardinality is decided here, once
//! for each pod, when its object is read.

use std::collections::BTreeMap;

use crate::selector::Selector;

/// The operator's rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Naming {
    /// Series have the label `pod`; without it they add up per revision.
    pub keep_pod: bool,
    /// Series have the label `container`.
    pub keep_container: bool,
    /// Only these namespaces, if there are any.
    pub namespaces: Vec<String>,
    /// Not these namespaces.
    pub excluded_namespaces: Vec<String>,
    /// Only pods with such labels.
    pub selector: Selector,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            keep_pod: true,
            keep_container: true,
            namespaces: Vec::new(),
            excluded_namespaces: Vec::new(),
            selector: Selector::default(),
        }
    }
}

impl Naming {
    /// Whether a pod with these labels in this namespace gets series. The counts of others are in one sum, so none is lost.
    pub fn takes(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == namespace);
        (self.namespaces.is_empty() || named(&self.namespaces))
            && !named(&self.excluded_namespaces)
            && self.selector.takes(labels)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Naming;
    use crate::selector::Selector;

    #[test]
    fn pods_are_taken_by_namespace_and_labels() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let naming = |namespaces: &[&str], excluded: &[&str], selector: &str| Naming {
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            excluded_namespaces: excluded.iter().map(|name| (*name).to_owned()).collect(),
            selector: Selector::parse(selector).expect("valid"),
            ..Naming::default()
        };
        assert!(naming(&[], &[], "").takes("shop", &labels));
        assert!(naming(&["shop", "bank"], &["kube-system"], "app=web").takes("shop", &labels));
        assert!(!naming(&["bank"], &[], "").takes("shop", &labels));
        assert!(!naming(&["shop"], &["shop"], "").takes("shop", &labels));
        assert!(!naming(&[], &[], "app=api").takes("shop", &labels));
    }
}
