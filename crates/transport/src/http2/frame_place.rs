//! Place in the frames of a peer.

/// Bytes before the first frame of a client (RFC 9113 section 3.4).
const PREFACE_BYTES: usize = 24;

/// Bytes before the payload of a frame (RFC 9113 section 4.1).
pub(super) const FRAME_HEAD_BYTES: usize = 9;

/// Place in the frames of the peer. `h2` keeps an unfinished one to itself, and does not say how
/// long it has become.
pub(super) struct FramePlace {
    /// Bytes that are to come of the preface, or of a frame's payload.
    left: usize,
    /// Part of a frame's first bytes that has come.
    head: [u8; FRAME_HEAD_BYTES],
    /// Bytes of it.
    known: usize,
    /// True while fields of a request are to come in further frames.
    pub(super) in_fields: bool,
    /// Bytes so far of what is not finished.
    pub(super) bytes: usize,
}

impl FramePlace {
    pub(super) const START: Self = Self {
        left: PREFACE_BYTES,
        head: [0; FRAME_HEAD_BYTES],
        known: 0,
        in_fields: true,
        bytes: 0,
    };

    /// Goes on behind these bytes.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        const HEADERS: u8 = 1;
        const CONTINUATION: u8 = 9;
        const END_HEADERS: u8 = 4;
        let mut rest = bytes;
        while let [first, ..] = rest {
            let used = self.left.clamp(1, rest.len());
            self.bytes += used;
            rest = &rest[used..];
            if self.left > 0 {
                self.left -= used;
                // The preface is followed by a frame that has no fields.
            } else {
                self.head[self.known] = *first;
                self.known += 1;
            }
            if self.known == FRAME_HEAD_BYTES {
                let [a, b, c, kind, flags, ..] = self.head;
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
                self.in_fields = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0;
                self.known = 0;
            }
            if self.left == 0 && self.known == 0 && !self.in_fields {
                self.bytes = 0;
            }
        }
    }
}
