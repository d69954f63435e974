//! The Prometheus text format, version 0.0.4.

use std::fmt::Write;

use inrush_event::MetricSample;
use inrush_event::{Metric, MetricKind};

/// The `Content-Type` of the page.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page: each metric of the catalogue that has a sample, in the catalogue's order, its HELP
/// and TYPE once, then its samples.
pub(crate) fn render(samples: &[MetricSample]) -> String {
    let mut page = String::with_capacity(samples.len() * 96);
    for metric in Metric::ALL {
        let mut own = samples
            .iter()
            .filter(|sample| sample.metric == *metric)
            .peekable();
        if own.peek().is_none() {
            continue;
        }
        head(&mut page, *metric);
        own.for_each(|sample| line(&mut page, sample));
    }
    page
}

fn head(page: &mut String, metric: Metric) {
    let kind = match metric.kind() {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let name = metric.name();
    // Writing to a String cannot fail.
    let _ = write!(page, "# HELP {name} ");
    escape(page, metric.help(), false);
    let _ = write!(page, "\n# TYPE {name} {kind}\n");
}

fn line(page: &mut String, sample: &MetricSample) {
    page.push_str(sample.metric.name());
    page.push_str(sample.part.suffix());
    for (i, (name, value)) in sample.labels.iter().enumerate() {
        page.push(if i == 0 { '{' } else { ',' });
        page.push_str(name);
        page.push_str("=\"");
        escape(page, value, true);
        page.push('"');
    }
    if !sample.labels.is_empty() {
        page.push('}');
    }
    page.push(' ');
    number(page, sample.value);
    page.push('\n');
}

fn number(page: &mut String, value: f64) {
    let _ = match value {
        v if v.is_nan() => write!(page, "NaN"),
        v if v == f64::INFINITY => write!(page, "+Inf"),
        v if v == f64::NEG_INFINITY => write!(page, "-Inf"),
        v => write!(page, "{v}"),
    };
}

/// Backslash and line feed are escaped everywhere, the quote in label values only.
fn escape(page: &mut String, text: &str, quoted: bool) {
    for c in text.chars() {
        match c {
            '\\' => page.push_str("\\\\"),
            '\n' => page.push_str("\\n"),
            '"' if quoted => page.push_str("\\\""),
            c => page.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use inrush_event::{Histogram, MetricPart, MetricsPage};

    use super::*;

    fn sample(metric: Metric, labels: &[(&'static str, &str)], value: f64) -> MetricSample {
        let labels = labels.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        MetricSample {
            metric,
            part: MetricPart::Whole,
            labels,
            value,
        }
    }

    #[test]
    fn samples_of_a_metric_stand_together_under_one_head() {
        let page = render(&[
            sample(Metric::SourceAccepted, &[("source", "b")], 2.0),
            sample(Metric::SourceReceived, &[("source", "a")], 3.0),
            sample(
                Metric::SourceAccepted,
                &[("source", "a")],
                9_007_199_254_740_991.0,
            ),
        ]);
        assert_eq!(
            page,
            "# HELP inrush_source_received_events_total Events that reached the process, by source.\n\
             # TYPE inrush_source_received_events_total counter\n\
             inrush_source_received_events_total{source=\"a\"} 3\n\
             # HELP inrush_source_accepted_events_total Events that the queue took, by source.\n\
             # TYPE inrush_source_accepted_events_total counter\n\
             inrush_source_accepted_events_total{source=\"b\"} 2\n\
             inrush_source_accepted_events_total{source=\"a\"} 9007199254740991\n"
        );
    }

    #[test]
    fn a_histogram_has_the_counts_up_to_each_bound_then_sum_and_count() {
        let histogram = Histogram::default();
        for ns in [2_000_000, 4_000_000, 90_000_000_000_000] {
            histogram.observe(ns);
        }
        let mut page = MetricsPage::default();
        let labels = [("source", "hec")];
        page.add_histogram(Metric::ReceiveLag, &labels, &histogram.snapshot());
        let page = render(&page.into_samples());
        let lines: Vec<_> = page.lines().collect();
        let name = Metric::ReceiveLag.name();
        assert_eq!(lines[1], format!("# TYPE {name} histogram"));
        assert_eq!(
            lines[2],
            format!("{name}_bucket{{source=\"hec\",le=\"0.001\"}} 0")
        );
        assert_eq!(
            lines[4],
            format!("{name}_bucket{{source=\"hec\",le=\"0.005\"}} 2")
        );
        let last: Vec<_> = lines.iter().rev().take(4).rev().collect();
        assert_eq!(
            *last[0],
            format!("{name}_bucket{{source=\"hec\",le=\"86400\"}} 2")
        );
        assert_eq!(
            *last[1],
            format!("{name}_bucket{{source=\"hec\",le=\"+Inf\"}} 3")
        );
        assert_eq!(*last[2], format!("{name}_sum{{source=\"hec\"}} 90000.006"));
        assert_eq!(*last[3], format!("{name}_count{{source=\"hec\"}} 3"));
    }

    #[test]
    fn labels_are_escaped_and_values_written_as_the_format_wants() {
        let hostile = [("source", "a\"b\\c\nd"), ("reason", "é")];
        let page = render(&[
            sample(Metric::DestinationOldestPending, &hostile, 0.25),
            sample(Metric::DestinationOldestPending, &[], f64::INFINITY),
            sample(Metric::DestinationOldestPending, &[], f64::NAN),
        ]);
        let lines: Vec<_> = page.lines().skip(2).collect();
        let name = Metric::DestinationOldestPending.name();
        assert_eq!(
            lines[0],
            format!("{name}{{source=\"a\\\"b\\\\c\\nd\",reason=\"é\"}} 0.25")
        );
        assert_eq!(lines[1], format!("{name} +Inf"));
        assert_eq!(lines[2], format!("{name} NaN"));
    }
}
