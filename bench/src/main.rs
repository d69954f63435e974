//! The experiments as a program of their own.

use std::process::ExitCode;

fn main() -> ExitCode {
    inrush_bench::experiments()
}
