//! Shape of a line of the log: time, level, then the words and their values; or one JSON object.

use std::fmt;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Format of the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub(crate) enum LogShape {
    /// Lines for people: `TIME LEVEL inrush: WORDS key=value`
    #[default]
    Text,
    /// A JSON object a line, with `time`, `level`, `message` and the values
    Json,
}

impl LogShape {
    /// A line without an event, with its end.
    pub(super) fn line(self, level: Level, words: &str) -> String {
        match self {
            Self::Text => format!("{}{words}\n", head(level, false)),
            Self::Json => json(
                level,
                Map::from_iter([("message".to_owned(), words.into())]),
            ),
        }
    }
}

impl<S, N> FormatEvent<S, N> for LogShape
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        match self {
            Self::Text => {
                line.write_str(&head(level, line.has_ansi_escapes()))?;
                context.format_fields(line.by_ref(), event)?;
                line.write_char('\n')
            }
            Self::Json => {
                let mut values = LogValues::default();
                event.record(&mut values);
                line.write_str(&json(level, values.0))
            }
        }
    }
}

/// Time, level and program, with a space behind them.
fn head(level: Level, colour: bool) -> String {
    let now = jiff::Timestamp::now();
    let (begin, end) = match (colour, level) {
        (false, _) | (true, Level::INFO) => ("", ""),
        (true, Level::ERROR) => ("\x1b[31m", "\x1b[0m"),
        (true, Level::WARN) => ("\x1b[33m", "\x1b[0m"),
        (true, _) => ("\x1b[2m", "\x1b[0m"),
    };
    format!("{now:.6} {begin}{level:>5}{end} inrush: ")
}

fn json(level: Level, values: Map<String, Value>) -> String {
    let mut object = Map::new();
    let now = jiff::Timestamp::now();
    object.insert("time".to_owned(), format!("{now:.6}").into());
    let level = level.as_str().to_ascii_lowercase();
    object.insert("level".to_owned(), level.into());
    for (name, value) in values {
        object.entry(name).or_insert(value);
    }
    format!("{}\n", Value::Object(object))
}

/// Values of an event, its words among them as `message`.
#[derive(Default)]
struct LogValues(Map<String, Value>);

impl LogValues {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for LogValues {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }
}
