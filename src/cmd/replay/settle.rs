//! Takes out of quarantine what was delivered now: by the process that runs, or in its files where
//! none does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::bail;
use inrush_config::Config;
use inrush_event::limits;
use inrush_pipeline::DataDirLock;
use inrush_pipeline::quarantine::{FOLDER, QuarantineQuery};
use inrush_queue::QuarantineLog;

use super::{ReplayJob, ReplayResult};
use crate::cmd::queue::client;

/// Bytes of the list of numbers that a request carries.
const NUMBERS_BYTES_MAX: usize = 4000;

/// Takes entries out.
pub(super) struct Settler<'a> {
    config: &'a Config,
    /// Admin address of the running process.
    admin: SocketAddr,
    /// True if the data directory is ours already.
    owned: bool,
}

impl<'a> Settler<'a> {
    pub(super) fn new(job: &ReplayJob<'a>, owned: bool) -> Self {
        let config = job.config;
        Self {
            config,
            admin: job.args.admin.unwrap_or(config.admin.listen.0),
            owned,
        }
    }

    /// Takes these entries out. What cannot be taken out is counted as left behind.
    pub(super) fn settle(&self, numbers: BTreeSet<u64>, done: &mut ReplayResult) {
        let events = numbers.len() as u64;
        if events == 0 {
            return;
        }
        match self.remove(&numbers) {
            Ok(()) => done.settled += events,
            Err(error) => {
                done.left_behind += events;
                done.left_behind_because = Some(format!("{error:#}"));
            }
        }
    }

    fn remove(&self, numbers: &BTreeSet<u64>) -> anyhow::Result<()> {
        let data_dir = &self.config.data_dir;
        let owner = match self.owned {
            true => None,
            false => Some(DataDirLock::take(data_dir)),
        };
        match owner {
            Some(Err(error)) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                return self.ask(numbers);
            }
            Some(Err(error)) => bail!("data_dir {}: {error}", data_dir.display()),
            None | Some(Ok(_)) => {}
        }
        let bytes_max = inrush_event::ByteSize(limits::QUARANTINE_BYTES_DEFAULT);
        let log = QuarantineLog::new(&data_dir.join(FOLDER), bytes_max);
        log.remove(numbers)?;
        Ok(())
    }

    fn ask(&self, numbers: &BTreeSet<u64>) -> anyhow::Result<()> {
        let token = client::token(Some(self.config));
        for id in lists(numbers) {
            let query = QuarantineQuery {
                id: Some(id),
                ..QuarantineQuery::default()
            };
            client::post(self.admin, token.as_deref(), "drop", &query)?;
        }
        Ok(())
    }
}

/// The numbers as `7,9,100-200`, in texts of bounded length.
fn lists(numbers: &BTreeSet<u64>) -> Vec<String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let mut lists = vec![String::new()];
    for (first, last) in runs {
        if lists
            .last()
            .is_some_and(|list| list.len() > NUMBERS_BYTES_MAX)
        {
            lists.push(String::new());
        }
        if let Some(list) = lists.last_mut() {
            let comma = if list.is_empty() { "" } else { "," };
            let _ = write!(list, "{comma}{first}-{last}");
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_lists_of_bounded_length_and_none_is_lost() {
        assert_eq!(lists(&BTreeSet::from([7, 9, 10, 11])), ["7-7,9-11"]);
        let odd: BTreeSet<u64> = (0..20_000).map(|n| 2 * n + 1).collect();
        let made = lists(&odd);
        assert!(made.len() > 1);
        assert!(made.iter().all(|list| list.len() < NUMBERS_BYTES_MAX + 50));
        let read = made
            .iter()
            .flat_map(|list| inrush_queue::QuarantineFilter::parse_numbers(list));
        let read: BTreeSet<u64> = read.flatten().flatten().collect();
        assert_eq!(read, odd);
    }
}
