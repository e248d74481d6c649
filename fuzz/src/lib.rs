//! What must hold of each parser of ours, whatever it is given: a function of bytes that panics where it does not.
//! `examples/fuzz.rs` looks for such bytes, led by what they reach; `tests/seeds.rs` tries those that are kept.

mod bodies;
mod conditions;
mod cursors;
mod draws;
mod durations;
mod envelopes;
mod events;
mod gateway;
mod headers;
mod ids;
mod key_sets;
mod money;
mod proofs;
mod provider_keys;
mod proxies;
mod settings;
mod tokens;
mod traces;
mod webhooks;

/// Takes any bytes; panics where what it looks at breaks its promise.
pub type Target = fn(&[u8]);

/// By name; each has seeds in a folder of that name.
pub const TARGETS: &[(&str, Target)] = &[
    ("bodies", bodies::hold),
    ("conditions", conditions::hold),
    ("cursors", cursors::hold),
    ("draws", draws::hold),
    ("durations", durations::hold),
    ("envelopes", envelopes::hold),
    ("events", events::hold),
    ("gateway", gateway::hold),
    ("headers", headers::hold),
    ("ids", ids::hold),
    ("key_sets", key_sets::hold),
    ("money", money::hold),
    ("proofs", proofs::hold),
    ("provider_keys", provider_keys::hold),
    ("proxies", proxies::hold),
    ("settings", settings::hold),
    ("tokens", tokens::hold),
    ("traces", traces::hold),
    ("webhooks", webhooks::hold),
];

pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// The input as so many lines, the last with all that is left; those that are missing are empty.
fn lines<const N: usize>(data: &[u8]) -> Option<[&str; N]> {
    let mut lines = std::str::from_utf8(data).ok()?.splitn(N, '\n');
    Some(std::array::from_fn(|_| lines.next().unwrap_or_default()))
}

/// The input before and after a line of three dashes.
fn halves(data: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(data).ok()?;
    Some(text.split_once("\n---\n").unwrap_or((text, "")))
}

/// A refusal has to say why.
#[track_caller]
fn says_why(reason: &str) {
    assert!(!reason.trim().is_empty(), "refused without a reason");
}
