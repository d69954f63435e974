//! Data model of a vendor pack: rules with their conditions, steps, texts and samples.
//!
//! # What it guarantees
//! * The model does no I/O and knows no YAML: a reader fills it in, [`crate::CompiledPacks`]
//!   compiles it.
//! * [`RuleStage::ALL`] is the order of the stages, and [`RuleStage::name`] is a stage's name in
//!   packs.
//! * The fields of a [`PatternTest`] that matching reads share one cache line, asserted at compile
//!   time.
//!
//! # States
//! A [`Pack`] is as its file says until [`crate::CompiledPacks::compile`] consumes it. Compilation
//! sets [`Rule::own`] and each branch's number, changes and `then`; compiled rules never change.
//!
//! # Limits
//! The model has no bounds of its own: the YAML reader bounds a pack's values, text and depth.

use std::net::IpAddr;
use std::sync::Arc;

use inrush_event::Network;

use crate::engine::EventChange;
use crate::group::GroupRule;
use crate::mark::NameFingerprint;
use crate::pattern::TextPattern;
use crate::read::ReadStep;
use crate::template::TextTemplate;

/// Line and column in a pack's file; both count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PackLocation {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One file: the rules for the products of one vendor.
#[derive(Clone, Debug, Default)]
pub struct Pack {
    /// The file's name, for messages and for the order of rules.
    pub file: String,
    /// Vendor and products that it is about, in words.
    pub about: String,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// Names of rules of other packs that do not count.
    pub disable: Vec<(String, PackLocation)>,
    /// True if it comes with Inrush. A user's own file may have the same name.
    pub builtin: bool,
}

/// Rule that recognises one product, or one kind of its events, and what follows from it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unique over all packs.
    pub name: String,
    /// Place at which the rule begins.
    pub at: PackLocation,
    /// Stage in which it is asked.
    pub stage: RuleStage,
    /// Rules with a lower one are asked first.
    pub order: i64,
    /// In the stage `listener`: asked even if the event was recognised before.
    pub over: bool,
    /// Its condition, steps and texts.
    pub branch: Branch,
    /// A condition on how the event begins by which it is known at once: it is asked with that in
    /// the stage [`RuleStage::Begins`] too.
    pub begins: Option<RuleCondition>,
    /// True if it does not come with Inrush; known once packs are compiled.
    pub own: bool,
    /// The stage that goes on with the event.
    pub then: Option<RuleStage>,
    /// The definitions of SC4S that it stands for.
    pub sc4s: Vec<String>,
    /// Group that its events are parts of; rules of the last stage only.
    pub group: Option<Arc<GroupRule>>,
    /// Events and what must come of them.
    pub samples: Vec<PackSample>,
}

impl Rule {
    /// The same rule as it is asked in the stage [`RuleStage::Begins`], with that condition.
    pub(crate) fn early(&self, when: RuleCondition) -> Self {
        let branch = Branch {
            when,
            ..self.branch.clone()
        };
        Self {
            stage: RuleStage::Begins,
            begins: None,
            samples: Vec::new(),
            branch,
            ..self.clone()
        }
    }
}

/// A condition and what follows from it. What every event asks of one that is taken comes first,
/// on one line of the cache.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct Branch {
    /// Steps that read the event, in order.
    pub read: Vec<ReadStep>,
    /// Changes that it makes to an event. All from here to `then` is known once packs are compiled.
    pub(crate) acts: Box<[EventChange]>,
    /// Its number among all branches.
    pub(crate) id: u32,
    /// True if the event is filtered.
    pub drop: bool,
    /// True if the cases after it are asked too.
    pub go_on: bool,
    /// True if it has cases.
    pub(crate) has_cases: bool,
    /// True if it says what the event is.
    pub(crate) says: bool,
    /// The stage that goes on with the event, if it is a rule's own.
    pub(crate) then: Option<RuleStage>,
    /// The condition.
    pub when: RuleCondition,
    /// Further branches: the first that holds is taken.
    pub cases: Vec<Branch>,
    /// Properties that it sets.
    pub set: BranchSettings,
}

