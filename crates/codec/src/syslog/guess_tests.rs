//! Guesses of zones: reached for every zone, never by a backlog, never lost to a clock that is off.
#![allow(clippy::unwrap_used)]

use inrush_event::Span;
use jiff::tz::{Offset, TimeZone};
use proptest::prelude::*;

use super::super::SyslogParser;
use super::super::calendar::instants;
use super::*;

/// 2026-11-21T19:00:00Z.
const START: i64 = 1_795_287_600;

const HOUR: i64 = 3600;

/// A source, and a sender to it.
struct Bench {
    parser: SyslogParser,
    guesses: Arc<ZoneGuesses>,
    sender: IpAddr,
    host: String,
    news: Vec<GuessChange>,
}

impl Bench {
    fn new(zone: &str) -> Self {
        let guesses = ZoneGuesses::new();
        Self {
            parser: SyslogParser::guessing(Zone::named(zone).unwrap(), Arc::clone(&guesses)),
            guesses,
            sender: IpAddr::from([192, 0, 2, 1]),
            host: "h1".to_owned(),
            news: Vec::new(),
        }
    }

    /// An event that says `local` (seconds since 1970 by its own clock) and comes at `received`.
    fn event(&mut self, local: i64, received: i64) -> Record {
        let shown = jiff::Timestamp::from_second(local).unwrap();
        let time = Offset::UTC.to_datetime(shown).strftime("%b %e %H:%M:%S");
        let raw = format!("<13>{time} {} app: x", self.host);
        let span = Span::new(0, raw.len());
        let received = Timestamp(received * SECOND_NS + 500_000_000);
        let mut record = Record::unparsed(span, received, 0, Anomalies::NONE);
        let news = self
            .parser
            .parse_from(raw.as_bytes(), &mut record, self.sender);
        self.news.extend(news);
        record
    }

    /// Events of a clock that is `offset` seconds east, every five seconds, as many as make a
    /// guess; when the next one is due.
    fn settle(&mut self, offset: i64, from: i64) -> i64 {
        let events = i64::from(GUESS_EVENTS);
        for number in 0..events {
            self.event(from + 5 * number + offset, from + 5 * number);
        }
        from + 5 * events
    }

    /// Changes of guesses since the last time.
    fn news(&mut self) -> Vec<GuessChange> {
        std::mem::take(&mut self.news)
    }
}

fn second(record: &Record) -> i64 {
    record.event_time.0.div_euclid(SECOND_NS)
}

fn made(minutes: i64) -> Vec<GuessChange> {
    let to = Some(minutes as i16);
    vec![GuessChange { from: None, to }]
}

fn is_guessed(record: &Record) -> bool {
    let has = |one| record.anomalies.contains(one);
    assert_ne!(has(Anomalies::ZONE_GUESSED), has(Anomalies::ZONE_ASSUMED));
    has(Anomalies::ZONE_GUESSED)
}

