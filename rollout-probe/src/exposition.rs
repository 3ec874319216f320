//! Pure: which text format a scraper gets, and the older of the two made from the newer one.
//!
//! The encoder writes OpenMetrics 1.0. The Prometheus text format 0.0.4 differs in the comment lines only: counters are named
//! with their `_total` there, and `UNIT` and `EOF` are unknown.
//!
//! Left out: protobuf and start times. Prometheus wants protobuf for native histograms and start times only; the encoder has
//! neither for constant metrics, and start times in text are a series more for each counter.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Prometheus,
}

impl Format {
    /// OpenMetrics for those who ask for it, with at least the weight of anything else they ask for.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for (name, weight) in weights(accept.unwrap_or_default()) {
            match name {
                "application/openmetrics-text" => open = open.max(weight),
                "text/plain" | "text/*" | "*/*" => text = text.max(weight),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` of an answer.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// `open_metrics` in this format.
    pub fn render(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Prometheus => prometheus(&open_metrics),
        }
    }
}

/// Whether an answer may be compressed: `gzip` by name or by `*`, unless its weight is 0 (RFC 9110 section 12.5.3).
pub fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let weights: Vec<_> = weights(accept_encoding.unwrap_or_default()).collect();
    let weight = |name| weights.iter().find(|(coding, _)| coding.eq_ignore_ascii_case(name)).map(|(_, weight)| *weight);
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// Compressed at the lowest level: series differ from their neighbours in a few bytes, which every level finds.
pub fn gzip(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 16), Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// The elements of an `Accept` or `Accept-Encoding` field, each with its weight.
fn weights(field: &str) -> impl Iterator<Item = (&str, f32)> {
    field.split(',').map(|element| {
        let mut parts = element.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        (name, parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0))
    })
}

fn prometheus(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 1024);
    // `HELP` comes before `TYPE`, and only `TYPE` tells whether the name needs its suffix.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", text, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{Format, accepts_gzip, gzip, prometheus};

    #[test]
    fn format_is_what_the_scraper_prefers() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
            text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let cases = [
            (Some(prometheus_3), Format::OpenMetrics),
            (Some("application/openmetrics-text; version=1.0.0"), Format::OpenMetrics),
            (Some("text/plain;version=0.0.4"), Format::Prometheus),
            (Some("text/plain, application/openmetrics-text;q=0.5"), Format::Prometheus),
            (Some("application/openmetrics-text;q=0"), Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some("application/json"), Format::Prometheus),
            (Some(";;q=x,,"), Format::Prometheus),
            (None, Format::Prometheus),
        ];
        for (accept, expected) in cases {
            assert_eq!(Format::negotiate(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn prometheus_text_names_counters_with_their_suffix() {
        let open = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"1\"} 2\n\
            # HELP d_seconds Time.\n# TYPE d_seconds histogram\n# UNIT d_seconds seconds\nd_seconds_sum 0.5\n\
            # HELP g Now.\n# TYPE g gauge\ng 1\n# EOF\n";
        let expected = "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n\
            # HELP d_seconds Time.\n# TYPE d_seconds histogram\nd_seconds_sum 0.5\n\
            # HELP g Now.\n# TYPE g gauge\ng 1\n";
        assert_eq!(prometheus(open), expected);
    }

    #[test]
    fn gzip_is_used_when_the_scraper_takes_it() {
        let cases = [
            (Some("gzip"), true),
            (Some("deflate, GZIP;q=0.5"), true),
            (Some("*"), true),
            (Some("gzip;q=0, *"), false),
            (Some("identity"), false),
            (Some("gzip;q=0"), false),
            (Some(""), false),
            (None, false),
        ];
        for (accept, expected) in cases {
            assert_eq!(accepts_gzip(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn gzip_reads_back_as_the_same_text() {
        let text = "a_total{x=\"1\"} 2\n".repeat(1000);
        let compressed = gzip(&text).expect("memory takes everything");
        assert!(compressed.len() * 20 < text.len(), "{} of {} bytes", compressed.len(), text.len());
        let mut again = String::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut again).expect("gzip");
        assert_eq!(again, text);
    }
}
