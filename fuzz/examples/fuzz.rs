//! Looks for inputs that break a target: the one that `FUZZ_TARGET` names. `scripts/fuzz` builds and runs it.
#![no_main]

use guerdon_fuzz::{Target, target};
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is not the name of a target"))
});

libfuzzer_sys::fuzz_target!(
    init: {
        // The library's own hook would end the process at a panic that is caught, as that of the parser of conditions is.
        drop(std::panic::take_hook());
        LazyLock::force(&TARGET);
    },
    |data: &[u8]| (*TARGET)(data)
);
