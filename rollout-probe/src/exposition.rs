//! Pure: which text format a scraper gets, and the older of the two made from the newer one.
//!
//! The encoder writes OpenMetrics 1.0. The Prometheus text format 0.0.4 differs in the comment lines only: counters are named
//! with their `_total` there, and `UNIT` and `EOF` are unknown.

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
        let Some(accept) = accept else { return Self::Prometheus };
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
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
    use super::{Format, prometheus};

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
}
