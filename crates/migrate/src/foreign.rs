//! Sections of another collector's configuration, and the settings that nothing has taken yet.

use std::fmt;
use std::rc::Rc;

/// Place of a setting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SettingPlace {
    /// Name of the file.
    pub(crate) file: Rc<str>,
    /// Line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One `key = value`.
#[derive(Clone, Debug)]
pub(crate) struct ForeignSetting {
    /// The key as it is written.
    pub(crate) key: String,
    /// The value. It may be a secret: notes never show it.
    pub(crate) value: String,
    /// Place of the key.
    pub(crate) place: SettingPlace,
}

/// A section: its name, and the settings that nothing has taken yet.
#[derive(Clone, Debug)]
pub(crate) struct ForeignSection {
    /// The name, as notes show it.
    pub(crate) name: String,
    /// Place of its beginning.
    pub(crate) place: SettingPlace,
    settings: Vec<ForeignSetting>,
}

impl ForeignSection {
    pub(crate) fn new(name: impl Into<String>, place: SettingPlace) -> Self {
        Self {
            name: name.into(),
            place,
            settings: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, setting: ForeignSetting) {
        self.settings.push(setting);
    }

    /// Removes the last setting of a key, whatever its case.
    pub(crate) fn take(&mut self, key: &str) -> Option<ForeignSetting> {
        let named = |setting: &ForeignSetting| setting.key.eq_ignore_ascii_case(key);
        let at = self.settings.iter().rposition(named)?;
        Some(self.settings.remove(at))
    }

    /// Removes every setting of a key, in their order.
    pub(crate) fn take_all(&mut self, key: &str) -> Vec<ForeignSetting> {
        self.take_where(|one| one.eq_ignore_ascii_case(key))
    }

    /// Removes every setting whose key, in small letters, fits.
    pub(crate) fn take_where(&mut self, fits: impl Fn(&str) -> bool) -> Vec<ForeignSetting> {
        let settings = std::mem::take(&mut self.settings).into_iter();
        let (taken, left) = settings.partition(|one| fits(&one.key.to_ascii_lowercase()));
        self.settings = left;
        taken
    }

    /// The value of a key, which stays.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let named = |setting: &&ForeignSetting| setting.key.eq_ignore_ascii_case(key);
        let found = self.settings.iter().rev().find(named)?;
        Some(found.value.as_str())
    }

    /// Removes a setting that switches something, if it is there: true for yes.
    pub(crate) fn take_switch(&mut self, key: &str) -> Option<bool> {
        self.take(key).map(|setting| is_yes(&setting.value))
    }

    /// Number of settings that nothing has taken.
    pub(crate) fn len(&self) -> usize {
        self.settings.len()
    }

    /// Removes all that is left.
    pub(crate) fn take_rest(&mut self) -> Vec<ForeignSetting> {
        std::mem::take(&mut self.settings)
    }
}

/// True if a value says yes.
pub(crate) fn is_yes(value: &str) -> bool {
    matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "on" | "true" | "yes" | "1" | "t" | "y"
    )
}

/// True if the value of a key of this name must not be printed.
pub(crate) fn is_secret(key: &str) -> bool {
    const WORDS: [&str; 12] = [
        "token",
        "passw",
        "passphrase",
        "secret",
        "apikey",
        "api_key",
        "api-key",
        "access_key",
        "private_key",
        "shared_key",
        "license",
        "authorization",
    ];
    let key = key.to_ascii_lowercase();
    WORDS.iter().any(|word| key.contains(word))
}

/// A path without the credentials of a user and without a query, each of which may hold a secret;
/// and true if there was one.
pub(crate) fn without_secrets(url: &str) -> (String, bool) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let bare = host.rsplit_once('@').map_or(host, |(_, bare)| bare);
    let shown = path.split(['?', '#']).next().unwrap_or_default();
    let scheme = match scheme {
        "" => String::new(),
        scheme => format!("{scheme}://"),
    };
    let had = bare.len() != host.len() || shown.len() != path.len();
    (format!("{scheme}{bare}{shown}"), had)
}
