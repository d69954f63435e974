//! Patterns of paths, matched name by name on the way down a tree.
//!
//! # Grammar
//! | pattern | matches |
//! |---|---|
//! | `*` | any bytes of a name, also none, also a dot in front |
//! | `?` | one character of a name; a byte that is no UTF-8 is one |
//! | `[a-z_]` `[!a-z]` `[^a-z]` | one character of a set, or not of it; `]` in front is itself |
//! | `{a,b/c}` | any of these, which can be patterns and hold `/` |
//! | `**` as a whole name | any number of folders, also none; at the end: all files below |
//! | `\` | the next character as itself |
//!
//! A pattern is absolute. A pattern that excludes may be relative: then it matches below any
//! folder, so that `*.gz` is `/**/*.gz`. A file is matched by its path; an excluded folder is only
//! left out if the pattern ends in `/**`.
//!
//! # What it guarantees
//! * Names are bytes, and every byte can be matched.
//! * [`GlobState`] says for each folder if anything below it can match: so no folder is listed or
//!   watched in vain, and one that is missing has a known place.
//!
//! # Limits
//! Pattern: 4,096 bytes ([`PATTERN_BYTES_MAX`]), 256 alternatives ([`ALTERNATIVES_MAX`]), 62 names
//! in a path ([`NAMES_MAX`]). All patterns of a set: 1,024 alternatives ([`GLOBS_MAX`]). A name is
//! matched in a time below its length times that of its pattern.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Bytes of a pattern, also after its braces were written out.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Patterns without braces that one with braces may stand for.
pub const ALTERNATIVES_MAX: usize = 256;

/// Patterns without braces of a set.
pub const GLOBS_MAX: usize = 1024;

/// Names of a pattern, so that the state of a match is a bit a name and one for the end.
pub const NAMES_MAX: usize = 62;

/// A reason why a text is no pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GlobFault {
    /// It does not begin with `/`.
    NotAbsolute,
    /// It is longer than [`PATTERN_BYTES_MAX`], or becomes so.
    TooLong,
    /// It has more names than [`NAMES_MAX`].
    TooDeep,
    /// It stands for more than [`ALTERNATIVES_MAX`], or the set for more than [`GLOBS_MAX`].
    TooMany,
    /// It ends in `/`: it names a folder.
    NamesFolder,
    /// It has a name `..`.
    ParentFolder,
    /// It has a NUL, which no name has.
    Nul,
    /// A `[` without its `]` in the same name.
    OpenClass,
    /// A range of characters in `[]` that ends before it begins.
    EmptyRange,
    /// A `{` without its `}`.
    OpenBrace,
    /// A `\` at the end of a name.
    LoneEscape,
}

impl fmt::Display for GlobFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotAbsolute => "a pattern begins with /",
            Self::TooLong => "a pattern has at most 4096 bytes",
            Self::TooDeep => "a pattern has at most 62 names",
            Self::TooMany => "there are too many alternatives in braces",
            Self::NamesFolder => "a pattern that ends in / names a folder: add * or **",
            Self::ParentFolder => "a pattern has no ..",
            Self::Nul => "a pattern has no NUL",
            Self::OpenClass => "a [ has no ] in the same name; write \\[ for the character itself",
            Self::EmptyRange => "a range in [] ends before it begins",
            Self::OpenBrace => "a { has no }; write \\{ for the character itself",
            Self::LoneEscape => "a \\ has no character behind it",
        })
    }
}

impl std::error::Error for GlobFault {}

/// Part of a pattern for one name.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NamePattern {
    /// This name.
    Literal(Vec<u8>),
    /// Any name that fits.
    Wild(Vec<NameToken>),
    /// Any number of names.
    Tree,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum NameToken {
    Byte(u8),
    One,
    Many,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A pattern without braces.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PathGlob {
    names: Vec<NamePattern>,
}

/// Patterns that include files and patterns that exclude some of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobSet {
    /// Those that include first.
    globs: Vec<PathGlob>,
    includes: usize,
}

/// Progress of all patterns at a folder: a bit for each name of a pattern that may come next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GlobState {
    /// Of the first pattern: most sets have one, and each folder has a state.
    first: u64,
    /// Of the others.
    more: Box<[u64]>,
}

impl GlobState {
    fn of(mut bits: impl Iterator<Item = u64>) -> Self {
        Self {
            first: bits.next().unwrap_or(0),
            more: bits.collect(),
        }
    }

