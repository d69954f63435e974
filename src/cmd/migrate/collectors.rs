//! Files of Collectord and of Fluent Bit, and what they include, as texts.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use inrush_migrate::{Migration, collectord, fluent_bit};

use super::FILE_BYTES_MAX;
use crate::cmd::UsageError;

/// Files that one include finds at most.
const INCLUDED_MAX: usize = 64;
/// Names of a folder that an include looks through.
const NAMES_MAX: usize = 10_000;

/// Arguments of `migrate collectord`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush migrate collectord collectord.conf > inrush.yaml
  inrush migrate collectord collectorforkubernetes.yaml > inrush.yaml
  kubectl -n collectorforkubernetes get cm,ds,deploy -o yaml | inrush migrate collectord /dev/stdin

A file has INI sections, lines COLLECTOR__NAME=section__key=value, or Kubernetes manifests with
both; what stands later wins. Tokens are not printed: the configuration takes them from variables.")]
pub(super) struct CollectordArgs {
    /// Files, in the order in which Collectord reads them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Arguments of `migrate fluent-bit`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush migrate fluent-bit /fluent-bit/etc/fluent-bit.conf > inrush.yaml
  inrush migrate fluent-bit fluent-bit.yaml > inrush.yaml
  kubectl -n logging get configmap -o yaml | inrush migrate fluent-bit /dev/stdin

Reads the classic format, the YAML form, and both in Kubernetes manifests; follows @INCLUDE,
`includes` and Parsers_File. Secrets are not printed: the configuration takes them from variables.")]
pub(super) struct FluentBitArgs {
    /// Files; those that they include are found beside them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// A name and a text.
type NamedText = (String, String);

/// The configuration that files of Collectord stand for.
pub(super) fn from_collectord(args: &CollectordArgs) -> Result<Migration, UsageError> {
    Ok(collectord(&given(&args.files)?))
}

/// The configuration that files of Fluent Bit stand for.
pub(super) fn from_fluent_bit(args: &FluentBitArgs) -> Result<Migration, UsageError> {
    Ok(fluent_bit(&given(&args.files)?, &included))
}

/// The files that the command line names.
fn given(paths: &[PathBuf]) -> Result<Vec<NamedText>, UsageError> {
    let read = |path: &PathBuf| {
        let bytes = inrush_files::open_given(path)
            .and_then(|file| inrush_files::read_up_to(&file, FILE_BYTES_MAX));
        let bytes = bytes.map_err(|error| UsageError(said(path, &error)))?;
        Ok((path.display().to_string(), text(bytes)))
    };
    paths.iter().map(read).collect()
}

fn said(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let path = path.display();
            format!("{path}: larger than 16 MiB; is it the right file?")
        }
        _ => format!("{}: {error}", path.display()),
    }
}

/// Bytes as a text: what is not UTF-8 in a comment or a value must not stop the rest.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Files that one of the name `from` includes: by the path as it is, or beside it, where the path
/// is that of a container.
fn included(from: &str, pattern: &str) -> Result<Vec<NamedText>, String> {
    let beside = Path::new(from).parent().unwrap_or(Path::new("."));
    let base = pattern.rsplit('/').next().unwrap_or(pattern);
    for place in [beside.join(pattern), beside.join(base)] {
        let paths = matching(&place).map_err(|error| said(&place, &error))?;
        if paths.is_empty() {
            continue;
        }
        let read = |path: &PathBuf| {
            let bytes = inrush_files::read(path, FILE_BYTES_MAX);
            let bytes = bytes.map_err(|error| said(path, &error))?;
            Ok((path.display().to_string(), text(bytes)))
        };
        return paths.iter().map(read).collect();
    }
    Err("there is no such file".to_owned())
}

/// Files of a path whose last part may have `*`, in the order of their names.
fn matching(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let Some(name) = name.filter(|name| name.contains('*')) else {
        return Ok(path.exists().then(|| path.to_owned()).into_iter().collect());
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries.take(NAMES_MAX) {
        let entry = entry?;
        if fits(&entry.file_name().to_string_lossy(), &name) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    paths.truncate(INCLUDED_MAX);
    Ok(paths)
}

/// True if a name fits a pattern in which `*` stands for any text.
fn fits(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_found_beside_their_file_by_name_and_by_pattern() {
        let dir = std::env::temp_dir().join(format!("inrush-migrate-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["main.conf", "in-b.conf", "in-a.conf", "out.conf"] {
            std::fs::write(dir.join(name), [name.as_bytes(), b" \xff"].concat()).unwrap();
        }
        let main = dir.join("main.conf").display().to_string();
        let names = |pattern: &str| -> Vec<String> {
            let files = included(&main, pattern).unwrap_or_default();
            files.into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(
            names("in-*.conf"),
            ["in-a.conf \u{fffd}", "in-b.conf \u{fffd}"]
        );
        assert_eq!(names("/fluent-bit/etc/out.conf"), ["out.conf \u{fffd}"]);
        assert_eq!(names("none.conf"), [""; 0]);
        let error = included(&main, "none.conf").unwrap_err();
        assert_eq!(error, "there is no such file");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (name, pattern, wanted) in [
            ("a.conf", "*.conf", true),
            ("a.conf", "a*", true),
            ("a.conf.bak", "*.conf", false),
            ("abc", "a*b*c", true),
            ("ac", "a*c*c", false),
            ("x", "*", true),
        ] {
            assert_eq!(fits(name, pattern), wanted, "{name} {pattern}");
        }
    }
}
