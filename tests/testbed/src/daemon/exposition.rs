//! Reads the Prometheus text format, and the part of OpenMetrics that it shares. Pure.

use std::{collections::BTreeMap, str::Chars};

use anyhow::{Context, Result, bail};

/// One line of an exposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    /// A label's value; empty when it is not there, which means the same.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.name == name && labels.iter().all(|(label, value)| self.label(label) == *value)
    }
}

/// The sum of all samples of this name that have all these labels.
pub fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    samples.iter().filter(|sample| sample.has(name, labels)).map(|sample| sample.value).sum()
}

/// All samples; comments, and with them the types, are left out.
pub fn parse(exposition: &str) -> Result<Vec<Sample>> {
    let lines = exposition.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).with_context(|| format!("not a sample: `{line}`"))).collect()
}

/// `name{label="value",..} value`, perhaps followed by a time.
fn parse_line(line: &str) -> Result<Sample> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    let mut rest = rest.chars();
    if rest.as_str().starts_with('{') {
        rest.next();
        parse_labels(&mut rest, &mut labels)?;
    }
    let value = rest.as_str().split_whitespace().next().context("no value")?;
    // Rust reads `NaN`, `+Inf` and `-Inf` too.
    let value = value.parse().with_context(|| format!("`{value}` is no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// From after the opening brace to after the closing one.
fn parse_labels(rest: &mut Chars<'_>, labels: &mut BTreeMap<String, String>) -> Result<()> {
    loop {
        let text = rest.as_str().trim_start_matches([',', ' ']);
        if let Some(after) = text.strip_prefix('}') {
            *rest = after.chars();
            return Ok(());
        }
        let (name, value) = text.split_once("=\"").context("a label without a value")?;
        *rest = value.chars();
        labels.insert(name.to_owned(), parse_value(rest)?);
    }
}

/// From after the opening quotation mark to after the closing one.
fn parse_value(rest: &mut Chars<'_>) -> Result<String> {
    let mut value = String::new();
    loop {
        match rest.next() {
            Some('"') => return Ok(value),
            Some('\\') => value.push(match rest.next() {
                Some('n') => '\n',
                Some(escaped) => escaped,
                None => bail!("a label's value without an end"),
            }),
            Some(other) => value.push(other),
            None => bail!("a label's value without an end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, sum};

    #[test]
    fn samples_are_read_with_labels_and_without() {
        let text = "# HELP up {not a sample} 1\n# TYPE up gauge\nup 1\nempty{} 2 1700000000\n\n\
                    r{role=\"server\",code=\"500\"} 3\nr{role=\"client\",code=\"500\",} +Inf\n# EOF\n";
        let samples = parse(text).expect("valid");
        let read: Vec<_> =
            samples.iter().map(|sample| (sample.name.as_str(), sample.label("role"), sample.value)).collect();
        assert_eq!(read, [("up", "", 1.0), ("empty", "", 2.0), ("r", "server", 3.0), ("r", "client", f64::INFINITY)]);
    }

    #[test]
    fn label_values_may_hold_whatever_ends_things_elsewhere() {
        let samples = parse(r#"a{x="} 1",y="say \"hi\", \\ or\n"} 4"#).expect("valid");
        assert_eq!((samples[0].label("x"), samples[0].label("y")), ("} 1", "say \"hi\", \\ or\n"));
        assert_eq!((samples[0].labels.len(), samples[0].value), (2, 4.0));
    }

    #[test]
    fn what_is_no_sample_is_an_error_that_shows_it() {
        for line in ["alone", "a{b=\"c} 1", "a{b} 1", "a{} one", "a "] {
            let error = format!("{:#}", parse(line).expect_err(line));
            assert!(error.contains(line.trim()), "{error}");
        }
    }

    #[test]
    fn sum_takes_what_has_all_the_labels() {
        let samples =
            parse("a{x=\"1\",y=\"1\"} 1\na{x=\"1\",y=\"2\"} 2\na{x=\"2\",y=\"2\"} 4\nb{x=\"1\"} 8\n").expect("valid");
        let sum = |labels: &[(&str, &str)]| sum(&samples, "a", labels);
        assert_eq!((sum(&[]), sum(&[("x", "1")])), (7.0, 3.0));
        assert_eq!((sum(&[("x", "1"), ("y", "2")]), sum(&[("x", "3")])), (2.0, 0.0));
    }
}
