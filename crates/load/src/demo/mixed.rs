//! `--mixed`: the demo's texts as messages of one size, for a load that is measured.

use jiff::Zoned;

use super::pick;
use super::products::{ALL, DemoHost, DemoProduct, SyslogHeader};
use super::template::MessageTemplate;

/// Message of one host, without header time and marker.
pub(crate) struct MixedMessage {
    /// As RFC 5424 counts it: facility × 8 + severity.
    pub(crate) priority: u8,
    pub(crate) host: &'static str,
    /// The application with its process number, as RFC 3164 writes it.
    pub(crate) app: &'static str,
    /// At least as many bytes as were asked for.
    pub(crate) text: String,
}

/// Endless messages of all hosts, each as often as its weight says.
pub(crate) struct Mix {
    voices: Vec<MixedHost>,
    weights: Vec<u32>,
    now: Zoned,
    rng: fastrand::Rng,
}

struct MixedHost {
    product: &'static DemoProduct,
    host: &'static DemoHost,
    severities: Vec<u8>,
    templates: Vec<MessageTemplate>,
    weights: Vec<u32>,
}

impl Mix {
    /// The same messages for the same `seed`, but for the time in some texts, which is now.
    pub(crate) fn new(seed: u64) -> Self {
        let voices: Vec<MixedHost> = ALL
            .iter()
            .flat_map(|product| product.hosts.iter().map(move |host| (*product, host)))
            .map(|(product, host)| MixedHost::of(product, host))
            .collect();
        Self {
            weights: voices.iter().map(|voice| voice.host.weight).collect(),
            voices,
            now: Zoned::now(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// One message whose text has `bytes` or more: a short one is followed by others of its host.
    pub(crate) fn draw(&mut self, bytes: usize) -> MixedMessage {
        let voice = &self.voices[pick(&mut self.rng, &self.weights)];
        let mut severity = None;
        let mut text = String::with_capacity(2 * bytes);
        while severity.is_none() || text.len() < bytes {
            let at = pick(&mut self.rng, &voice.weights);
            severity = severity.or(Some(voice.severities[at]));
            if !text.is_empty() {
                text.push(' ');
            }
            voice.templates[at].write(voice.host.name, &self.now, &mut self.rng, &mut text);
        }
        MixedMessage {
            priority: voice.product.facility * 8 + severity.unwrap_or_default(),
            host: voice.host.name,
            app: voice.app(),
            text,
        }
    }
}

impl MixedHost {
    fn of(product: &'static DemoProduct, host: &'static DemoHost) -> Self {
        let read = |line: &super::products::WeightedText| {
            Some((
                line.weight,
                (line.severity, MessageTemplate::read(line.text)?),
            ))
        };
        let (weights, lines): (Vec<u32>, Vec<_>) = product.lines.iter().filter_map(read).unzip();
        let (severities, templates) = lines.into_iter().unzip();
        Self {
            product,
            host,
            severities,
            templates,
            weights,
        }
    }

    /// The devices that name no application are known by how their text starts.
    fn app(&self) -> &'static str {
        match self.product.header {
            SyslogHeader::Rfc3164(tag) => tag.trim_end_matches([':', ' ']),
            SyslogHeader::Rfc5424 { app, .. } => app,
            SyslogHeader::Priority | SyslogHeader::Numbered | SyslogHeader::Nothing => "",
        }
    }
}
