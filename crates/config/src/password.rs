//! Password hash of the admin login: an Argon2id hash (RFC 9106) as a PHC string.
//!
//! # Limits
//! A hash must be worth its name and bearable: from [`MEMORY_KIB_MIN`] to [`MEMORY_KIB_MAX`],
//! [`ROUNDS_MAX`] rounds, [`LANES_MAX`] lanes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::{ARGON2ID_IDENT, Argon2, Params, PasswordHasher};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// KiB that a hash takes at least: the least that OWASP's password storage sheet recommends.
const MEMORY_KIB_MIN: u32 = 7 * 1024;
/// KiB that a hash takes at most: a login must not push the queue out of memory.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
/// Rounds at most: with the most memory, about 3 s.
const ROUNDS_MAX: u32 = 16;
/// Lanes at most.
const LANES_MAX: u32 = 8;
/// Random bytes of a salt: what RFC 9106 recommends.
const SALT_BYTES: usize = 16;

/// Characters of a password at least.
pub(super) const PASSWORD_CHARS_MIN: usize = 8;
/// Bytes of a password at most.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// A password that nobody can read back. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

/// Reason that a text is no password hash, without quoting it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PasswordHashError {
    /// Not a PHC string with salt and hash.
    #[error(
        "this is not a password hash; make one with `inrush check --hash-password`, and put it in \
         quotes"
    )]
    Malformed,
    /// Another algorithm.
    #[error(
        "this is a hash of another kind than argon2id; make one with `inrush check --hash-password`"
    )]
    OtherKind,
    /// Too cheap for an attacker.
    #[error(
        "this hash is made with less than {MEMORY_KIB_MIN} KiB of memory, which is too easy to \
         guess; make one with `inrush check --hash-password`"
    )]
    Weak,
    /// Too dear for us.
    #[error(
        "this hash costs more than a login may take; make one with `inrush check --hash-password`"
    )]
    Dear,
}

/// Reason that a password cannot be hashed.
#[derive(Debug, thiserror::Error)]
pub enum HashingError {
    /// Fewer characters than are worth hashing.
    #[error("the password has fewer than {PASSWORD_CHARS_MIN} characters; take a longer one")]
    Short,
    /// More bytes than anyone types.
    #[error("the password has more than {PASSWORD_BYTES_MAX} bytes; take a shorter one")]
    Long,
    /// The system gave no random bytes, or no memory.
    #[error("the password cannot be hashed: {0}")]
    System(String),
}

impl PasswordHash {
    /// Hashes a password with 19 MiB of memory and two rounds, which takes about 30 ms.
    ///
    /// # Errors
    /// The password is too short or too long, or the system has no random bytes.
    pub fn of(password: &str) -> Result<Self, HashingError> {
        if password.chars().count() < PASSWORD_CHARS_MIN {
            return Err(HashingError::Short);
        }
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(HashingError::Long);
        }
        let system = |what: &dyn fmt::Display| HashingError::System(what.to_string());
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| system(&error))?;
        let hash = Argon2::default()
            .hash_password_with_salt(password.as_bytes(), &salt)
            .map_err(|error| system(&error))?;
        Ok(Self(hash.to_string()))
    }

    /// True if it is the hash of `password`. Takes as long as hashing does, whatever the answer.
    pub fn matches(&self, password: &str) -> bool {
        let parsed = Phc::new(&self.0);
        parsed.is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        })
    }

    /// The PHC string, for the one place that prints a new one.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for PasswordHash {
    type Err = PasswordHashError;

    fn from_str(text: &str) -> Result<Self, PasswordHashError> {
        let text = text.trim();
        let hash = Phc::new(text).map_err(|_| PasswordHashError::Malformed)?;
        if hash.algorithm != ARGON2ID_IDENT {
            return Err(PasswordHashError::OtherKind);
        }
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err(PasswordHashError::Malformed);
        }
        let cost = Params::try_from(&hash).map_err(|_| PasswordHashError::Malformed)?;
        if cost.m_cost() < MEMORY_KIB_MIN {
            return Err(PasswordHashError::Weak);
        }
        let dear = cost.m_cost() > MEMORY_KIB_MAX
            || cost.t_cost() > ROUNDS_MAX
            || cost.p_cost() > LANES_MAX;
        match dear {
            true => Err(PasswordHashError::Dear),
            false => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for PasswordHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl<'de> Deserialize<'de> for PasswordHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for PasswordHash {
    fn schema_name() -> Cow<'static, str> {
        "PasswordHash".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "password-hash" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn a_hash_knows_its_password_and_no_other() {
        let hash = PasswordHash::of("correct horse").unwrap();
        let again: PasswordHash = hash.expose().parse().unwrap();
        assert!(again.matches("correct horse"));
        for other in ["correct hors", "correct horse ", "", "Correct horse"] {
            assert!(!again.matches(other), "{other}");
        }
        assert_ne!(
            hash,
            PasswordHash::of("correct horse").unwrap(),
            "each has its own salt"
        );
    }

    #[test]
    fn what_is_no_hash_is_refused_in_words_that_do_not_quote_it() {
        for (text, why) in [
            ("hunter22", PasswordHashError::Malformed),
            ("", PasswordHashError::Malformed),
            (
                "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA",
                PasswordHashError::Malformed,
            ),
            (
                "$argon2id$v=19$m=0,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA",
                PasswordHashError::Malformed,
            ),
            (
                &GOOD.replace("argon2id", "argon2i"),
                PasswordHashError::OtherKind,
            ),
            (
                &GOOD.replace("argon2id", "bcrypt"),
                PasswordHashError::OtherKind,
            ),
            (&GOOD.replace("19456", "64"), PasswordHashError::Weak),
            (&GOOD.replace("19456", "4194304"), PasswordHashError::Dear),
            (&GOOD.replace("t=2", "t=4000"), PasswordHashError::Dear),
        ] {
            assert_eq!(text.parse::<PasswordHash>(), Err(why), "{text}");
        }
        assert!(GOOD.parse::<PasswordHash>().is_ok());
        let said = format!("{:?}", GOOD.parse::<PasswordHash>());
        assert!(!said.contains("argon2id"), "{said}");
    }

    #[test]
    fn a_password_has_a_length_worth_hashing() {
        assert!(matches!(
            PasswordHash::of("short77"),
            Err(HashingError::Short)
        ));
        assert!(PasswordHash::of("pässwört").is_ok(), "eight characters");
        let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
        assert!(matches!(PasswordHash::of(&long), Err(HashingError::Long)));
    }
}
