//! Deliberate bugs: each must be found, or the simulation proves nothing.

#[cfg(feature = "mutants")]
pub(crate) use with::{hunt_all, switch_on};
#[cfg(not(feature = "mutants"))]
pub(crate) use without::{hunt_all, switch_on};

#[cfg(feature = "mutants")]
mod with {
    use std::io::{self, Write};

    use crate::Hunt;
    use anyhow::{Context, ensure};
    use inrush_queue::{Mutant, switch_mutant as switch};

    /// Seeds within which each must be found.
    const SEEDS_MAX: u64 = 10_000;

    /// Switches a mutant on for the rest of the process.
    pub(crate) fn switch_on(name: &str) -> anyhow::Result<()> {
        let named = |mutant: &&Mutant| mutant.name() == name;
        let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        let mutant = Mutant::ALL.iter().find(named);
        switch(Some(
            *mutant.with_context(|| format!("there are {names:?}"))?,
        ));
        Ok(())
    }

    /// Hunts each of them; says whether all were found.
    pub(crate) fn hunt_all(jobs: Option<usize>) -> anyhow::Result<bool> {
        let mut all = true;
        for mutant in Mutant::ALL {
            switch(Some(*mutant));
            let total = crate::many(&Hunt {
                seeds: SEEDS_MAX,
                jobs,
                ..Hunt::default()
            })?;
            let found = total.violations.first();
            all &= found.is_some();
            let words = match found {
                Some((seed, words)) => format!("found with seed {seed}: {words}"),
                None => format!("NOT FOUND in {} seeds", total.seeds),
            };
            writeln!(io::stdout(), "{:24} {words}", mutant.name())?;
        }
        switch(None);
        ensure!(!Mutant::ALL.is_empty(), "no mutants");
        Ok(all)
    }
}

#[cfg(not(feature = "mutants"))]
mod without {
    use std::process::Command;

    use anyhow::{Context, bail};

    /// There are none in this build.
    pub(crate) fn switch_on(name: &str) -> anyhow::Result<()> {
        bail!("built without `--features mutants`, so there is no {name}")
    }

    /// Builds them in and hunts them there.
    pub(crate) fn hunt_all(jobs: Option<usize>) -> anyhow::Result<bool> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["run", "--quiet", "--release", "--package", "inrush-sim"]);
        command.args(["--features", "mutants", "--", "sim", "--mutants"]);
        if let Some(jobs) = jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        let status = command.status().context("cargo does not start")?;
        Ok(status.success())
    }
}
