//! The configuration of a command: `-c`, else `INRUSH_CONFIG`, else the packaged file, else the
//! built-in one. It is the same for every command, so that what an alarm prints can be pasted.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use inrush_config::{self as config, Config};
use inrush_event::limits::CONFIG_FILE_BYTES_MAX;
use inrush_pipeline::checked;

use super::UsageError;

/// Environment variable that names the configuration file.
const VARIABLE: &str = "INRUSH_CONFIG";

/// The file that packages install; it counts where it exists.
const PACKAGED: &str = "/etc/inrush/inrush.yaml";

/// Name of standard input among files.
const STDIN: &str = "-";

/// The option that names the configuration file.
#[derive(Args, Clone, Default)]
pub(crate) struct ConfigArg {
    /// The configuration file [default: INRUSH_CONFIG, else /etc/inrush/inrush.yaml where it
    /// exists, else the built-in configuration]
    #[arg(
        id = "config",
        short = 'c',
        long = "config",
        value_name = "FILE",
        global = true
    )]
    path: Option<PathBuf>,
}

/// Origin of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ConfigOrigin {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// The binary.
    Builtin,
}

impl ConfigArg {
    /// Origin of the configuration.
    pub(crate) fn origin(&self) -> ConfigOrigin {
        let packaged = || Some(PathBuf::from(PACKAGED)).filter(|path| is_there(path));
        let path = self.named().or_else(packaged);
        path.map_or(ConfigOrigin::Builtin, ConfigOrigin::of)
    }

    /// True if the command line or the environment names it.
    pub(crate) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    fn named(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        self.path.clone().or_else(|| variable().map(PathBuf::from))
    }

    /// The configuration, fitted to the memory limit.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let mut config = self.origin().load(None)?;
        config.fit_memory(config::memory_limit());
        Ok(config)
    }
}

/// True unless it is certain that nothing has this name: a file that may not be read is no reason
/// to go on without it.
fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

impl ConfigOrigin {
    /// The file of this name, or standard input.
    pub(crate) fn of(path: PathBuf) -> Self {
        match path.as_os_str() == STDIN {
            true => Self::Stdin,
            false => Self::File(path),
        }
    }

    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdin | Self::Builtin => None,
        }
    }

    /// Reads, resolves and checks the configuration; the built-in one keeps everything under
    /// `data_dir` or `./inrush-data`.
    ///
    /// # Errors
    /// Everything that is wrong with it, or standard input cannot be read.
    pub(crate) fn load(&self, data_dir: Option<&Path>) -> anyhow::Result<Config> {
        let mut config = match self {
            Self::File(path) => checked::load(path, &variable)?,
            Self::Stdin => checked::load_text(&stdin()?, STDIN, &variable)?,
            Self::Builtin => return Ok(Config::builtin(data_dir)?),
        };
        if let Some(data_dir) = data_dir {
            data_dir.clone_into(&mut config.data_dir);
        }
        Ok(config)
    }

    /// The same without a look at the files that it names; `None` for problems, and for standard
    /// input, which was read already.
    pub(crate) fn understood(&self) -> Option<Config> {
        let path = self.file()?;
        let text = inrush_files::read_to_string(path, CONFIG_FILE_BYTES_MAX as u64).ok()?;
        checked::parse(&text, &path.display().to_string(), &variable).ok()
    }

    /// The words of a command line that name this configuration, with a space before them; empty
    /// where the command finds it by itself.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::File(path) if path != Path::new(PACKAGED) => format!(" -c {}", path.display()),
            _ => String::new(),
        }
    }
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str(STDIN),
            Self::Builtin => f.write_str("built-in configuration"),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The text on standard input, one byte longer than allowed where it is longer.
fn stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let most = CONFIG_FILE_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    if bytes.len() > CONFIG_FILE_BYTES_MAX {
        let text =
            format!("stdin has more than {CONFIG_FILE_BYTES_MAX} bytes; is it a configuration?");
        return Err(UsageError(text).into());
    }
    let text = String::from_utf8(bytes);
    text.map_err(|_| UsageError("stdin is not UTF-8; give a configuration as text".into()).into())
}
