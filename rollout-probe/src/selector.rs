//! Pure: label selectors as `kubectl --selector` takes them.
//!
//! Equality (`a=b`, `a==b`, `a!=b`), sets (`a in (b, c)`, `a notin (b, c)`) and existence (`a`, `!a`), joined by commas: all of
//! them must hold. As in Kubernetes, `!=` and `notin` hold for an object without the label
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>).

use std::collections::BTreeMap;

/// Which objects to take, by their labels. The default takes all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector; the error is the part that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| requirement(part).ok_or_else(|| part.to_owned())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an object with these labels is taken.
    pub fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|Requirement { key, operator }| {
            let value = labels.get(key);
            match operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// At the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_u32, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn requirement(text: &str) -> Option<Requirement> {
    let of = |key: &str, operator| is_key(key.trim()).then(|| Requirement { key: key.trim().to_owned(), operator });
    if let Some(key) = text.strip_prefix('!') {
        return of(key, Operator::DoesNotExist);
    }
    if let Some(list) = text.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let values = list.split(',').map(value).collect::<Option<Vec<_>>>()?;
        let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
        return match word {
            "in" => of(key, Operator::In(values)),
            "notin" => of(key, Operator::NotIn(values)),
            _ => None,
        };
    }
    if let Some((key, unequal)) = text.split_once("!=") {
        return of(key, Operator::NotIn(vec![value(unequal)?]));
    }
    if let Some((key, equal)) = text.split_once('=') {
        return of(key, Operator::In(vec![value(equal.strip_prefix('=').unwrap_or(equal))?]));
    }
    of(text, Operator::Exists)
}

/// A label's value may be empty.
fn value(text: &str) -> Option<String> {
    let text = text.trim();
    (text.len() <= 63 && text.bytes().all(is_label_byte)).then(|| text.to_owned())
}

fn is_key(text: &str) -> bool {
    let name = text.rsplit_once('/').map_or(text, |(_prefix, name)| name);
    !name.is_empty() && text.bytes().all(|byte| is_label_byte(byte) || byte == b'/')
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::Selector;

    fn takes(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Selector::parse(selector).expect("valid").takes(&labels)
    }

    #[test]
    fn every_requirement_must_hold() {
        let labels = [("app", "web"), ("tier", "front"), ("example.com/team", "")];
        for selector in [
            "",
            "app=web",
            "app == web",
            "app!=api",
            "missing!=x",
            "app in (api, web)",
            "app notin (api),tier",
            "missing notin (x)",
            "!missing, example.com/team",
            "example.com/team=",
        ] {
            assert!(takes(selector, &labels), "{selector}");
        }
        for selector in
            ["app=api", "app!=web", "app in (api)", "app notin (web,api)", "missing", "!app", "app=web,tier=back"]
        {
            assert!(!takes(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_named() {
        for (selector, part) in [
            ("a=b,=c", "=c"),
            ("a=b c", "a=b c"),
            ("a in b", "a in b"),
            ("a among (b)", "a among (b)"),
            ("ok,!", "!"),
            ("a=(b", "a=(b"),
        ] {
            assert_eq!(Selector::parse(selector), Err(part.to_owned()), "{selector}");
        }
    }
}
