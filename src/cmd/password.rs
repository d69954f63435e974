//! `inrush check --hash-password`: from a password on stdin to its hash on stdout.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use inrush_config::{PASSWORD_BYTES_MAX, PasswordHash};
use inrush_transport::process;

use super::UsageError;

/// Asks for it twice on a terminal, where nobody sees what he types; else reads one line.
pub(crate) fn hash() -> anyhow::Result<ExitCode> {
    let password = match io::stdin().is_terminal() {
        true => asked()?,
        false => line()?,
    };
    if password.is_empty() {
        let words = "nothing was read; type the password, or give it as a line on stdin";
        return Err(UsageError(words.to_owned()).into());
    }
    let hash = PasswordHash::of(&password).map_err(|error| UsageError(error.to_string()))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", hash.expose())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn asked() -> anyhow::Result<String> {
    let ask = |prompt: &str| {
        eprint!("{prompt}");
        process::without_echo(line)
    };
    let password = ask("Password for the dashboard: ")?;
    if ask("Once more: ")? != password {
        return Err(UsageError("the two are not the same; nothing was hashed".to_owned()).into());
    }
    Ok(password)
}

/// One line of stdin without its end.
fn line() -> anyhow::Result<String> {
    let mut line = Vec::new();
    // One byte more than a password has, and the line's end.
    let most = PASSWORD_BYTES_MAX as u64 + 3;
    let mut stdin = io::stdin().lock().take(most);
    stdin
        .read_until(b'\n', &mut line)
        .context("cannot read stdin")?;
    let line =
        String::from_utf8(line).map_err(|_| UsageError("the password is not UTF-8".to_owned()))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
