//! Filter of the entries in quarantine.

use std::ops::RangeInclusive;

use inrush_event::Timestamp;

use super::QuarantineEntry;

/// Filter of entries: those that every given condition fits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuarantineFilter {
    /// Of this destination.
    pub destination: Option<String>,
    /// Refused for this reason, by its label.
    pub reason: Option<String>,
    /// With a number in one of these ranges; any if there is none.
    pub numbers: Vec<RangeInclusive<u64>>,
    /// Refused at or after this time.
    pub since: Option<Timestamp>,
}

impl QuarantineFilter {
    /// True if the entry meets every given condition.
    pub fn fits(&self, entry: &QuarantineEntry) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        is(&self.destination, &entry.destination)
            && is(&self.reason, &entry.note.reason)
            && self.since.is_none_or(|since| since <= entry.note.at)
            && (self.numbers.is_empty()
                || self
                    .numbers
                    .iter()
                    .any(|range| range.contains(&entry.number)))
    }

    /// Reads numbers as people write them: `7`, `7,9`, `100-200`.
    ///
    /// # Errors
    /// In words, what is wrong.
    pub fn parse_numbers(text: &str) -> Result<Vec<RangeInclusive<u64>>, String> {
        let number = |digits: &str| {
            let digits = digits.trim();
            digits
                .parse::<u64>()
                .map_err(|_| format!("`{digits}` is not the number of an entry"))
        };
        text.split(',')
            .map(|part| match part.split_once('-') {
                None => number(part).map(|only| only..=only),
                Some((first, last)) => Ok(number(first)?..=number(last)?),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(QuarantineFilter::parse_numbers("7").unwrap(), [7..=7]);
        assert_eq!(
            QuarantineFilter::parse_numbers("7, 9,100-200").unwrap(),
            [7..=7, 9..=9, 100..=200]
        );
        for wrong in ["", "x", "1-", "-1", "1,,2"] {
            assert!(QuarantineFilter::parse_numbers(wrong).is_err(), "{wrong}");
        }
    }
}
