//! `inrush completions` and `inrush man`: what packages install beside the program, made from the
//! declarations of the command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::Cli;

/// Arguments of `completions`.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: KnownShell,
}

/// Arguments of `man`.
#[derive(Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages; it must be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Shells with completions.
#[derive(Clone, Copy, ValueEnum)]
enum KnownShell {
    /// GNU Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(), "inrush", &mut text);
    let mut out = std::io::stdout().lock();
    out.write_all(&text)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `inrush.1`, and a page for each command.
pub(crate) fn pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("{}: manual pages cannot be written", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without its hidden commands, which a shell would offer otherwise.
fn shown() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|one| !one.is_hide_set());
    Command::new("inrush")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown.cloned())
}