    fn bits(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

/// Meaning of a name in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobVerdict {
    /// A file of this name is included.
    pub file: bool,
    /// A folder of this name can hold what is included.
    pub folder: bool,
}

impl GlobVerdict {
    /// True if the name means nothing.
    pub fn is_nothing(self) -> bool {
        !self.file && !self.folder
    }
}

impl GlobSet {
    /// Reads patterns. On failure: the pattern and its fault.
    ///
    /// # Errors
    /// The first pattern that is none, and the reason.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, (String, GlobFault)> {
        let mut globs = Vec::new();
        for pattern in include {
            read_pattern(pattern, &mut globs).map_err(|fault| (pattern.clone(), fault))?;
        }
        let includes = globs.len();
        for pattern in exclude {
            let anywhere = match pattern.starts_with('/') {
                true => pattern.clone(),
                false => format!("/**/{pattern}"),
            };
            read_pattern(&anywhere, &mut globs).map_err(|fault| (pattern.clone(), fault))?;
        }
        Ok(Self { globs, includes })
    }

    /// The state at `/`.
    pub fn begin(&self) -> GlobState {
        GlobState::of(self.globs.iter().map(|glob| glob.closure(1)))
    }

    /// The state in the folder `name` of a folder.
    pub fn enter(&self, state: &GlobState, name: &[u8]) -> GlobState {
        let bits = self.globs.iter().zip(state.bits());
        GlobState::of(bits.map(|(glob, bits)| glob.step(bits, name)))
    }

    /// The state in a folder by its absolute path.
    pub fn at(&self, folder: &Path) -> GlobState {
        let mut state = self.begin();
        for name in names_of(folder) {
            state = self.enter(&state, name);
        }
        state
    }

    /// Meaning of `name` in a folder.
    pub fn verdict(&self, state: &GlobState, name: &[u8]) -> GlobVerdict {
        let mut verdict = GlobVerdict {
            file: false,
            folder: false,
        };
        let mut bits = self.globs.iter().zip(state.bits());
        for (glob, bits) in bits.by_ref().take(self.includes) {
            let next = glob.step(bits, name);
            verdict.file |= next & glob.end() != 0;
            verdict.folder |= next & !glob.end() != 0;
        }
        if verdict.is_nothing() {
            return verdict;
        }
        for (glob, bits) in bits {
            let next = glob.step(bits, name);
            verdict.file &= next & glob.end() == 0;
            verdict.folder &= !glob.has_all_below(next);
        }
        verdict
    }

    /// True if a file of this absolute path is included.
    pub fn matches(&self, path: &Path) -> bool {
        let mut state = self.begin();
        let mut names = names_of(path).peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return self.verdict(&state, name).file;
            }
            state = self.enter(&state, name);
        }
        false
    }

    /// Folders to begin with: for each pattern the longest one that is named without wildcards.
    /// They may not exist.
    pub fn prefixes(&self) -> Vec<PathBuf> {
        let mut prefixes: Vec<PathBuf> = self.globs[..self.includes]
            .iter()
            .map(PathGlob::prefix)
            .collect();
        prefixes.sort();
        prefixes.dedup();
        prefixes
    }

    /// Those of [`GlobSet::prefixes`] that are not below another one.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = Vec::new();
        for prefix in self.prefixes() {
            // Sorted: what is above comes before.
            if !roots.iter().any(|root| prefix.starts_with(root)) {
                roots.push(prefix);
            }
        }
        roots
    }
}

impl PathGlob {
    /// The bit of a whole match.
    fn end(&self) -> u64 {
        1 << self.names.len()
    }

    /// Adds the names behind a `**`, which may stand for no name.
    fn closure(&self, mut bits: u64) -> u64 {
        for (at, name) in self.names.iter().enumerate() {
            if *name == NamePattern::Tree && bits & (1 << at) != 0 {
                bits |= 1 << (at + 1);
            }
        }
        bits
    }

    fn step(&self, bits: u64, name: &[u8]) -> u64 {
        if bits == 0 {
            return 0;
        }
        let mut next = 0;
        for (at, pattern) in self.names.iter().enumerate() {
            if bits & (1 << at) == 0 {
                continue;
            }
            next |= match pattern {
                NamePattern::Tree => 1 << at,
                NamePattern::Literal(literal) => u64::from(literal == name) << (at + 1),
                NamePattern::Wild(tokens) => u64::from(matches_name(tokens, name)) << (at + 1),
            };
        }
        self.closure(next)
    }

