//! Templates of messages: text with `$(…)` where every message differs.
//!
//! | | |
//! |---|---|
//! | `$(user)` `$(who)` | one of the company's people; one who guesses |
//! | `$(int)` `$(ext)` | an address inside; one outside |
//! | `$(high)` `$(port)` | the port of who asks; of who is asked |
//! | `$(domain)` `$(path)` | what is asked for |
//! | `$(host)` | the sender's name |
//! | `$(time)` `$(date)` `$(clock)` | its time: RFC 3339, `2026-11-22`, `13:05:09` |
//! | `$(clf)` `$(epoch)` | its time as web servers write it; seconds since 1970 |
//! | `$(3-17)` | a number in this range |
//! | `$(a\|b\|c)` | one of these |
//! | `$(hex 8)` | so many hexadecimal digits |
//!
//! The last three are drawn anew at each place; all others are of the message's [`TemplateValues`],
//! and the same wherever they stand in it.

use std::fmt::Write;

use jiff::Zoned;

/// People of a made-up company.
const USERS: [&str; 24] = [
    "amara", "bjorn", "chidi", "dalia", "emeka", "farah", "goran", "hanna", "ines", "jonas",
    "kofi", "lucia", "maren", "nadia", "oskar", "priya", "quentin", "rosa", "samir", "tuva",
    "umar", "vera", "wim", "yara",
];

/// Names that guessers try.
const GUESSES: [&str; 10] = [
    "admin", "root", "test", "oracle", "postgres", "guest", "pi", "ubuntu", "backup", "ftp",
];

/// Names that are set aside for examples (RFC 2606).
const DOMAINS: [&str; 14] = [
    "www.example.com",
    "mail.example.com",
    "cdn.example.net",
    "api.example.net",
    "login.example.com",
    "updates.example.org",
    "intranet.corp.example",
    "files.corp.example",
    "git.corp.example",
    "wiki.corp.example",
    "time.example.org",
    "ads.example.net",
    "telemetry.example.net",
    "xk2v9q.example.org",
];

const PATHS: [&str; 12] = [
    "",
    "index.html",
    "login",
    "api/v2/orders",
    "api/v2/orders?page=2",
    "static/app.css",
    "static/app.js",
    "images/logo.svg",
    "search?q=boots",
    "cart",
    "checkout",
    "robots.txt",
];

/// Networks that are set aside for examples (RFC 5737).
const OUTSIDE: [&str; 3] = ["192.0.2", "198.51.100", "203.0.113"];

/// Ports that are asked for, the usual ones more often.
const PORTS: [u16; 10] = [443, 443, 443, 443, 80, 80, 53, 22, 3389, 8443];

/// Subject of one message.
#[derive(Clone, Debug)]
pub(super) struct TemplateValues {
    user: &'static str,
    who: &'static str,
    int: String,
    ext: String,
    domain: &'static str,
    path: &'static str,
    high: u16,
    port: u16,
}

/// One of a list, those at its start more often.
fn skewed<T: Copy>(rng: &mut fastrand::Rng, list: &[T]) -> T {
    let at = rng.f64().powi(2) * list.len() as f64;
    list[(at as usize).min(list.len() - 1)]
}

impl TemplateValues {
    pub(super) fn draw(rng: &mut fastrand::Rng) -> Self {
        let (network, host) = (rng.u8(0..8), (rng.f64().powi(2) * 200.0) as u8 + 10);
        Self {
            user: skewed(rng, &USERS),
            who: skewed(rng, &GUESSES),
            int: format!("10.20.{network}.{host}"),
            ext: format!(
                "{}.{}",
                rng.choice(OUTSIDE).unwrap_or(OUTSIDE[0]),
                rng.u8(1..255)
            ),
            domain: skewed(rng, &DOMAINS),
            path: skewed(rng, &PATHS),
            high: rng.u16(32_768..61_000),
            port: skewed(rng, &PORTS),
        }
    }
}