/// Stage in which a rule is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RuleStage {
    /// Events that are known by their beginning.
    Begins,
    /// Headers that are almost syslog.
    Header,
    /// Events without a PRI.
    Raw,
    /// Programs that are none.
    Repair,
    /// Facts that are known of the sender.
    Hint,
    /// Events with structured data.
    Sdata,
    /// Events with a program.
    Program,
    /// All others.
    Message,
    /// Common Event Format.
    Cef,
    /// Log Event Extended Format.
    Leef,
    /// A JSON object as the message.
    Json,
    /// `%FACILITY-SEVERITY-MNEMONIC: `
    Cisco,
    /// By the listener or the hint.
    Listener,
    /// Events that are left.
    Fallback,
    /// Every event, at the end.
    After,
}

impl RuleStage {
    /// All, in the order in which they are asked.
    pub const ALL: [Self; 15] = [
        Self::Begins,
        Self::Header,
        Self::Raw,
        Self::Repair,
        Self::Hint,
        Self::Sdata,
        Self::Program,
        Self::Message,
        Self::Cef,
        Self::Leef,
        Self::Json,
        Self::Cisco,
        Self::Listener,
        Self::Fallback,
        Self::After,
    ];

    /// The name in packs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Header => "header",
            Self::Raw => "raw",
            Self::Repair => "repair",
            Self::Hint => "hint",
            Self::Sdata => "sdata",
            Self::Program => "program",
            Self::Message => "message",
            Self::Cef => "cef",
            Self::Leef => "leef",
            Self::Json => "json",
            Self::Cisco => "cisco",
            Self::Listener => "listener",
            Self::Fallback => "fallback",
            Self::After => "after",
        }
    }

    /// The stage of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// True if it is entered by `then`.
    pub const fn is_entered(self) -> bool {
        matches!(self, Self::Cef | Self::Leef | Self::Json | Self::Cisco)
    }
}

/// A part of an event.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum EventPart {
    /// The program, or APP-NAME.
    Program,
    /// The process.
    Pid,
    /// MSGID.
    MsgId,
    /// The host.
    Host,
    /// The text behind the header.
    Message,
    /// Structured data.
    Sdata,
    /// The record behind its PRI and the blanks after it.
    Text,
    /// The whole record.
    Raw,
    /// The bytes of `program[pid]: `.
    Header,
    /// Vendor that was set so far.
    Vendor,
    /// As product.
    Product,
    /// As class.
    Class,
    /// The vendor that the listener, the sender or the host stands for.
    HintVendor,
    /// The product that they stand for.
    HintProduct,
    /// The name of the listener.
    Listener,
    /// The sender's address.
    Sender,
    /// A value that was read.
    Value(NameFingerprint, Box<str>),
}

impl EventPart {
    /// The value of that name.
    pub fn value(name: &str) -> Self {
        Self::Value(NameFingerprint::of(name.as_bytes()), name.into())
    }

    /// The part of that name; what is none is a value.
    pub fn named(name: &str) -> Self {
        match name {
            "program" => Self::Program,
            "pid" => Self::Pid,
            "msgid" => Self::MsgId,
            "host" => Self::Host,
            "message" => Self::Message,
            "sdata" => Self::Sdata,
            "text" => Self::Text,
            "raw" => Self::Raw,
            "header" => Self::Header,
            "vendor" => Self::Vendor,
            "product" => Self::Product,
            "class" => Self::Class,
            "hint.vendor" => Self::HintVendor,
            "hint.product" => Self::HintProduct,
            "listener" => Self::Listener,
            "sender" => Self::Sender,
            value => Self::value(value),
        }
    }

    /// True if it is no place in the record, nor a value.
    pub(crate) fn is_set_apart(&self) -> bool {
        matches!(
            self,
            Self::Vendor
                | Self::Product
                | Self::Class
                | Self::HintVendor
                | Self::HintProduct
                | Self::Listener
                | Self::Sender
        )
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Program => "program",
            Self::Pid => "pid",
            Self::MsgId => "msgid",
            Self::Host => "host",
            Self::Message => "message",
            Self::Sdata => "sdata",
            Self::Text => "text",
            Self::Raw => "raw",
            Self::Header => "header",
            Self::Vendor => "vendor",
            Self::Product => "product",
            Self::Class => "class",
            Self::HintVendor => "hint.vendor",
            Self::HintProduct => "hint.product",
            Self::Listener => "listener",
            Self::Sender => "sender",
            Self::Value(_, name) => name,
        }
    }
}