    /// True if all files below match: the pattern is at the `**` that it ends in.
    fn has_all_below(&self, bits: u64) -> bool {
        let [.., NamePattern::Tree, NamePattern::Wild(last)] = self.names.as_slice() else {
            return false;
        };
        last == &[NameToken::Many] && bits & (1 << (self.names.len() - 2)) != 0
    }

    fn prefix(&self) -> PathBuf {
        let folders = self
            .names
            .split_last()
            .map_or(&[][..], |(_, folders)| folders);
        let mut prefix = b"/".to_vec();
        for name in folders {
            let NamePattern::Literal(name) = name else {
                break;
            };
            if prefix.len() > 1 {
                prefix.push(b'/');
            }
            prefix.extend_from_slice(name);
        }
        PathBuf::from(OsString::from_vec(prefix))
    }
}

/// Names of an absolute path.
pub fn names_of(path: &Path) -> impl Iterator<Item = &[u8]> {
    let names = path
        .as_os_str()
        .as_encoded_bytes()
        .split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty())
}

/// Matches a name; on a mismatch the last `*` takes one character more.
fn matches_name(tokens: &[NameToken], name: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = name.get(at..).unwrap_or(&[]);
        let taken = match tokens.get(token) {
            Some(NameToken::Many) => {
                token += 1;
                star = Some((token, at));
                continue;
            }
            Some(wanted) => wanted.take(rest),
            None if rest.is_empty() => return true,
            None => None,
        };
        match (taken, star) {
            (Some(bytes), _) => {
                token += 1;
                at += bytes;
            }
            (None, Some((behind, from))) if from < name.len() => {
                let (_, bytes) = first_char(name.get(from..).unwrap_or(&[]));
                token = behind;
                at = from + bytes;
                star = Some((behind, at));
            }
            (None, _) => return false,
        }
    }
}

impl NameToken {
    /// Bytes at the beginning of `rest` that the token, which is no `*`, matches.
    fn take(&self, rest: &[u8]) -> Option<usize> {
        let first = *rest.first()?;
        match self {
            Self::Byte(byte) => (first == *byte).then_some(1),
            Self::One | Self::Many => Some(first_char(rest).1),
            Self::Class { negated, ranges } => {
                let (char, bytes) = first_char(rest);
                let within = char.is_some_and(|char| {
                    let mut ranges = ranges.iter();
                    ranges.any(|(from, to)| (*from..=*to).contains(&char))
                });
                (within != *negated).then_some(bytes)
            }
        }
    }
}

/// The first character and its bytes; a byte that begins none is one without a character.
fn first_char(bytes: &[u8]) -> (Option<char>, usize) {
    let few = bytes.get(..4).unwrap_or(bytes);
    let valid = few.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    match valid.chars().next() {
        Some(char) => (Some(char), char.len_utf8()),
        None => (None, 1),
    }
}

/// Reads a pattern with braces into those that it stands for.
fn read_pattern(pattern: &str, globs: &mut Vec<PathGlob>) -> Result<(), GlobFault> {
    if pattern.contains('\0') {
        return Err(GlobFault::Nul);
    }
    for alternative in write_out(pattern)? {
        globs.push(read_path(&alternative)?);
        if globs.len() > GLOBS_MAX {
            return Err(GlobFault::TooMany);
        }
    }
    Ok(())
}

/// Writes out braces.
fn write_out(pattern: &str) -> Result<Vec<String>, GlobFault> {
    let mut open = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(text) = open.pop() {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(GlobFault::TooLong);
        }
        let Some(braces) = first_braces(&text)? else {
            done.push(text);
            continue;
        };
        if open.len() + done.len() + braces.alternatives.len() > ALTERNATIVES_MAX {
            return Err(GlobFault::TooMany);
        }
        // Last first: the first is written out next, so the order stays.
        for alternative in braces.alternatives.iter().rev() {
            open.push([braces.before, alternative, braces.behind].concat());
        }
    }
    Ok(done)
}

/// The first `{…}` of a text.
struct BraceGroup<'a> {
    before: &'a str,
    alternatives: Vec<&'a str>,
    behind: &'a str,
}

