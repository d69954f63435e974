//! Deliberate bugs: each must be found, or the simulation proves nothing.

#[cfg(feature = "mutants")]
pub(crate) use with::{hunt_all, switch_on};
#[cfg(not(feature = "mutants"))]
pub(crate) use without::{hunt_all, switch_on};

#[cfg(feature = "mutants")]
mod with {
    use std::io::{self, Write};

    use crate::{SimCampaign, SimTarget};
    use anyhow::{Context, ensure};

    /// Seeds within which each must be found, in the store and in the log: since a new place is
    /// written twice, the first log that shows what comes of trusting a found one is 10,775.
    const STORE_SEEDS_MAX: u64 = 10_000;
    const LOG_SEEDS_MAX: u64 = 20_000;

    /// A deliberate bug.
    #[derive(Clone, Copy)]
    enum SimMutant {
        Log(inrush_queue::Mutant),
        Ingest(inrush_ingest::Mutant),
        Source(inrush_source::Mutant),
        Store(inrush_store::Mutant),
    }

    impl SimMutant {
        fn all() -> Vec<Self> {
            let of_log = inrush_queue::Mutant::ALL.iter().copied().map(Self::Log);
            let of_store = inrush_store::Mutant::ALL.iter().copied().map(Self::Store);
            let of_ingest = inrush_ingest::Mutant::ALL.iter().copied().map(Self::Ingest);
            let of_source = inrush_source::Mutant::ALL.iter().copied().map(Self::Source);
            let of_hec = of_ingest.chain(of_source);
            of_log.chain(of_hec).chain(of_store).collect()
        }

        fn name(self) -> &'static str {
            match self {
                Self::Log(mutant) => mutant.name(),
                Self::Ingest(mutant) => mutant.name(),
                Self::Source(mutant) => mutant.name(),
                Self::Store(mutant) => mutant.name(),
            }
        }

        fn subject(self) -> SimTarget {
            match self {
                Self::Log(_) => SimTarget::Log,
                Self::Ingest(_) | Self::Source(_) => SimTarget::Hec,
                Self::Store(_) => SimTarget::Store,
            }
        }
    }

    fn switch(mutant: Option<SimMutant>) {
        inrush_queue::switch_mutant(match mutant {
            Some(SimMutant::Log(mutant)) => Some(mutant),
            _ => None,
        });
        inrush_ingest::switch_mutant(match mutant {
            Some(SimMutant::Ingest(mutant)) => Some(mutant),
            _ => None,
        });
        inrush_source::switch_mutant(match mutant {
            Some(SimMutant::Source(mutant)) => Some(mutant),
            _ => None,
        });
        inrush_store::switch_mutant(match mutant {
            Some(SimMutant::Store(mutant)) => Some(mutant),
            _ => None,
        });
    }

    /// Switches a mutant on for the rest of the process; says what it is in.
    pub(crate) fn switch_on(name: &str) -> anyhow::Result<SimTarget> {
        let all = SimMutant::all();
        let names: Vec<&str> = all.iter().map(|mutant| mutant.name()).collect();
        let mutant = all.iter().find(|mutant| mutant.name() == name);
        let mutant = *mutant.with_context(|| format!("there are {names:?}"))?;
        switch(Some(mutant));
        Ok(mutant.subject())
    }

    /// Hunts each of them; says whether all were found.
    pub(crate) fn hunt_all(jobs: Option<usize>) -> anyhow::Result<bool> {
        let mut are_found = true;
        let all = SimMutant::all();
        ensure!(!all.is_empty(), "no mutants");
        for mutant in all {
            switch(Some(mutant));
            let total = crate::many(&SimCampaign {
                subject: mutant.subject(),
                seeds: match mutant {
                    SimMutant::Store(_) => STORE_SEEDS_MAX,
                    _ => LOG_SEEDS_MAX,
                },
                jobs,
                ..SimCampaign::default()
            })?;
            let found = total.violations.first();
            are_found &= found.is_some();
            let words = match found {
                Some((seed, words)) => format!("found with seed {seed}: {words}"),
                None => format!("NOT FOUND in {} seeds", total.seeds),
            };
            writeln!(io::stdout(), "{:24} {words}", mutant.name())?;
        }
        switch(None);
        Ok(are_found)
    }
}

#[cfg(not(feature = "mutants"))]
mod without {
    use std::process::Command;

    use anyhow::{Context, bail};

    /// There are none in this build.
    pub(crate) fn switch_on(name: &str) -> anyhow::Result<crate::SimTarget> {
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
