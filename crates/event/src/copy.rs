//! Takes an event from one batch to another.

use crate::{Batch, BatchBuilder, Record, Span};

impl BatchBuilder {
    /// Copies an event of another batch of the same source in, with all that it points to.
    pub fn copy(&mut self, batch: &Batch, record: &Record) {
        let mut copy = *record;
        let (old, start) = (record.extent(), self.filled());
        self.append(batch.get(old));
        let mut place = |span: Span| {
            if span.is_empty() {
                return Span::EMPTY;
            }
            if span.start() >= old.start() && span.end() <= old.end() {
                let from = start + span.start() - old.start();
                return Span::new(from, from + span.len());
            }
            let from = self.filled();
            self.append(batch.get(span));
            Span::new(from, self.filled())
        };
        copy.raw = place(record.raw);
        copy.host = place(record.host);
        copy.app = place(record.app);
        copy.proc_id = place(record.proc_id);
        copy.msg_id = place(record.msg_id);
        copy.sdata = place(record.sdata);
        copy.message = place(record.message);
        copy.extra = place(record.extra);
        if let Some(class) = batch.class(record) {
            copy.class = self.class(class);
        }
        if let Some(origin) = batch.origin(record) {
            copy.peer = self.origin(origin);
        }
        self.records_mut().push(copy);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::tests::{push, source};
    use crate::{BatchPool, ClassInfo, limits};

    #[test]
    fn a_copied_event_takes_along_all_that_it_points_to() {
        let pool = BatchPool::new();
        let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        push(&mut builder, b"first");
        push(&mut builder, b"<1>host message");
        let outside = Span::new(builder.filled(), builder.filled() + 4);
        builder.append(b"else");
        let class = builder.class(&Arc::new(ClassInfo::default()));
        let mut record = builder.records()[1];
        let at = record.raw.start();
        (record.host, record.message) = (Span::new(at + 3, at + 7), outside);
        (record.extra, record.class) = (outside, class);
        builder.records_mut()[1] = record;
        let batch = builder.freeze(0);
        let mut builder = pool.lend(&source(), 0);
        push(&mut builder, b"something before");
        builder.copy(&batch, &batch.records()[1]);
        let copy = builder.freeze(1);
        let record = copy.records()[1];
        let parts = [record.raw, record.host, record.message, record.extra];
        let parts = parts.map(|span| copy.get(span));
        assert_eq!(parts, [&b"<1>host message"[..], b"host", b"else", b"else"]);
        assert!(copy.class(&record).is_some() && record.app.is_empty());
    }
}