/// A condition.
#[derive(Clone, Debug, Default)]
pub enum RuleCondition {
    /// Always holds.
    #[default]
    Always,
    /// All hold.
    All(Vec<RuleCondition>),
    /// One holds.
    Any(Vec<RuleCondition>),
    /// The other does not.
    Not(Box<RuleCondition>),
    /// A part matches a pattern.
    Part(Arc<PatternTest>),
    /// The header was read as that.
    Format(HeaderFormat),
    /// The listener, its sender or its host stands for that product.
    Hint(String, String),
    /// The sender's address lies in that network.
    Sender(Network),
    /// Never holds: an option of the configuration says otherwise.
    Never,
}

/// A question to a part. All that most tests look at is one line of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct PatternTest {
    /// The part.
    pub part: EventPart,
    /// The pattern that it must match.
    pub pattern: TextPattern,
    /// As it was written.
    pub written: String,
}

const _: () = assert!(std::mem::offset_of!(PatternTest, written) == 64);

/// Format in which a header was read, as conditions name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFormat {
    /// RFC 3164 in any of its shapes.
    Rfc3164,
    /// RFC 5424.
    Rfc5424,
    /// Not at all.
    Unparsed,
}

/// Properties that a branch sets. `None` leaves one as it is.
#[derive(Clone, Debug, Default)]
pub struct BranchSettings {
    /// The vendor.
    pub vendor: Option<TextTemplate>,
    /// The product.
    pub product: Option<TextTemplate>,
    /// The class.
    pub class: Option<TextTemplate>,
    /// The index.
    pub index: Option<TextTemplate>,
    /// The sourcetype.
    pub sourcetype: Option<TextTemplate>,
    /// The source.
    pub source: Option<TextTemplate>,
    /// The event's own parts, in order: host, program, pid, msgid, message.
    pub parts: Vec<(EventPart, TextTemplate)>,
    /// The event's text.
    pub template: Option<OutputTemplate>,
    /// Indexed fields.
    pub fields: Vec<(String, TextTemplate)>,
    /// Values.
    pub values: Vec<(String, TextTemplate)>,
    /// The zone of times without one, by its name in the zone database or as an offset.
    pub zone: Option<jiff::tz::TimeZone>,
    /// True if the receive time counts.
    pub received_time: bool,
    /// Vendor and product that the sender stands for.
    pub hint: Option<(String, String)>,
}

/// Text that is sent for the event.
#[derive(Clone, Debug)]
pub enum OutputTemplate {
    /// One that follows from the record's parts.
    Fixed(inrush_event::EventText),
    /// The event's values as a JSON object.
    JsonValues,
    /// The event's values as `name=value`.
    KvValues,
    /// A text of its own.
    Text(TextTemplate),
}

/// An event and what must come of it.
#[derive(Clone, Debug, Default)]
pub struct PackSample {
    /// Place of the sample.
    pub at: PackLocation,
    /// The record, or several that come one after the other.
    pub raw: Vec<String>,
    /// The listener that it came to.
    pub listener: Option<String>,
    /// Vendor and product that the listener stands for.
    pub hint: Option<(String, String)>,
    /// Address of the sender.
    pub sender: Option<IpAddr>,
    /// Receive time.
    pub received: Option<jiff::Timestamp>,
    /// Options of the configuration.
    pub options: Vec<(String, String)>,
    /// Results that must come out.
    pub expect: Vec<Expectation>,
}

/// One thing that must come of a sample.
#[derive(Clone, PartialEq, Debug)]
pub struct Expectation {
    /// Place of the expectation.
    pub at: PackLocation,
    /// `index`, `sourcetype`, `source`, `host`, `event`, `time`, `vendor`, `product`, `class`,
    /// `dropped`, or `fields.NAME`.
    pub name: String,
    /// The value.
    pub value: serde_json::Value,
}
