//! Copies that are made and cut (`copytruncate`), with looks of the finder and the reader between
//! all that happens.

use super::*;

/// Acts of a copier, one after the other: `a.log` is copied to `a.log.1`, and cut.
#[derive(Clone, Copy, Debug)]
enum CopyAct {
    Create,
    Part,
    End,
    /// Text that is lost unless it was read before the cut.
    WriteBetween,
    Cut,
    WriteNew,
}

/// Looks between two acts.
const LOOKS: [&[SimStep]; 4] = [
    &[],
    &[SimStep::Find],
    &[SimStep::Read],
    &[SimStep::Find, SimStep::Read, SimStep::Find],
];

fn act(simulation: &FileSimulation, act: CopyAct) {
    let source = &simulation.source;
    let (log, copy) = (source.path("a.log"), source.path("a.log.1"));
    match act {
        CopyAct::Create => drop(File::create(copy).unwrap()),
        CopyAct::Part => drop(source.append("a.log.1", "1\n")),
        CopyAct::End => {
            let copied = fs::metadata(copy).unwrap().len() as usize;
            drop(source.append("a.log.1", &"1\n2\n"[copied..]));
        }
        CopyAct::WriteBetween => drop(source.append("a.log", "3\n")),
        CopyAct::Cut => {
            let file = OpenOptions::new().write(true).open(log).unwrap();
            file.set_len(0).unwrap();
        }
        CopyAct::WriteNew => drop(source.append("a.log", "4\n5\n6\n")),
    }
}

/// Runs all looks between all acts. `is_aged`: the copy is younger by the clock of births.
fn every_look(acts: &[CopyAct], is_aged: bool, options: &str) {
    let runs = LOOKS.len().pow(acts.len() as u32);
    for run in 0..runs {
        let mut simulation = FileSimulation::new(options);
        simulation.source.append("a.log", "1\n2\n");
        if is_aged {
            simulation.source.tick();
        }
        let mut looks = run;
        let mut said = Vec::new();
        for one in acts {
            for look in LOOKS[looks % LOOKS.len()] {
                simulation.take(look);
                said.push(format!("{look:?}"));
            }
            looks /= LOOKS.len();
            act(&simulation, *one);
            said.push(format!("{one:?}"));
        }
        simulation.settle();
        let mut texts = simulation.source.texts.clone();
        texts.sort();
        // What was written behind the copy may be read in time.
        let between = texts.iter().filter(|text| *text == "3").count();
        assert!(between <= 1, "{said:?}: {texts:?}");
        texts.retain(|text| text != "3");
        let has_new = matches!(acts.last(), Some(CopyAct::WriteNew));
        let expected: &[&str] = match has_new {
            true => &["1", "2", "4", "5", "6"],
            false => &["1", "2"],
        };
        assert_eq!(texts, expected, "{said:?}");
    }
}

#[test]
fn a_copy_that_is_cut_at_once_is_never_read_again_and_what_was_unread_is_read_once() {
    use CopyAct::{Create, Cut, End, Part, WriteNew};
    every_look(&[Create, Part, End, Cut, WriteNew], true, ALL_NAMES);
}

/// With text behind the copy, which is lost unless it is read in time.
#[test]
fn text_behind_a_copy_does_not_hide_that_it_is_one() {
    use CopyAct::{Create, Cut, End, WriteBetween};
    every_look(&[Create, End, WriteBetween, Cut], true, ALL_NAMES);
}

/// The log is so young that the births of both are one.
#[test]
fn a_copy_of_a_file_some_milliseconds_old_is_one() {
    use CopyAct::{Create, Cut, End, WriteNew};
    every_look(&[Create, End, Cut, WriteNew], false, ALL_NAMES);
}

/// Text that is read before the copy is known stays read; text that is not cut is read in its file.
#[test]
fn a_copy_of_what_is_not_cut_is_never_read() {
    use CopyAct::{Create, End, Part};
    every_look(&[Create, Part, End], true, ALL_NAMES);
}

#[test]
fn what_is_as_long_as_what_was_cut_is_read() {
    let mut simulation = FileSimulation::new(HELD);
    simulation.source.append("a.log", "1\n2\n");
    for step in [SimStep::Find, SimStep::Read, SimStep::Find] {
        simulation.take(&step);
    }
    fs::write(simulation.source.path("a.log"), "3\n4\n").unwrap();
    simulation.settle();
    assert_eq!(simulation.source.texts, ["1", "2", "3", "4"]);
}

#[test]
fn files_that_begin_alike_are_both_read() {
    let mut simulation = FileSimulation::new(ALL_NAMES);
    let head = "h".repeat(2000);
    simulation.source.append("a.log", &format!("{head}\n1\n"));
    simulation.settle();
    simulation.source.tick();
    for number in 2..9 {
        let text = format!("{head}\n{number}\n");
        simulation.source.append(&format!("a.log.{number}"), &text);
    }
    simulation.settle();
    let mut texts = simulation.source.texts.clone();
    texts.retain(|text| *text != head);
    texts.sort();
    assert_eq!(
        texts,
        (1..9).map(|number| number.to_string()).collect::<Vec<_>>()
    );
}
