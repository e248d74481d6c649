//! What is kept: an input of each kind, and each that once broke something.

use guerdon_fuzz::TARGETS;
use std::fs;
use std::path::Path;

#[test]
fn every_seed_holds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, target) in TARGETS {
        let mut tried = 0;
        for seed in fs::read_dir(seeds.join(name)).unwrap_or_else(|error| panic!("seeds/{name}: {error}")) {
            let path = seed.unwrap().path();
            // Shown only where it fails.
            println!("{}", path.display());
            target(&fs::read(&path).unwrap());
            tried += 1;
        }
        assert!(tried > 0, "seeds/{name} is empty");
    }
}

#[test]
fn every_seed_has_its_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for folder in fs::read_dir(seeds).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(TARGETS.iter().any(|(known, _)| name == *known), "seeds/{}", name.display());
    }
}
