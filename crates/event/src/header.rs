//! Header of a message, as program and PID wrote it.

use crate::Span;

/// Span of the bytes of `program[pid]: `, if they stand right before the message as they came;
/// `None` if a rule put another program or message in their place.
pub fn header_span(arena: &[u8], app: Span, proc_id: Span, message: Span) -> Option<Span> {
    if app.is_empty() || app.end() > message.start() {
        return None;
    }
    let between = arena.get(app.end()..message.start())?;
    if between.len() > proc_id.len() + 4 {
        return None;
    }
    let header = Span::new(app.start(), message.start());
    if is_usual_between(between, app, proc_id) {
        return Some(header);
    }
    let known = |byte: &u8| matches!(byte, b'[' | b']' | b':' | b' ');
    let pid = proc_id.of(arena);
    let rest = between.iter().filter(|byte| !known(byte)).count();
    let own = pid.iter().filter(|byte| !known(byte)).count();
    (rest == own).then_some(header)
}

/// True if a program and its message are apart by `[pid]: ` or `: `: nothing is in it but the PID.
#[inline]
fn is_usual_between(between: &[u8], app: Span, proc_id: Span) -> bool {
    if proc_id.is_empty() {
        return between == b": ";
    }
    proc_id.start() == app.end() + 1
        && between.len() == proc_id.len() + 4
        && between[0] == b'['
        && between.ends_with(b"]: ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However it is told: what is between them has no byte beside the PID's and the marks.
        #[test]
        fn a_header_is_found_by_what_is_between_program_and_message(
            bytes in "[a\\[\\]: ]{0,12}",
            usual in any::<bool>(),
            cuts in prop::array::uniform4(0..16_usize),
        ) {
            let bytes = if usual { "app[1:2]: text".to_owned() } else { bytes };
            let [mut app, mut begin, mut end, mut text] = cuts.map(|cut| cut.min(bytes.len()));
            if usual && cuts[0] % 2 == 0 {
                [app, begin, end, text] = [3, 4, 7, 10];
            }
            let (app, message) = (Span::new(0, app), Span::new(text, bytes.len()));
            let pid = Span::new(begin.min(end), begin.max(end));
            let own = |bytes: &str| bytes.bytes().filter(|byte| !b"[]: ".contains(byte)).count();
            let between = bytes.get(app.end()..text).filter(|_| !app.is_empty());
            let found = between.is_some_and(|between| {
                let near = between.len() <= pid.len() + 4;
                near && own(between) == own(&bytes[pid.start()..pid.end()])
            });
            let header = found.then(|| Span::new(0, text));
            prop_assert_eq!(header_span(bytes.as_bytes(), app, pid, message), header);
        }
    }

    #[test]
    fn the_header_is_what_stands_before_the_message() {
        let arena = b"su[230]: failed";
        let (app, pid) = (Span::new(0, 2), Span::new(3, 6));
        let header = header_span(arena, app, pid, Span::new(9, 15));
        assert_eq!(header, Some(Span::new(0, 9)));
        assert_eq!(header_span(arena, app, Span::EMPTY, Span::new(9, 15)), None);
        assert_eq!(
            header_span(arena, Span::new(9, 10), pid, Span::new(0, 2)),
            None
        );
    }
}
