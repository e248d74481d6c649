//! The binary.

use std::process::ExitCode;

/// A request is made on one thread and ends on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    guerdon::run()
}
