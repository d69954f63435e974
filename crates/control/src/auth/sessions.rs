//! Sessions: in memory only, so that a restart ends them all.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use super::IDLE;

/// Sessions at once: a team with its tabs and phones. One more ends the one that was longest idle;
/// only those who know the password can make them.
pub(super) const SESSIONS_MAX: usize = 256;

/// 256 random bits: not to be guessed, so that looking them up in a table gives nothing away.
pub(crate) type SessionId = [u8; 32];

struct LoginSession {
    csrf: String,
    born: Instant,
    heard_of: Instant,
}

impl LoginSession {
    fn is_over(&self, lifetime: Duration, now: Instant) -> bool {
        now.duration_since(self.born) >= lifetime || now.duration_since(self.heard_of) >= IDLE
    }
}

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions {
    by_id: HashMap<SessionId, LoginSession>,
}

impl Sessions {
    /// A new session; `None` where the system has no random bytes.
    pub(super) fn open(&mut self, lifetime: Duration, now: Instant) -> Option<SessionId> {
        let id = random()?;
        let session = LoginSession {
            csrf: hex(&random()?),
            born: now,
            heard_of: now,
        };
        if self.by_id.len() >= SESSIONS_MAX {
            self.make_room(lifetime, now);
        }
        self.by_id.insert(id, session);
        Some(id)
    }

    fn make_room(&mut self, lifetime: Duration, now: Instant) {
        self.by_id
            .retain(|_, session| !session.is_over(lifetime, now));
        if self.by_id.len() >= SESSIONS_MAX {
            let oldest = self
                .by_id
                .iter()
                .min_by_key(|(_, session)| session.heard_of);
            let oldest = oldest.map(|(id, _)| *id);
            oldest.map(|id| self.by_id.remove(&id));
        }
    }

    /// True if the session goes on; it is heard of by this.
    pub(super) fn alive(&mut self, id: &SessionId, lifetime: Duration, now: Instant) -> bool {
        let Some(session) = self.by_id.get_mut(id) else {
            return false;
        };
        if session.is_over(lifetime, now) {
            self.by_id.remove(id);
            return false;
        }
        session.heard_of = now;
        true
    }

    /// The CSRF token.
    pub(super) fn csrf(&self, id: &SessionId) -> Option<String> {
        self.by_id.get(id).map(|session| session.csrf.clone())
    }

    /// Ends one.
    pub(super) fn close(&mut self, id: &SessionId) {
        self.by_id.remove(id);
    }

    /// Ends all.
    pub(super) fn clear(&mut self) {
        self.by_id.clear();
    }
}

fn random() -> Option<SessionId> {
    let mut id = SessionId::default();
    getrandom::fill(&mut id).ok().map(|()| id)
}

/// Lower-case hexadecimal.
pub(super) fn hex(id: &SessionId) -> String {
    let mut text = String::with_capacity(64);
    for byte in id {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Reads what [`hex`] wrote, and nothing else.
pub(super) fn unhex(text: &str) -> Option<SessionId> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut id = SessionId::default();
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_session_ends_when_it_was_idle_and_when_its_time_is_over() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let idle = sessions.open(DAY, start).unwrap();
        assert!(sessions.alive(&idle, DAY, start + IDLE - MINUTE));
        assert!(
            sessions.alive(&idle, DAY, start + 2 * IDLE - 2 * MINUTE),
            "it was heard of"
        );
        assert!(!sessions.alive(&idle, DAY, start + 3 * IDLE));
        assert!(!sessions.alive(&idle, DAY, start), "it does not come back");

        let busy = sessions.open(DAY, start).unwrap();
        let mut now = start;
        while now + 30 * MINUTE < start + DAY {
            now += 30 * MINUTE;
            assert!(sessions.alive(&busy, DAY, now));
        }
        assert!(!sessions.alive(&busy, DAY, start + DAY));
    }

    #[test]
    fn sessions_are_bounded_and_the_longest_idle_makes_room() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let at = |n: usize| start + Duration::from_secs(n as u64);
        let ids: Vec<_> = (0..SESSIONS_MAX)
            .map(|n| sessions.open(DAY, at(n)).unwrap())
            .collect();
        let later = at(SESSIONS_MAX);
        assert!(sessions.alive(&ids[0], DAY, later));
        let one_more = sessions.open(DAY, later).unwrap();
        assert_eq!(sessions.by_id.len(), SESSIONS_MAX);
        for (id, alive) in [
            (ids[0], true),
            (ids[1], false),
            (ids[2], true),
            (one_more, true),
        ] {
            assert_eq!(sessions.alive(&id, DAY, later), alive);
        }
    }

    #[test]
    fn ids_and_csrf_tokens_are_all_different_and_readable_one_way() {
        let mut sessions = Sessions::default();
        let now = Instant::now();
        let (a, b) = (
            sessions.open(DAY, now).unwrap(),
            sessions.open(DAY, now).unwrap(),
        );
        assert_ne!(a, b);
        assert_ne!(sessions.csrf(&a), sessions.csrf(&b));
        assert_ne!(sessions.csrf(&a).unwrap(), hex(&a));
        assert_eq!(unhex(&hex(&a)), Some(a));
        for text in [
            "",
            "0",
            &"0".repeat(63),
            &"0".repeat(65),
            &"G".repeat(64),
            &"é".repeat(32),
        ] {
            assert_eq!(unhex(text), None, "{text}");
        }
        assert_eq!(
            unhex(&hex(&a).to_uppercase()).is_some(),
            hex(&a).bytes().all(|b| b < b'a')
        );
    }
}
