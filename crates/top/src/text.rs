//! Numbers as people read them, and text that is fit for a terminal.

/// With a comma between thousands.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Events a second; one decimal where it matters.
pub(crate) fn rate(a_second: f64) -> String {
    match a_second {
        r if r <= 0.0 => "0".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r => number(r.round() as u64),
    }
}

/// Bytes in powers of 1000, as disks are sold.
pub(crate) fn bytes(n: f64) -> String {
    let mut left = n.max(0.0);
    for unit in ["B", "kB", "MB", "GB"] {
        if left < 999.5 {
            let decimals = usize::from(unit != "B" && left < 99.95);
            return format!("{left:.decimals$} {unit}");
        }
        left /= 1000.0;
    }
    format!("{left:.1} TB")
}

/// A length of time in its two largest units at most.
pub(crate) fn time(ms: f64) -> String {
    if ms > 0.0 && ms < 0.0995 {
        return format!("{:.0} µs", (ms * 1000.0).max(1.0));
    }
    if ms < 1000.0 {
        let decimals = usize::from(ms > 0.0 && ms < 9.95);
        return format!("{:.decimals$} ms", ms.max(0.0));
    }
    let s = (ms / 1000.0) as u64;
    match s {
        0..10 => format!("{:.1} s", ms / 1000.0),
        10..100 => format!("{s} s"),
        100..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A bar for each value, the highest of them as high as a line. What is not 0 is seen.
pub(crate) fn bars(values: impl Iterator<Item = f64> + Clone) -> String {
    const HIGHER: [char; 7] = ['▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.clone().fold(0.0, f64::max);
    let bar = |value: f64| match value > 0.0 {
        true => {
            let step = (value / highest * HIGHER.len() as f64).ceil() as usize;
            HIGHER[step.clamp(1, HIGHER.len()) - 1]
        }
        false => '▁',
    };
    values.map(bar).collect()
}

/// Without control characters, and without those that make a line read as something that it is
/// not (bidirectional overrides).
pub(crate) fn plain(text: &str) -> String {
    let bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    text.replace(bad, "\u{fffd}")
}

/// Lines of at most so many characters, broken between words where there is a gap.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let line = lines.last_mut().map_or(0, |line| line.chars().count());
            let gap = usize::from(line > 0);
            let room = width.max(1).saturating_sub(line + gap);
            // A word that is longer than a line is cut; others begin the next one.
            let fits = word.len() <= room || (line == 0 && room > 0);
            if fits {
                let rest = word.split_off(word.len().min(room));
                if let Some(last) = lines.last_mut() {
                    last.extend(std::iter::repeat_n(' ', gap).chain(word));
                }
                word = rest;
            }
            if !word.is_empty() {
                lines.push(String::new());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(number(n), text);
        }
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn rates_have_a_decimal_while_it_matters() {
        for (r, text) in [
            (-3.0, "0"),
            (0.0, "0"),
            (0.26, "0.3"),
            (9.94, "9.9"),
            (9.96, "10"),
            (1234.4, "1,234"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(rate(r), text);
        }
    }

    #[test]
    fn sizes_and_times_have_their_units() {
        for (n, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1000.0, "1.0 kB"),
            (99_940.0, "99.9 kB"),
            (134_217_728.0, "134 MB"),
            (10_737_418_240.0, "10.7 GB"),
            (999_960_000.0, "1.0 GB"),
            (4e15, "4000.0 TB"),
        ] {
            assert_eq!(bytes(n), text, "{n}");
        }
        for (ms, text) in [
            (-1.0, "0 ms"),
            (0.0001, "1 µs"),
            (0.0455, "46 µs"),
            (0.0996, "0.1 ms"),
            (0.4, "0.4 ms"),
            (9.97, "10 ms"),
            (999.0, "999 ms"),
            (1500.0, "1.5 s"),
            (59_000.0, "59 s"),
            (150_000.0, "2 min"),
            (3_725_000.0, "1 h 2 min"),
            (266_400_000.0, "3 d 2 h"),
        ] {
            assert_eq!(time(ms), text, "{ms}");
        }
    }

    #[test]
    fn bars_are_as_high_as_their_values() {
        let of = |values: &[f64]| bars(values.iter().copied());
        assert_eq!(of(&[0.0, 1.0, 3.5, 7.0]), "▁▂▅█");
        assert_eq!(of(&[0.0, 0.001, 1e9]), "▁▂█", "what is not 0 is seen");
        assert_eq!(of(&[0.0, f64::NAN, -1.0]), "▁▁▁");
        assert_eq!(of(&[]), "");
    }

    #[test]
    fn nothing_but_text_comes_out() {
        assert_eq!(
            plain("a\x1b[31m\u{202e}b\n"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}"
        );
    }

    #[test]
    fn lines_break_between_words_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two", 3), ["one", "two"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("ab cdefgh", 4), ["ab", "cdef", "gh"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("ab", 0), ["a", "b"], "no width is a width of one");
    }
}
