//! Files of the house: who may read what is created, and bounded reading of what others wrote.
//!
//! # What it guarantees
//! * A file that [`create`], [`create_new`] or [`open`] makes is readable by its owner alone
//!   (`0600`, folders `0700`) from its first moment, whatever the umask is. Where an [`Access`]
//!   says more, owner, group and mode are changed before anything is written.
//! * What is there already keeps its owner and mode, until [`tighten`] takes away what is more
//!   than its [`Access`] allows.
//! * [`read`] and [`read_to_string`] never wait and never read more than their limit: a pipe, a
//!   device, a folder or a large file is an error that says so.
//!
//! # Limits
//! Each kind of file that is read whole has its limit in bytes in [`limits`].
//!
//! # After a crash
//! A file may be there with the mode `0600` that was to have a wider one; [`open`] does not widen
//! it, for an operator may have narrowed it.
#![forbid(unsafe_code)]

mod access;
mod create;
pub mod limits;
mod mode;
mod read;
mod tighten;

pub use access::{Access, AccessOptions, own, set_own};
pub use create::{create, create_dir_all, create_new, keep_private, open};
pub use mode::FileMode;
pub use read::{open_given, open_own, open_regular, read, read_to_string, read_up_to};
pub use tighten::{TightenReport, tighten};
