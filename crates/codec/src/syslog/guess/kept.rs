//! Guesses as they are written down, and read again after a restart.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use super::{SenderGuess, ZoneGuesses, is_real};

/// Bytes of a host name that is written down: as many as a name can have.
const HOST_BYTES_MAX: usize = 255;

/// A sender with a guess.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SenderIdentity {
    sender: IpAddr,
    host: Box<str>,
}

impl SenderIdentity {
    /// `None`: its host is called as no host is, and is not written down.
    pub(super) fn new(sender: IpAddr, host: &[u8]) -> Option<Box<Self>> {
        let host = std::str::from_utf8(host)
            .ok()
            .filter(|host| is_plain(host))?;
        Some(Box::new(Self {
            sender,
            host: host.into(),
        }))
    }
}

/// True if a host name is short, and needs no quoting wherever it is written.
fn is_plain(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    host.len() <= HOST_BYTES_MAX && host.bytes().all(plain)
}

/// A guess that is to outlive the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptGuess {
    /// The address of the sender.
    pub sender: IpAddr,
    /// The host that its events name; empty if they name none.
    pub host: Box<str>,
    /// Minutes east of UTC.
    pub minutes: i16,
}

impl ZoneGuesses {
    /// All guesses but those of hosts with odd names; who was not heard of for longest comes first,
    /// about.
    pub fn list(&self) -> Vec<KeptGuess> {
        let (mut old, mut young) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let table = shard.lock().unwrap_or_else(PoisonError::into_inner);
            old.extend(table.known.old.values().filter_map(kept));
            young.extend(table.known.young.values().filter_map(kept));
        }
        old.append(&mut young);
        old
    }

    /// Takes over what [`Self::list`] gave in an earlier life. What no zone can be is passed over.
    pub fn fill(&self, known: impl IntoIterator<Item = KeptGuess>) {
        for KeptGuess {
            sender,
            host,
            minutes,
        } in known
        {
            let ahead = i64::from(minutes) * 60;
            if is_real(i64::from(minutes)) {
                let key = self.keys.hash_one((sender, host.as_bytes()));
                let who = SenderIdentity::new(sender, host.as_bytes());
                let known = SenderGuess::new(who, minutes, ahead);
                self.shard(key).known.put(key, known);
            }
        }
    }

    /// Takes the news: true if a guess was made, changed or ended since this was last asked.
    pub fn take_news(&self) -> bool {
        self.news.swap(false, Relaxed)
    }

    /// Has [`Self::take_news`] say so: what it said was not written down after all.
    pub fn note_news(&self) {
        self.news.store(true, Relaxed);
    }
}

fn kept(known: &SenderGuess) -> Option<KeptGuess> {
    let SenderIdentity { sender, host } = &**known.who.as_ref()?;
    Some(KeptGuess {
        sender: *sender,
        host: host.clone(),
        minutes: known.minutes,
    })
}