/// Minutes east of UTC of every zone of these years.
fn offsets() -> Vec<i64> {
    let mut offsets = Vec::new();
    for name in jiff::tz::db().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        for week in 0..52 * 12 {
            let at = jiff::Timestamp::from_second(1_577_836_800 + week * 7 * 86_400).unwrap();
            offsets.push(i64::from(zone.to_offset(at).seconds()) / 60);
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

#[test]
fn every_zone_of_the_time_zone_database_can_be_guessed() {
    let offsets = offsets();
    assert!(offsets.len() >= 36, "{offsets:?}");
    for minutes in offsets {
        let mut bench = Bench::new(if minutes == 0 { "+03:00" } else { "UTC" });
        let at = bench.settle(minutes * 60, START);
        assert_eq!(bench.news(), made(minutes), "{minutes}");
        let record = bench.event(at + minutes * 60, at);
        assert_eq!(second(&record), at, "{minutes}");
        assert_eq!(i64::from(record.zone_minutes), minutes);
        assert!(is_guessed(&record));
    }
}

#[test]
fn offsets_that_no_zone_has_are_not_guessed() {
    for minutes in [-735, -15, 15, 45, 90, 105, 855, 900, 24 * 60, 365 * 24 * 60] {
        let mut bench = Bench::new("UTC");
        bench.settle(minutes * 60, START);
        assert_eq!(bench.news(), [], "{minutes}");
    }
}

#[test]
fn until_there_is_a_guess_the_zone_of_the_source_holds() {
    let mut bench = Bench::new("Europe/Berlin");
    for number in 0..7 {
        let at = START + 5 * number;
        let record = bench.event(at - 5 * HOUR, at);
        assert_eq!(second(&record), at - 6 * HOUR);
        assert!(!is_guessed(&record));
        assert_eq!(record.zone_minutes, Record::ZONE_NONE);
    }
    let at = START + 35;
    let record = bench.event(at - 5 * HOUR, at);
    assert!(is_guessed(&record));
    assert_eq!(second(&record), at);
}

#[test]
fn many_events_at_once_are_not_enough() {
    let mut bench = Bench::new("UTC");
    for number in 0..10_000 {
        let at = START + number / 800;
        bench.event(at - 5 * HOUR, at);
    }
    assert_eq!(bench.news(), [], "13 seconds are too few");
    bench.event(START + 14 - 5 * HOUR, START + 14);
    assert_eq!(bench.news(), made(-300));
}

#[test]
fn senders_are_told_apart_by_address_and_by_host() {
    let mut bench = Bench::new("UTC");
    let at = bench.settle(-5 * HOUR, START);
    assert_eq!(bench.news(), made(-300));
    bench.host = "h2".to_owned();
    assert!(!is_guessed(&bench.event(at - 5 * HOUR, at)));
    bench.host = "h1".to_owned();
    bench.sender = IpAddr::from([192, 0, 2, 2]);
    assert!(!is_guessed(&bench.event(at - 5 * HOUR, at)));
    bench.sender = IpAddr::from([192, 0, 2, 1]);
    assert!(is_guessed(&bench.event(at - 5 * HOUR, at)));
}

#[test]
fn what_one_worker_learns_all_know() {
    let mut bench = Bench::new("UTC");
    let at = bench.settle(-5 * HOUR, START);
    let zone = Zone::named("UTC").unwrap();
    bench.parser = SyslogParser::guessing(zone, Arc::clone(&bench.guesses));
    assert!(is_guessed(&bench.event(at - 5 * HOUR, at)));
}

#[test]
fn two_clocks_behind_one_name_make_no_guess_and_change_none() {
    let both = |bench: &mut Bench, from: i64| {
        for number in 0..500 {
            let at = from + 5 * number;
            bench.event(at - 5 * HOUR * (number % 2), at);
        }
    };
    let mut bench = Bench::new("UTC");
    both(&mut bench, START);
    assert_eq!(bench.news(), []);
    let at = bench.settle(-5 * HOUR, START + 5000);
    assert_eq!(bench.news(), made(-300));
    both(&mut bench, at);
    assert_eq!(bench.news(), []);
}

/// Events every half minute around a change of the clocks in New York; how many were read as an
/// instant at which they did not happen, and what became of the guess.
fn over_a_change(at: &str) -> (i64, Vec<GuessChange>) {
    let change = at.parse::<jiff::Timestamp>().unwrap().as_second();
    let zone = TimeZone::get("America/New_York").unwrap();
    let mut bench = Bench::new("UTC");
    let mut wrong = 0;
    for number in -200..200 {
        let at = change + 30 * number;
        let offset = zone.to_offset(jiff::Timestamp::from_second(at).unwrap());
        let record = bench.event(at + i64::from(offset.seconds()), at);
        let settled = number >= -200 + i64::from(GUESS_EVENTS);
        wrong += i64::from(settled && second(&record) != at);
        assert!(second(&record) == at || number < 16, "{number}");
    }
    (wrong, bench.news())
}

#[test]
fn a_change_of_the_clocks_is_followed_in_both_directions() {
    for (at, before, after) in [
        ("2026-03-08T07:00:00Z", -300, -240),
        ("2026-11-01T06:00:00Z", -240, -300),
    ] {
        let (wrong, news) = over_a_change(at);
        let changed = GuessChange {
            from: Some(before),
            to: Some(after),
        };
        let mut all = made(before.into());
        all.push(changed);
        assert_eq!(news, all, "{at}");
        assert_eq!(wrong, i64::from(CHANGE_EVENTS) - 1, "{at}");
    }
}

#[test]
fn a_sender_that_fits_the_zone_of_its_source_needs_no_guess_over_a_year() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let mut bench = Bench::new("Europe/Berlin");
    for number in 0..8_760 {
        let at = START + HOUR * number;
        let offset = zone.to_offset(jiff::Timestamp::from_second(at).unwrap());
        bench.event(at + i64::from(offset.seconds()), at);
    }
    assert_eq!(bench.news(), []);
}

#[test]
fn a_guess_ends_when_the_clock_is_set_to_the_zone_of_the_source() {
    let mut bench = Bench::new("Asia/Kolkata");
    let mut at = bench.settle(-5 * HOUR, START);
    assert_eq!(bench.news(), made(-300));
    for _ in 0..CHANGE_EVENTS {
        at += 5;
        bench.event(at + 19_800, at);
    }
    let (from, to) = (Some(-300), None);
    assert_eq!(bench.news(), [GuessChange { from, to }]);
    let record = bench.event(at + 19_800, at);
    assert_eq!((second(&record), is_guessed(&record)), (at, false));
}

#[test]
fn without_a_sender_the_zone_of_the_source_holds() {
    let mut bench = Bench::new("America/New_York");
    let raw = b"<13>Nov 21 14:00:00 h1 app: x";
    let received = Timestamp(START * SECOND_NS);
    let span = Span::new(0, raw.len());
    let mut record = Record::unparsed(span, received, 0, Anomalies::NONE);
    bench.parser.parse(raw, &mut record);
    assert_eq!((second(&record), is_guessed(&record)), (START, false));
}

#[test]
fn a_time_that_its_zone_moves_out_of_the_calendar_is_no_date() {
    let mut bench = Bench::new("+02:00");
    let raw = b"<13>1677-09-21T00:30:00 h1 app: x";
    let received = Timestamp(START * SECOND_NS);
    let span = Span::new(0, raw.len());
    let mut record = Record::unparsed(span, received, 0, Anomalies::NONE);
    bench.parser.parse_from(raw, &mut record, bench.sender);
    assert!(!record.event_time.is_some());
    assert!(record.anomalies.contains(Anomalies::BAD_TIME));
}

#[test]
fn what_was_guessed_is_written_down_and_holds_in_the_next_life() {
    let mut bench = Bench::new("UTC");
    assert!(!bench.guesses.take_news());
    let at = bench.settle(-5 * HOUR, START);
    bench.host = "h2".to_owned();
    bench.settle(9 * HOUR / 2, START);
    for number in 0..8 {
        let seen = OffsetSample {
            ahead: HOUR,
            configured: 0,
            at: START + 5 * number,
        };
        bench.guesses.note(bench.sender, b"h\"3", seen);
    }
    assert!(bench.guesses.take_news() && !bench.guesses.take_news());
    let mut list = bench.guesses.list();
    list.sort_by(|a, b| a.host.cmp(&b.host));
    let shown: Vec<_> = list.iter().map(|one| (&*one.host, one.minutes)).collect();
    assert_eq!(shown, [("h1", -300), ("h2", 270)], "the odd one is not");

    let mut next = Bench::new("UTC");
    let none = |minutes| KeptGuess {
        minutes,
        ..list[0].clone()
    };
    next.guesses
        .fill(list.iter().cloned().chain([none(7), none(i16::MIN)]));
    assert!(
        !next.guesses.take_news(),
        "what was read need not be written"
    );
    let record = next.event(at - 5 * HOUR, at);
    assert!(is_guessed(&record) && second(&record) == at);
    let other = next.settle(2 * HOUR, at + 60);
    for number in 0..8 {
        next.event(other + 5 * number + 2 * HOUR, other + 5 * number);
    }
    assert_eq!(next.news().len(), 1, "it changes like any other");
    assert_eq!(next.guesses.list().len(), 2);
    assert!(next.guesses.list().iter().any(|one| one.minutes == 120));
}

#[test]
fn invented_senders_are_bounded_and_push_no_guess_out() {
    let guesses = ZoneGuesses::new();
    let known = IpAddr::from([192, 0, 2, 1]);
    let seen = |at: i64| OffsetSample {
        ahead: -5 * HOUR,
        configured: 0,
        at,
    };
    for number in 0..8 {
        guesses.note(known, b"known", seen(START + 2 * number));
    }
    for number in 0..300_000_u32 {
        let at = seen(START + i64::from(number % 7));
        guesses.note(known, &number.to_le_bytes(), at);
    }
    let (minutes, _) = guesses.note(known, b"known", seen(START));
    assert_eq!(minutes, Some(-300));
    let table = |shard: &Mutex<SenderTable>| {
        let table = shard.lock().unwrap();
        let (known, watched) = (&table.known, &table.watched);
        (
            known.young.len() + known.old.len(),
            watched.young.len() + watched.old.len(),
        )
    };
    let sizes: Vec<_> = guesses.shards.iter().map(table).collect();
    let watched: usize = sizes.iter().map(|(_, watched)| watched).sum();
    assert_eq!(sizes.iter().map(|(known, _)| known).sum::<usize>(), 1);
    assert!(
        (SENDERS_MAX / 2..=SENDERS_MAX).contains(&watched),
        "{watched}"
    );
}

#[test]
fn who_is_heard_of_is_not_forgotten() {
    let mut table = Generations::default();
    table.put(0, "heard");
    table.put(1, "silent");
    for key in 2..3 * GENERATION_MAX as u64 {
        table.put(key, "new");
        if key % 100 == 0 {
            assert_eq!(table.get(0), Some(&mut "heard"), "{key}");
        }
    }
    assert_eq!(table.get(1), None);
    assert!(table.young.len() + table.old.len() <= 2 * GENERATION_MAX);
}

/// Minutes east of UTC of a zone other than the source's, which is UTC.
fn minutes() -> impl Strategy<Value = i64> {
    let hours = (-12_i64..=14).prop_filter("not the source's", |hour| *hour != 0);
    let between = (0..BETWEEN_HOURS.len()).prop_map(|index| BETWEEN_HOURS[index]);
    prop_oneof![hours.prop_map(|hour| hour * 60), between]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the zone and the time of year, by a clock that is off by up to two minutes: the
    /// guess is made, and from then on every event stands where the clock says.
    #[test]
    fn a_guess_is_reached_and_right(
        minutes in minutes(),
        start in instants(),
        skew in 10 - FIT_S..FIT_S - 10,
        gaps in prop::collection::vec((6_i64..900, 0_i64..4), 12..40),
    ) {
        let mut bench = Bench::new("UTC");
        let mut at = start;
        for (number, (gap, late)) in gaps.into_iter().enumerate() {
            at += gap;
            let said = at + skew;
            let record = bench.event(said + minutes * 60, at + late);
            if number + 1 >= usize::from(GUESS_EVENTS) {
                prop_assert!(is_guessed(&record), "{number}");
                prop_assert_eq!(second(&record), said);
            }
        }
        prop_assert_eq!(bench.news(), made(minutes));
    }

    /// A clock that is off by minutes, for good or jumping about, never loses its guess.
    #[test]
    fn a_skewed_clock_never_flips_a_guess(
        minutes in minutes(),
        skews in prop::collection::vec((-420_i64..=420, 1_usize..30), 1..20),
        gap in 1_i64..120,
    ) {
        let mut bench = Bench::new("UTC");
        let mut at = bench.settle(minutes * 60, START);
        for (skew, events) in skews {
            for _ in 0..events {
                at += gap;
                let record = bench.event(at + skew + minutes * 60, at);
                prop_assert_eq!(second(&record), at + skew);
            }
        }
        prop_assert_eq!(bench.news(), made(minutes));
    }

    /// A clock that drifts never loses its guess, not even where it comes to stand for a while at
    /// what another zone shows.
    #[test]
    fn a_drifting_clock_never_flips_a_guess(
        minutes in minutes(),
        fast in prop_oneof![-50_i64..=50, 47_i64..=50, -50_i64..=-47],
        slow in prop_oneof![Just(-1_i64), Just(1)],
        every in 1_i64..20,
        gap in 2_i64..600,
    ) {
        let mut bench = Bench::new("UTC");
        let mut at = bench.settle(minutes * 60, START);
        let mut skew = 0;
        for number in 0..600 {
            at += gap;
            // An hour is near, and then passed slowly.
            skew += match number % every {
                _ if number < 72 => fast,
                0 => slow,
                _ => 0,
            };
            let record = bench.event(at + skew + minutes * 60, at);
            prop_assert_eq!(second(&record), at + skew);
        }
        prop_assert_eq!(bench.news(), made(minutes));
    }

    /// What was kept for hours and is then sent faster than it came about makes no guess, and does
    /// not change one: it is read by the one that there is.
    #[test]
    fn a_backlog_makes_no_guess_and_changes_none(
        zone in prop_oneof![Just(0_i64), minutes()],
        late in HOUR / 4..14 * HOUR,
        every in 1_i64..120,
        pace in 2_i64..1000,
    ) {
        let mut bench = Bench::new("UTC");
        let mut now = START;
        if zone != 0 {
            now = bench.settle(zone * 60, START);
            prop_assert_eq!(bench.news(), made(zone));
        }
        let sent = now;
        let first = now - late;
        for number in 0..5_000 {
            let happened = first + every * number;
            now = sent + every * number / pace;
            if happened > now {
                break;
            }
            let record = bench.event(happened + zone * 60, now);
            prop_assert_eq!(second(&record), happened);
        }
        prop_assert_eq!(bench.news(), []);
    }
}
