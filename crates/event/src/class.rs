//! Class as which an event was recognised, and how its envelope follows from that.

use std::sync::Arc;

use crate::SourceInfo;

/// Properties that all events of a class have in common. A batch lists those of its events
/// ([`crate::Batch::classes`]), so that what is kept on disk means the same when the packs change.
///
/// A text that is `None` was set by nothing; one that differs from event to event lies with the
/// event, in its [`Extra`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassInfo {
    /// The rules that decided, in the order in which they did, joined by `|`.
    pub rules: String,
    /// Maker of the product.
    pub vendor: Option<String>,
    /// The product.
    pub product: Option<String>,
    /// A kind of event of the product.
    pub class: Option<String>,
    /// The index that the events go to.
    pub index: Option<String>,
    /// Their sourcetype.
    pub sourcetype: Option<String>,
    /// Their source.
    pub source: Option<String>,
    /// The text that is sent for an event.
    pub text: EventText,
    /// Indexed fields: names and values.
    pub fields: Vec<(String, String)>,
    /// True if the receive time counts instead of the event's.
    pub received_time: bool,
    /// Vendor and product that its source says to send its events, until rules were asked about
    /// them. It is not kept on disk.
    pub hint: Option<(String, String)>,
    /// Names that the sender's owners chose. They are not kept on disk.
    pub owner: Option<Arc<OwnerNames>>,
}

/// Names that the owners of a sender chose for its events, such as by annotations of a pod. They
/// hold whatever rules find; an absent one is decided elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnerNames {
    /// The index that the events go to.
    pub index: Option<String>,
    /// Their sourcetype.
    pub sourcetype: Option<String>,
    /// Their source.
    pub source: Option<String>,
    /// Names of the destinations that they go to, in place of those of the routes.
    pub destinations: Option<Arc<[String]>>,
}

impl ClassInfo {
    /// True if the source itself gave the names, and no rule is asked about its events.
    pub fn is_final(&self) -> bool {
        self.rules.is_empty() && self.text == EventText::Message
    }

    /// Takes on what holds of the class that its source gave the events, whatever rules found:
    /// what their owner says, and indexed fields, unless a rule set those.
    pub fn keep_given(&mut self, given: &Self) {
        if let Some(owner) = &given.owner {
            let names = [
                (&mut self.index, &owner.index),
                (&mut self.sourcetype, &owner.sourcetype),
                (&mut self.source, &owner.source),
            ];
            for (name, owners) in names {
                if owners.is_some() {
                    name.clone_from(owners);
                }
            }
            self.owner = Some(Arc::clone(owner));
        }
        for (name, value) in &given.fields {
            if !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name.clone(), value.clone()));
            }
        }
    }
}

/// Text that is sent for an event. The names are those of SC4S's templates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum EventText {
    /// `t_hdr_msg`, or `t_5424_hdr_sdata_compact` for RFC 5424.
    #[default]
    ByFormat,
    /// `t_hdr_msg`: `program[pid]: message`.
    HeaderMessage,
    /// `t_msg_only`.
    Message,
    /// `t_msg_trim`: without blanks on either side.
    MessageTrimmed,
    /// `t_5424_hdr_sdata_compact`: `- - PROGRAM PID MSGID SDATA` and the message right behind it.
    Compact5424,
    /// `t_hdr_sdata_msg`: `program[pid]: MSGID SDATA message`.
    HeaderSdataMessage,
    /// `t_standard`: `Mmm dd hh:mm:ss host program[pid]: message`.
    Standard,
    /// `t_everything`: ISO date, host, `program[pid]: message`.
    Everything,
    /// `t_program_msg`: `program[pid]: message`, rebuilt.
    ProgramMessage,
    /// `t_program_nopid_msg`: `program: message`.
    ProgramNoPidMessage,
    /// `t_fallback_kv`: the parts of the header by name, a line each.
    Fallback,
    /// `t_fallback_kv_rawmsg`: the same below the raw record.
    FallbackRaw,
    /// The text lies with the event ([`ExtraKey::Event`] or [`ExtraKey::Json`]).
    Own,
}

impl EventText {
    /// Every one, by its number on disk, which never changes.
    pub const ALL: [Self; 13] = [
        Self::ByFormat,
        Self::HeaderMessage,
        Self::Message,
        Self::MessageTrimmed,
        Self::Compact5424,
        Self::HeaderSdataMessage,
        Self::Standard,
        Self::Everything,
        Self::ProgramMessage,
        Self::ProgramNoPidMessage,
        Self::Fallback,
        Self::Own,
        Self::FallbackRaw,
    ];
}

/// Key of a value that one event has beyond its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExtraKey {
    /// Its vendor.
    Vendor = 1,
    /// Its product.
    Product = 2,
    /// Its class.
    Class = 3,
    /// Its index.
    Index = 4,
    /// Its sourcetype.
    Sourcetype = 5,
    /// Its source.
    Source = 6,
    /// Its text.
    Event = 7,
    /// Its text, a JSON object.
    Json = 8,
    /// Indexed fields as JSON: `,"name":"value"` each.
    Fields = 9,
}

