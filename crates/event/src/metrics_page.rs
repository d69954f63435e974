//! Page of metrics while it is gathered: samples in the order in which they were added.

use crate::Metric;

/// One value of one metric.
#[derive(Clone, Debug)]
pub struct MetricSample {
    /// The metric that the value belongs to.
    pub metric: Metric,
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
        let labels = labels
            .into_iter()
            .map(|(name, text)| (name, text.to_owned()))
            .collect();
        self.samples.push(MetricSample {
            metric,
            labels,
            value,
        });
    }

    /// All samples, in order.
    pub fn into_samples(self) -> Vec<MetricSample> {
        self.samples
    }
}
