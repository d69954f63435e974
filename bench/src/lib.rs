//! The experiments that the project is measured by; `bench/README.md` says what each shows.

#![forbid(unsafe_code)]

mod classify;
mod crash;
mod disk;
mod experiments;
mod faults;
mod report;
mod results;
mod rotation;
mod scenario;
mod versus;

pub use experiments::experiments;