impl ExtraKey {
    const ALL: [Self; 9] = [
        Self::Vendor,
        Self::Product,
        Self::Class,
        Self::Index,
        Self::Sourcetype,
        Self::Source,
        Self::Event,
        Self::Json,
        Self::Fields,
    ];
}

/// Texts of one event beyond its class, one behind the other in the arena: a key, the length in
/// bytes (32 bits, little-endian), the text.
#[derive(Clone, Copy, Debug)]
pub struct Extra<'a>(&'a [u8]);

impl<'a> Extra<'a> {
    /// The texts in the bytes of [`crate::Record::extra`].
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The last text of that key.
    pub fn get(self, key: ExtraKey) -> Option<&'a [u8]> {
        let found = self.filter(|(found, _)| *found == key).last();
        found.map(|(_, text)| text)
    }

    /// Appends a text.
    pub fn push(key: ExtraKey, text: &[u8], out: &mut Vec<u8>) {
        out.push(key as u8);
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

impl<'a> Iterator for Extra<'a> {
    type Item = (ExtraKey, &'a [u8]);

    /// The next key and text; what is broken ends it.
    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        let key = ExtraKey::ALL.get(usize::from(*key).wrapping_sub(1))?;
        Some((*key, text))
    }
}

/// Names of an event: by its class, by its own texts, or by its source. Absent ones are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventNames<'a> {
    /// The index.
    pub index: &'a [u8],
    /// The sourcetype.
    pub sourcetype: &'a [u8],
    /// The source, if packs set one.
    pub source: &'a [u8],
    /// The vendor.
    pub vendor: &'a [u8],
    /// The product.
    pub product: &'a [u8],
    /// The kind of event.
    pub class: &'a [u8],
}

impl<'a> EventNames<'a> {
    /// Returns the names of an event of a class and a source.
    pub fn of(class: Option<&'a ClassInfo>, extra: Extra<'a>, source: &'a SourceInfo) -> Self {
        let mut names = class.map_or_else(Self::default, |class| Self::new(class, extra));
        if names.index.is_empty() {
            names.index = source.index.as_bytes();
        }
        if names.sourcetype.is_empty() {
            names.sourcetype = source.sourcetype.as_bytes();
        }
        names
    }

    /// Names by a class and an event's own texts, before the source's are filled in.
    pub(crate) fn new(class: &'a ClassInfo, extra: Extra<'a>) -> Self {
        fn text(text: &Option<String>) -> &[u8] {
            text.as_deref().unwrap_or_default().as_bytes()
        }
        let mut names = Self {
            index: text(&class.index),
            sourcetype: text(&class.sourcetype),
            source: text(&class.source),
            vendor: text(&class.vendor),
            product: text(&class.product),
            class: text(&class.class),
        };
        for (key, text) in extra {
            match key {
                ExtraKey::Vendor => names.vendor = text,
                ExtraKey::Product => names.product = text,
                ExtraKey::Class => names.class = text,
                ExtraKey::Index => names.index = text,
                ExtraKey::Sourcetype => names.sourcetype = text,
                ExtraKey::Source => names.source = text,
                ExtraKey::Event | ExtraKey::Json | ExtraKey::Fields => {}
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_are_found_by_their_keys_and_broken_ones_end_the_list() {
        let mut bytes = Vec::new();
        Extra::push(ExtraKey::Source, b"program:x", &mut bytes);
        Extra::push(ExtraKey::Event, b"", &mut bytes);
        assert_eq!(
            Extra::new(&bytes).get(ExtraKey::Source),
            Some(&b"program:x"[..])
        );
        assert_eq!(Extra::new(&bytes).get(ExtraKey::Event), Some(&b""[..]));
        assert_eq!(Extra::new(&bytes).get(ExtraKey::Index), None);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(Extra::new(&bytes).count(), 1);
        assert_eq!(Extra::new(&[0, 1, 0, 0, 0, b'x']).count(), 0);
    }

    #[test]
    fn what_an_owner_says_holds_beside_what_rules_find() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let owner = OwnerNames {
            index: Some("team".to_owned()),
            destinations: Some(Arc::from(["out".to_owned()])),
            ..OwnerNames::default()
        };
        let given = ClassInfo {
            sourcetype: Some("kube:container:web".to_owned()),
            fields: vec![field("pod", "a"), field("class", "given")],
            owner: Some(Arc::new(owner)),
            ..ClassInfo::default()
        };
        let mut ruled = ClassInfo {
            index: Some("netfw".to_owned()),
            sourcetype: Some("nginx".to_owned()),
            fields: vec![field("class", "ruled")],
            ..ClassInfo::default()
        };
        ruled.keep_given(&given);
        assert_eq!(ruled.index.as_deref(), Some("team"));
        assert_eq!(ruled.sourcetype.as_deref(), Some("nginx"));
        assert_eq!(ruled.fields, [field("class", "ruled"), field("pod", "a")]);
        assert_eq!(ruled.owner, given.owner);
    }
}
