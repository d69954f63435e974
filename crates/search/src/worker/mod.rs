//! Searches in processes of their own, for a thread cannot be killed and a process can.
//!
//! # What it guarantees
//! * **Time**: a search that has not ended when its time is over is killed, whatever it does:
//!   parse, fold, plan, compile an expression, sort. One whose asker has gone is killed at once.
//! * **Memory**: what all workers together have taken from the system is measured
//!   every few milliseconds; above [`SearchOptions::memory_bytes`](crate::SearchOptions) the
//!   largest is killed. Each worker bounds itself too (`RLIMIT_DATA`), so that nothing outgrows the
//!   measuring; and the kernel, where memory is short, takes a worker before anything else
//!   (`oom_score_adj`). What a search took goes back when its worker ends.
//! * **A worker that dies costs its own search**, whose answer says why. Others go on, and so does
//!   the process that receives.
//!
//! # How
//! A worker is this program again, with [`COMMAND`] as its subcommand. Over its stdin it gets a
//! `wire::WorkerTask`: the question, the list of files, and how many rows lie in memory. It opens
//! the files itself. Rows in memory it asks for when it reads them (`RemoteTail`), columns and rows
//! that it needs only, a few MiB at most at a time: nothing of the tail is copied beforehand.
//! Answers come back over its stdout as frames of JSON, rows of the tail go as Arrow IPC (`wire`).
//!
//! A worker that has answered and holds little memory is kept for the next search, for
//! `pool::IDLE_MAX`: it knows the footers of files. It ends when its stdin does.
//!
//! # In reading order
//! `pool` (who runs, who waits) · `ask` (one search) · `watch` (time and memory) · `wire` ·
//! `serve` (the worker's side).

mod ask;
mod pool;
mod serve;
mod watch;
mod wire;

pub use pool::WorkerPool;
pub use serve::serve;

/// The subcommand of the program that runs [`serve`].
pub const COMMAND: &str = "search-worker";
