//! The kernel's side of reading files that others write: their identity, their opening, the
//! notices of changes, and the search for new ones.
//!
//! # What it guarantees
//! * Nothing but a regular file is ever opened for reading; a FIFO, a device or a folder is a named
//!   refusal, without any effect on it.
//! * A name that matches and that exists for longer than a poll interval is found, whatever the
//!   kernel's limits are: what cannot be watched is polled.
//! * Names are bytes: newlines, invalid UTF-8 and 255 bytes are ordinary.
//!
//! # In reading order
//! 1. [`identity`]: the same file again, or another one in its place.
//! 2. [`tail_file`]: opening and reading, and the roots that links may lead to.
//! 3. [`packed_file`]: the text of a compressed file.
//! 4. Notices of the kernel by inotify: [`watch`].
//! 5. [`glob`] and [`walk`]: patterns, and listings of what matches them.
//! 6. [`tree`]: all of it together, for a thread that looks for files.
//!
//! # After a crash
//! Nothing of this is on disk but identities, within the positions of their user.

pub mod glob;
pub mod identity;
pub mod packed_file;
pub mod tail_file;
pub mod tree;
pub mod walk;
pub mod watch;
