//! Requests of HTTP: heads are read alike however they come, and so are the bytes of a body; the
//! first byte chooses the pieces.
//!
//! The module is compiled by itself: its crate brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/http/mod.rs"]
mod http;

use http::body::{BodyDecoder, BodyPart};
use http::head::{BodyLength, HEAD_BYTES_MAX, HeadParse, parse_head};
use libfuzzer_sys::fuzz_target;

/// The body and the bytes behind it; `None` if it is bad or does not end.
fn read_body(length: BodyLength, bytes: &[u8], piece: usize) -> Option<(Vec<u8>, usize)> {
    let mut decoder = BodyDecoder::new(length);
    let (mut body, mut start) = (Vec::new(), 0_usize);
    loop {
        let end = bytes.len().min(start.saturating_add(piece));
        let shown = &bytes[start..end];
        let mut at = 0;
        loop {
            match decoder.next(shown, at) {
                BodyPart::Data(range) => {
                    assert!(range.start >= at && range.end <= shown.len());
                    body.extend_from_slice(&shown[range.clone()]);
                    at = range.end;
                }
                BodyPart::NeedMore if end == bytes.len() => return None,
                BodyPart::NeedMore => break,
                BodyPart::End(behind) => return Some((body, bytes.len() - start - behind)),
                BodyPart::Bad => return None,
            }
        }
        start = end;
    }
}

fuzz_target!(|input: &[u8]| {
    let [piece, bytes @ ..] = input else {
        return;
    };
    let piece = usize::from(*piece) + 1;
    match parse_head(bytes) {
        HeadParse::Head(head, used) => {
            assert!(used <= bytes.len().min(HEAD_BYTES_MAX));
            // Each shorter beginning needs more, or is bad for what comes before its end.
            for cut in 0..used.min(512) {
                assert!(!matches!(parse_head(&bytes[..cut]), HeadParse::Head(..)));
            }
            let rest = &bytes[used..];
            let whole = read_body(head.body, rest, usize::MAX);
            assert_eq!(read_body(head.body, rest, piece), whole);
        }
        HeadParse::NeedMore => assert!(bytes.len() < HEAD_BYTES_MAX),
        HeadParse::Bad(fault) => assert!(fault.status() >= 400),
    }
    let whole = read_body(BodyLength::Chunked, bytes, usize::MAX);
    assert_eq!(read_body(BodyLength::Chunked, bytes, piece), whole);
});
