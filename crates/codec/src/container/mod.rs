//! Lines of container logs: CRI (containerd, CRI-O) and the json-file driver of Docker.
//!
//! ```text
//! cri     = TIME SP STREAM SP TAG *(":" TAG) SP TEXT          (kubelet, `cri-api`)
//! docker  = JSON object with the keys log, stream, attrs, time (moby, `jsonlog`)
//! TIME    = RFC 3339 with 0 to 9 decimals, `Z` or an offset
//! STREAM  = "stdout" / "stderr"
//! TAG     = "P" (more pieces follow) / "F" (a whole line, or its last piece) / others
//! ```
//!
//! # What it guarantees
//! * [`parse_cri`] and [`parse_docker`] give spans into the line. They allocate nothing, except for
//!   a key, stream or time that was written with escapes.
//! * A line that is neither is a fault with a name; its bytes are the caller's to keep.
//! * A [`PieceJoiner`] puts the pieces of one stream together, exactly, and copies nothing of a
//!   line that was written in one piece.
//!
//! # Limits
//! A line has less than 4 GiB; its caller bounds it. The rest is in `docs/specs/container-logs.md`.

mod cri;
mod detect;
mod docker;
mod joiner;
#[cfg(test)]
mod joiner_tests;
#[cfg(test)]
mod tests;
mod text;

pub use cri::{CriFault, CriLine, parse_cri};
pub use detect::{ContainerFormat, detect};
pub use docker::{DockerFault, DockerLine, parse_docker};
pub use joiner::{JoinBounds, JoinEnd, JoinedLine, LinePiece, OpenLine, PieceJoiner};
pub use text::{LogStream, PieceText, push_unescaped};
