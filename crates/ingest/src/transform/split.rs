//! Makes of a batch one for each way that its events go.

use std::sync::Arc;

use inrush_event::{Batch, BatchPool};

use super::TransformRules;

/// Routes of the events of a batch.
pub struct BatchRouting {
    pub(super) shape: Arc<TransformRules>,
    /// The number of the route of each event; empty if there are no routes.
    pub(super) routes: Vec<u16>,
}

impl BatchRouting {
    /// Destinations of a route.
    fn destinations(&self, route: u16) -> Arc<[String]> {
        let route = self.shape.routes.get(usize::from(route));
        route.map_or_else(|| Arc::from([]), |route| Arc::clone(&route.to))
    }

    /// Destinations of the first event; `None` if there are no routes.
    pub fn first(&self) -> Option<Arc<[String]>> {
        self.routes.first().map(|route| self.destinations(*route))
    }

    /// The batches to hand on, in the order in which the first event of each came. `next_sequence`
    /// numbers those beyond the first; `sums`: they are to know their checksums.
    pub fn split(
        &self,
        mut batch: Batch,
        pool: &Arc<BatchPool>,
        sums: bool,
        next_sequence: impl Fn() -> u64,
    ) -> Vec<Batch> {
        let routes = &self.routes;
        let Some(first) = routes.first().copied() else {
            return vec![batch];
        };
        if routes.iter().all(|route| *route == first) {
            batch.route(self.destinations(first));
            return vec![batch];
        }
        let mut ways: Vec<u16> = Vec::new();
        for route in routes {
            if !ways.contains(route) {
                ways.push(*route);
            }
        }
        let part = |(number, way): (usize, &u16)| {
            let mut builder = pool.lend(batch.source(), 0);
            builder.stamp(batch.received());
            let events = batch.records().iter().zip(routes);
            for (record, _) in events.filter(|(_, route)| *route == way) {
                builder.copy(&batch, record);
            }
            if sums {
                builder.sum_up();
            }
            let sequence = match number {
                0 => batch.sequence(),
                _ => next_sequence(),
            };
            let mut part = builder.freeze(sequence);
            part.route(self.destinations(*way));
            part
        };
        ways.iter().enumerate().map(part).collect()
    }
}