/// Text, or the content of one place.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TemplatePart {
    Text(&'static str),
    Of(PlaceholderKind),
    Number(u64, u64),
    OneOf(Vec<&'static str>),
    Hex(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PlaceholderKind {
    User,
    Who,
    Int,
    Ext,
    Domain,
    Path,
    High,
    Port,
    Host,
    Time,
    Date,
    Clock,
    Clf,
    Epoch,
}

/// A template, read.
#[derive(Clone, Debug)]
pub(super) struct MessageTemplate(Vec<TemplatePart>);

impl MessageTemplate {
    /// `None` if it holds a place that means nothing. The templates are our own, and a test reads
    /// all of them.
    pub(super) fn read(text: &'static str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("$(") {
            let (inner, behind) = after.split_once(')')?;
            parts.push(TemplatePart::Text(before));
            parts.push(part(inner)?);
            rest = behind;
        }
        parts.push(TemplatePart::Text(rest));
        Some(Self(parts))
    }

    /// Writes a message of `host`, whose clock shows `now`.
    pub(super) fn write(&self, host: &str, now: &Zoned, rng: &mut fastrand::Rng, out: &mut String) {
        let scene = TemplateValues::draw(rng);
        for part in &self.0 {
            // Writing to a String cannot fail.
            let _ = match part {
                TemplatePart::Text(text) => out.write_str(text),
                TemplatePart::Of(word) => word.write(&scene, host, now, out),
                TemplatePart::Number(least, most) => write!(out, "{}", rng.u64(least..=most)),
                TemplatePart::OneOf(all) => {
                    out.write_str(rng.choice(all).copied().unwrap_or_default())
                }
                TemplatePart::Hex(digits) => {
                    let digits = std::iter::repeat_with(|| rng.digit(16)).take(*digits);
                    out.extend(digits);
                    Ok(())
                }
            };
        }
    }
}

fn part(inner: &'static str) -> Option<TemplatePart> {
    if let Some(digits) = inner.strip_prefix("hex ") {
        return digits.parse().ok().map(TemplatePart::Hex);
    }
    if inner.contains('|') {
        return Some(TemplatePart::OneOf(inner.split('|').collect()));
    }
    if let Some((least, most)) = inner.split_once('-') {
        let (least, most) = (least.parse().ok()?, most.parse().ok()?);
        return (least <= most).then_some(TemplatePart::Number(least, most));
    }
    let word = match inner {
        "user" => PlaceholderKind::User,
        "who" => PlaceholderKind::Who,
        "int" => PlaceholderKind::Int,
        "ext" => PlaceholderKind::Ext,
        "domain" => PlaceholderKind::Domain,
        "path" => PlaceholderKind::Path,
        "high" => PlaceholderKind::High,
        "port" => PlaceholderKind::Port,
        "host" => PlaceholderKind::Host,
        "time" => PlaceholderKind::Time,
        "date" => PlaceholderKind::Date,
        "clock" => PlaceholderKind::Clock,
        "clf" => PlaceholderKind::Clf,
        "epoch" => PlaceholderKind::Epoch,
        _ => return None,
    };
    Some(TemplatePart::Of(word))
}

impl PlaceholderKind {
    fn write(
        self,
        scene: &TemplateValues,
        host: &str,
        now: &Zoned,
        out: &mut String,
    ) -> std::fmt::Result {
        match self {
            Self::User => out.write_str(scene.user),
            Self::Who => out.write_str(scene.who),
            Self::Int => out.write_str(&scene.int),
            Self::Ext => out.write_str(&scene.ext),
            Self::Domain => out.write_str(scene.domain),
            Self::Path => out.write_str(scene.path),
            Self::High => write!(out, "{}", scene.high),
            Self::Port => write!(out, "{}", scene.port),
            Self::Host => out.write_str(host),
            Self::Time => write!(out, "{}", now.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z")),
            Self::Date => write!(out, "{}", now.strftime("%Y-%m-%d")),
            Self::Clock => write!(out, "{}", now.strftime("%H:%M:%S")),
            Self::Clf => write!(out, "{}", now.strftime("%d/%b/%Y:%H:%M:%S %z")),
            Self::Epoch => write!(out, "{}", now.timestamp().as_second()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(text: &'static str) -> String {
        let now = "2026-11-22T13:05:09.25+01:00[+01:00]".parse().unwrap();
        let mut out = String::new();
        let mut rng = fastrand::Rng::with_seed(7);
        MessageTemplate::read(text)
            .unwrap()
            .write("fw-1", &now, &mut rng, &mut out);
        out
    }

    #[test]
    fn places_are_filled_and_text_stays() {
        assert_eq!(
            written("plain {\"json\": [1]} 100 % (x)"),
            "plain {\"json\": [1]} 100 % (x)"
        );
        assert_eq!(
            written("$(host) $(date) $(clock) $(epoch)"),
            "fw-1 2026-11-22 13:05:09 1795349109"
        );
        assert_eq!(written("$(time)"), "2026-11-22T13:05:09.250000+01:00");
        assert_eq!(written("[$(clf)]"), "[22/Nov/2026:13:05:09 +0100]");
        let number: u64 = written("$(3-5)").parse().unwrap();
        assert!((3..=5).contains(&number), "{number}");
        assert!(["up", "down"].contains(&written("$(up|down)").as_str()));
        let hex = written("$(hex 12)");
        assert!(
            hex.len() == 12 && u64::from_str_radix(&hex, 16).is_ok(),
            "{hex}"
        );
    }

    #[test]
    fn one_message_is_about_one_scene() {
        let text = written("$(ext) $(ext) $(user) $(user) $(high) $(high)");
        let words: Vec<&str> = text.split(' ').collect();
        assert!(words.chunks(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn a_place_that_means_nothing_is_no_template() {
        for bad in ["$(nobody)", "$(5-3)", "$(x-3)", "$(hex x)", "$(user", "$()"] {
            assert!(MessageTemplate::read(bad).is_none(), "{bad}");
        }
    }
}
