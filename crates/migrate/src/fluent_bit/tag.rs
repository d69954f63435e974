//! Tags of Fluent Bit, which say whose events a filter or an output gets.

/// Characters of a tag or a pattern that count.
const TAG_CHARS_MAX: usize = 128;

/// Part of the events of a tag that a pattern fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TagMatch {
    /// None.
    Nothing,
    /// Some of them: `*` of the tag stands for more than the pattern takes.
    Part,
    /// All.
    All,
}

/// Compares an input's tag, in which `*` stands for the name of a file, with a filter's pattern.
pub(super) fn tag_match(tag: &str, pattern: &str) -> TagMatch {
    let cut = |text: &str| -> Vec<char> { text.chars().take(TAG_CHARS_MAX).collect() };
    let (tag, pattern) = (cut(tag), cut(pattern));
    if !overlaps(&tag, &pattern) {
        return TagMatch::Nothing;
    }
    // What the tag begins with is known, and what the pattern asks for beyond may differ.
    let literal = tag.iter().position(|c| *c == '*').unwrap_or(tag.len());
    let asked = pattern.iter().position(|c| *c == '*');
    match asked {
        Some(asked) if asked + 1 == pattern.len() && asked <= literal => TagMatch::All,
        _ if literal == tag.len() => TagMatch::All,
        _ if tag == pattern => TagMatch::All,
        _ => TagMatch::Part,
    }
}

/// True if some text fits both patterns, in which `*` stands for any text.
fn overlaps(a: &[char], b: &[char]) -> bool {
    // Cell j of a row: true if the first i of `a` and the first j of `b` can be the same text.
    let mut row = vec![false; b.len() + 1];
    row[0] = true;
    for (j, c) in b.iter().enumerate() {
        row[j + 1] = row[j] && *c == '*';
    }
    for x in a {
        let mut next = vec![false; b.len() + 1];
        next[0] = row[0] && *x == '*';
        for (j, y) in b.iter().enumerate() {
            next[j + 1] = match (*x, *y) {
                ('*', _) | (_, '*') => row[j] || row[j + 1] || next[j],
                (x, y) => row[j] && x == y,
            };
        }
        row = next;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_all_or_some_or_none_of_a_tag() {
        for (tag, pattern, wanted) in [
            ("kube.*", "*", TagMatch::All),
            ("kube.*", "kube.*", TagMatch::All),
            ("kube.*", "kube*", TagMatch::All),
            ("kube.*", "kube.var.log.containers.web*", TagMatch::Part),
            ("kube.*", "*web*", TagMatch::Part),
            ("kube.*", "host.*", TagMatch::Nothing),
            ("host", "h*t", TagMatch::All),
            ("host", "host", TagMatch::All),
            ("host", "hos", TagMatch::Nothing),
            ("", "*", TagMatch::All),
            ("a.*", "a.*.b", TagMatch::Part),
        ] {
            assert_eq!(tag_match(tag, pattern), wanted, "{tag} {pattern}");
        }
    }
}
