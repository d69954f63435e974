//! Page of metrics while it is gathered: samples in the order in which they were added.

use crate::{HISTOGRAM_BOUNDS_S, HistogramSnapshot, Metric};

/// Part of a metric that a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetricPart {
    /// The metric itself.
    #[default]
    Whole,
    /// Times of a histogram up to the bound in the label `le`.
    Bucket,
    /// Sum of the times of a histogram.
    Sum,
    /// Number of the times of a histogram.
    Count,
}

impl MetricPart {
    /// The end of the exposed name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Bucket => "_bucket",
            Self::Sum => "_sum",
            Self::Count => "_count",
        }
    }
}

/// One value of one metric.
#[derive(Clone, Debug)]
pub struct MetricSample {
    /// The metric that the value belongs to.
    pub metric: Metric,
    /// Part of it.
    pub part: MetricPart,
    /// Label names and values, in the order to be shown.
    pub labels: Vec<(&'static str, String)>,
    /// The value; counters are whole numbers below 2⁵³.
    pub value: f64,
}

/// Samples of one answer to a scrape.
#[derive(Default)]
pub struct MetricsPage {
    samples: Vec<MetricSample>,
}

impl MetricsPage {
    /// Adds the value of one metric for these labels.
    pub fn add(&mut self, metric: Metric, labels: Vec<(&'static str, &str)>, value: f64) {
        self.add_part(metric, MetricPart::Whole, &labels, value);
    }

    /// Adds a histogram for these labels, with the counts up to each bound.
    pub fn add_histogram(
        &mut self,
        metric: Metric,
        labels: &[(&'static str, &str)],
        histogram: &HistogramSnapshot,
    ) {
        let mut upto = 0;
        for (bucket, count) in histogram.counts().iter().enumerate() {
            upto += count;
            let bound = HISTOGRAM_BOUNDS_S.get(bucket).map(f64::to_string);
            let bound = bound.unwrap_or_else(|| "+Inf".to_owned());
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.add_part(metric, MetricPart::Bucket, &labels, upto as f64);
        }
        self.add_part(metric, MetricPart::Sum, labels, histogram.sum_s);
        self.add_part(metric, MetricPart::Count, labels, upto as f64);
    }

    fn add_part(
        &mut self,
        metric: Metric,
        part: MetricPart,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        let labels = labels.iter();
        self.samples.push(MetricSample {
            metric,
            part,
            labels: labels
                .map(|(name, text)| (*name, (*text).to_owned()))
                .collect(),
            value,
        });
    }

    /// All samples, in order.
    pub fn into_samples(self) -> Vec<MetricSample> {
        self.samples
    }
}
