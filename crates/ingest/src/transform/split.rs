//! Makes of a batch one for each way that its events go.

use std::sync::Arc;

use inrush_event::{Batch, BatchBuilder, BatchPool, ClassInfo, Record};

use super::TransformRules;

/// Routes of the events of a batch.
pub struct BatchRouting {
    /// Destinations of each route; `None`: all.
    ways: Vec<Option<Arc<[String]>>>,
    /// The number of the route of each event; empty if all go everywhere.
    routes: Vec<u16>,
}

impl BatchRouting {
    /// The routes of events by the numbers of a user's rules.
    pub(super) fn by_rules(shape: &TransformRules, routes: Vec<u16>) -> Self {
        let ways = shape.routes.iter();
        let ways = ways.map(|route| Some(Arc::clone(&route.to))).collect();
        Self { ways, routes }
    }

    /// The routes of the events of a batch, where some have destinations of their owners' that go
    /// before those of rules; `None` if none has.
    pub fn by_owners(rules: Option<&Self>, builder: &BatchBuilder) -> Option<Self> {
        let owned = |class: &Arc<ClassInfo>| class.owner.as_ref()?.destinations.clone();
        let owned: Vec<_> = builder.classes().iter().map(owned).collect();
        if owned.iter().all(Option::is_none) {
            return None;
        }
        let mut ways: Vec<Option<Arc<[String]>>> = Vec::new();
        let way_of = |(at, record): (usize, &Record)| {
            let class = usize::from(record.class.0).checked_sub(1);
            let own = class.and_then(|class| owned.get(class)?.as_ref());
            let ruled = || rules.and_then(|rules| rules.way(*rules.routes.get(at)?));
            let way = own.cloned().or_else(ruled);
            let known = ways.iter().position(|known| *known == way);
            let number = known.unwrap_or_else(|| {
                ways.push(way);
                ways.len() - 1
            });
            number as u16
        };
        let routes = builder.records().iter().enumerate().map(way_of).collect();
        Some(Self { ways, routes })
    }

    /// Destinations of a route; `None`: all.
    fn way(&self, route: u16) -> Option<Arc<[String]>> {
        self.ways.get(usize::from(route)).cloned().flatten()
    }

    /// Destinations of the first event; `None`: all.
    pub fn first(&self) -> Option<Arc<[String]>> {
        self.routes.first().and_then(|route| self.way(*route))
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
            self.send(&mut batch, first);
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
            self.send(&mut part, *way);
            part
        };
        ways.iter().enumerate().map(part).collect()
    }

    fn send(&self, batch: &mut Batch, route: u16) {
        if let Some(destinations) = self.way(route) {
            batch.route(destinations);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use inrush_event::{Anomalies, Origin, OwnerNames, SourceInfo, Span, Timestamp};

    use super::*;

    #[test]
    fn the_destinations_of_an_owner_stand_in_place_of_those_of_rules() {
        let pool = BatchPool::new();
        let info = Arc::new(SourceInfo {
            name: "s".to_owned(),
            index: "main".to_owned(),
            sourcetype: "t".to_owned(),
        });
        let mut builder = pool.lend(&info, 0);
        builder.append(b"abc");
        let peer = builder.origin(&Origin::File("x".into()));
        let owner = OwnerNames {
            destinations: Some(Arc::from(["mine".to_owned()])),
            ..OwnerNames::default()
        };
        let owned = ClassInfo {
            owner: Some(Arc::new(owner)),
            ..ClassInfo::default()
        };
        let classes = [ClassInfo::default(), owned, ClassInfo::default()];
        for (at, class) in classes.into_iter().enumerate() {
            let class = builder.class(&Arc::new(class));
            let span = Span::new(at, at + 1);
            let mut record = Record::unparsed(span, Timestamp(1), peer, Anomalies::NONE);
            record.class = class;
            builder.records_mut().push(record);
        }
        let rules = BatchRouting {
            ways: vec![Some(Arc::from(["ruled".to_owned()])), None],
            routes: vec![0, 0, 1],
        };
        let routing = BatchRouting::by_owners(Some(&rules), &builder).unwrap();
        let parts = routing.split(builder.freeze(7), &pool, false, || 8);
        let found = parts.iter().map(|part| {
            let to = part.destinations().map(|names| names.join(","));
            (part.sequence(), to.unwrap_or_default(), part.len())
        });
        let expected = [(7, "ruled", 1), (8, "mine", 1), (8, "", 1)];
        let expected = expected.map(|(number, to, events)| (number, to.to_owned(), events));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn batches_without_owners_are_left_alone() {
        let pool = BatchPool::new();
        let info = Arc::new(SourceInfo {
            name: "s".to_owned(),
            index: "main".to_owned(),
            sourcetype: "t".to_owned(),
        });
        let mut builder = pool.lend(&info, 0);
        builder.class(&Arc::new(ClassInfo::default()));
        assert!(BatchRouting::by_owners(None, &builder).is_none());
    }
}
