use super::{complain, say};
use clap::Args;
use guerdon_core::draw::{Check, Document, Proof, verify, verify_proof};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct VerifyDrawArgs {
    /// The draw's document, as /v1/events/{eventId}/draw/document gives it
    document: PathBuf,
    /// The proof of one's own entry, as /v1/events/{eventId}/draw/proof gives it
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
}

const UNREADABLE: u8 = 2;

pub(crate) fn run(args: &VerifyDrawArgs) -> ExitCode {
    let read = || -> Result<(Document, Option<Proof>), String> {
        Ok((parse(&args.document)?, args.proof.as_deref().map(parse).transpose()?))
    };
    let (document, proof) = match read() {
        Ok(read) => read,
        Err(reason) => {
            complain(&reason);
            return ExitCode::from(UNREADABLE);
        }
    };
    let mut checks = verify(&document);
    checks.extend(proof.iter().flat_map(|proof| verify_proof(&document, proof)));
    let sound = checks.iter().all(Check::holds);
    let mut lines: Vec<_> = checks.iter().map(line).collect();
    lines.push(String::new());
    let (winners, entries) = (document.winners.len(), document.entries);
    let event_id = &document.event_id;
    lines.push(if sound {
        format!("The draw of {event_id} is sound: {winners} winners of {entries} entries.")
    } else {
        format!("The draw of {event_id} is NOT sound.")
    });
    if let (Some(proof), true) = (&proof, sound) {
        lines.push(match document.winners.iter().position(|position| *position == proof.position) {
            Some(place) => {
                format!("The entry at position {} was drawn as number {}.", proof.position, place + 1)
            }
            None => format!("The entry at position {} took part and was not drawn.", proof.position),
        });
    }
    if document.public_nonce.is_none() {
        lines.push(
            "It had no public nonce: it does not protect against whoever ran the server and knew the seed."
                .into(),
        );
    }
    let said = say(&lines.join("\n"));
    if sound { said } else { ExitCode::FAILURE }
}

fn line(check: &Check) -> String {
    match &check.fault {
        None => format!("ok    {}", check.name),
        Some(fault) => format!("FAIL  {}: {fault}", check.name),
    }
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}
