//! `inrush migrate`: the way over from another collector.

mod collectors;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use inrush_config::{Config, FileProblems};
use inrush_migrate::{ContextFiles, Migration, SplunkFiles, sc4s, splunk};
use inrush_pipeline::checked;

use super::UsageError;
use collectors::{CollectordArgs, FluentBitArgs};

/// Arguments of `migrate`.
#[derive(Args)]
pub(crate) struct MigrateArgs {
    #[command(subcommand)]
    from: MigrateSource,
}

/// What to migrate from.
#[derive(Subcommand)]
enum MigrateSource {
    /// Splunk Connect for Syslog: prints an inrush.yaml; what is not carried over goes to stderr
    Sc4s(Sc4sArgs),
    /// Splunk heavy forwarder: prints an inrush.yaml; what is not carried over goes to stderr
    Splunk(SplunkArgs),
    /// Collectord: prints an inrush.yaml with comments; what is left to do goes to stderr too
    Collectord(CollectordArgs),
    /// Fluent Bit: prints an inrush.yaml with comments; what is left to do goes to stderr too
    FluentBit(FluentBitArgs),
}

/// Arguments of `migrate sc4s`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush migrate sc4s /opt/sc4s/env_file --context /opt/sc4s/local/context > inrush.yaml
  inrush run --sc4s-env /opt/sc4s/env_file      runs straight from it

The token is not printed: the configuration takes it from the variable that it had there.")]
struct Sc4sArgs {
    /// The env_file
    #[arg(value_name = "ENV_FILE")]
    env_file: PathBuf,
    /// The folder of the context files (splunk_metadata.csv, host.csv and so on)
    #[arg(long, value_name = "DIR")]
    context: Option<PathBuf>,
}

/// Arguments of `migrate splunk`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush migrate splunk /opt/splunk/etc > inrush.yaml
  inrush migrate splunk ./hec-app/local > inrush.yaml

Reads inputs.conf ([http], [http://NAME]), outputs.conf ([httpout], [tcpout:GROUP]) and limits.conf
([http_input]). Tokens are not printed: the configuration takes them from variables.")]
struct SplunkArgs {
    /// The folder with the .conf files, or `etc` of the forwarder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The context files are small; this bounds what is read of a wrong one.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Prints the configuration; what is left goes to stderr.
pub(crate) fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let made = match &args.from {
        MigrateSource::Sc4s(args) => migrated(&args.env_file, args.context.as_deref())?.1,
        MigrateSource::Splunk(args) => splunk(&splunk_files(&args.folder)?),
        MigrateSource::Collectord(args) => collectors::from_collectord(args)?,
        MigrateSource::FluentBit(args) => collectors::from_fluent_bit(args)?,
    };
    let mut out = std::io::stdout().lock();
    out.write_all(made.config.as_bytes())?;
    out.flush()?;
    say(&made);
    Ok(ExitCode::SUCCESS)
}

/// The configuration that an env_file stands for.
pub(crate) fn configuration(
    env_file: &Path,
    context: Option<&Path>,
    data_dir: Option<&Path>,
) -> anyhow::Result<Config> {
    let (text, made) = migrated(env_file, context)?;
    let env =
        |name: &str| inrush_migrate::variable(&text, name).or_else(|| std::env::var(name).ok());
    let name = env_file.display().to_string();
    let parsed: Result<Config, FileProblems> = checked::parse(&made.config, &name, &env);
    let mut config = parsed?;
    if let Some(data_dir) = data_dir {
        config.data_dir = data_dir.to_owned();
    }
    Ok(config)
}

fn migrated(env_file: &Path, context: Option<&Path>) -> Result<(String, Migration), UsageError> {
    let text = read(env_file).map_err(UsageError)?;
    let file = |name: &str| {
        let path = context.map(|folder| folder.join(name));
        match path.filter(|path| path.exists()) {
            Some(path) => read(&path).map_err(UsageError),
            None => Ok(String::new()),
        }
    };
    let context = ContextFiles {
        splunk_metadata_csv: file("splunk_metadata.csv")?,
        host_csv: file("host.csv")?,
        compliance_conf: file("compliance_meta_by_source.conf")?,
        compliance_csv: file("compliance_meta_by_source.csv")?,
        vendor_product_conf: file("vendor_product_by_source.conf")?,
        vendor_product_csv: file("vendor_product_by_source.csv")?,
    };
    let made = sc4s(&text, &context);
    Ok((text, made))
}

/// The files of a forwarder, in the order in which later ones win: those of apps, each `default`
/// before `local`, those of the system, and those of the folder itself.
fn splunk_files(folder: &Path) -> Result<SplunkFiles, UsageError> {
    let mut folders = Vec::new();
    let mut apps: Vec<PathBuf> = std::fs::read_dir(folder.join("apps"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    apps.sort();
    apps.push(folder.join("system"));
    apps.push(folder.to_owned());
    for app in apps {
        folders.extend([app.join("default"), app.join("local")]);
    }
    folders.push(folder.to_owned());
    let named = |file: &str| -> Result<Vec<(String, String)>, UsageError> {
        let paths = folders.iter().map(|folder| folder.join(file));
        let paths = paths.filter(|path| path.is_file());
        let text = |path: PathBuf| {
            let text = read(&path).map_err(UsageError)?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            Ok((name.display().to_string(), text))
        };
        paths.map(text).collect()
    };
    let files = SplunkFiles {
        inputs: named("inputs.conf")?,
        outputs: named("outputs.conf")?,
        limits: named("limits.conf")?,
    };
    if files.inputs.is_empty() && files.outputs.is_empty() {
        return Err(UsageError(format!(
            "{}: there is no inputs.conf and no outputs.conf in it; give the folder with them, or \
             `etc` of the forwarder",
            folder.display()
        )));
    }
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    inrush_files::read_to_string(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => said(&"larger than 16 MiB; is it the right file?"),
        _ => said(&error),
    })
}

fn say(made: &Migration) {
    if made.notes.is_empty() {
        eprintln!("inrush: everything was carried over");
        return;
    }
    eprintln!("inrush: not carried over:");
    for note in &made.notes {
        eprintln!("  {}: {}", note.what, note.why);
    }
}