fn first_braces(text: &str) -> Result<Option<BraceGroup<'_>>, GlobFault> {
    let mut depth = 0_usize;
    let mut begin = 0;
    let mut part = 0;
    let mut alternatives = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => at = class_end(text, at)?,
            b'{' => {
                if depth == 0 {
                    (begin, part) = (at, at + 1);
                }
                depth += 1;
            }
            b',' if depth == 1 => {
                alternatives.push(text.get(part..at).unwrap_or(""));
                part = at + 1;
            }
            b'}' if depth == 1 => {
                alternatives.push(text.get(part..at).unwrap_or(""));
                return Ok(Some(BraceGroup {
                    before: text.get(..begin).unwrap_or(""),
                    alternatives,
                    behind: text.get(at + 1..).unwrap_or(""),
                }));
            }
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    match depth {
        0 => Ok(None),
        _ => Err(GlobFault::OpenBrace),
    }
}

/// Offset of the `]` that closes the `[` at an offset.
fn class_end(text: &str, open: usize) -> Result<usize, GlobFault> {
    let bytes = text.as_bytes();
    let mut at = open + 1;
    if matches!(bytes.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    if bytes.get(at) == Some(&b']') {
        at += 1;
    }
    loop {
        match bytes.get(at) {
            None | Some(b'/') => return Err(GlobFault::OpenClass),
            Some(b']') => return Ok(at),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// Reads a pattern without braces.
fn read_path(pattern: &str) -> Result<PathGlob, GlobFault> {
    let relative = pattern.strip_prefix('/').ok_or(GlobFault::NotAbsolute)?;
    if relative.is_empty() || relative.ends_with('/') {
        return Err(GlobFault::NamesFolder);
    }
    let mut names: Vec<NamePattern> = Vec::new();
    for name in relative.split('/') {
        match name {
            "" | "." => {}
            ".." => return Err(GlobFault::ParentFolder),
            "**" if names.last() == Some(&NamePattern::Tree) => {}
            "**" => names.push(NamePattern::Tree),
            name => names.push(read_name(name)?),
        }
    }
    match names.last() {
        None => return Err(GlobFault::NamesFolder),
        Some(NamePattern::Tree) => names.push(NamePattern::Wild(vec![NameToken::Many])),
        Some(_) => {}
    }
    match names.len() <= NAMES_MAX {
        true => Ok(PathGlob { names }),
        false => Err(GlobFault::TooDeep),
    }
}

fn read_name(name: &str) -> Result<NamePattern, GlobFault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(byte) = name.as_bytes().get(at) {
        match byte {
            b'*' if tokens.last() == Some(&NameToken::Many) => {}
            b'*' => tokens.push(NameToken::Many),
            b'?' => tokens.push(NameToken::One),
            b'[' => {
                let end = class_end(name, at)?;
                tokens.push(read_class(name.get(at + 1..end).unwrap_or(""))?);
                at = end;
            }
            b'\\' => {
                at += 1;
                let escaped = name.as_bytes().get(at).ok_or(GlobFault::LoneEscape)?;
                tokens.push(NameToken::Byte(*escaped));
            }
            byte => tokens.push(NameToken::Byte(*byte)),
        }
        at += 1;
    }
    let literal: Option<Vec<u8>> = tokens
        .iter()
        .map(|token| match token {
            NameToken::Byte(byte) => Some(*byte),
            _ => None,
        })
        .collect();
    Ok(literal.map_or(NamePattern::Wild(tokens), NamePattern::Literal))
}

/// Reads what is between `[` and `]`.
fn read_class(text: &str) -> Result<NameToken, GlobFault> {
    let positive = text.strip_prefix(['!', '^']);
    let mut chars = positive.unwrap_or(text).chars();
    let mut ranges = Vec::new();
    while let Some(first) = chars.next() {
        let from = unescaped(first, &mut chars)?;
        let mut ahead = chars.clone();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                let to = unescaped(last, &mut ahead)?;
                chars = ahead;
                to
            }
            _ => from,
        };
        if to < from {
            return Err(GlobFault::EmptyRange);
        }
        ranges.push((from, to));
    }
    Ok(NameToken::Class {
        negated: positive.is_some(),
        ranges,
    })
}

fn unescaped(first: char, rest: &mut impl Iterator<Item = char>) -> Result<char, GlobFault> {
    match first {
        '\\' => rest.next().ok_or(GlobFault::LoneEscape),
        char => Ok(char),
    }
}

#[cfg(test)]
#[path = "glob/tests.rs"]
mod tests;
