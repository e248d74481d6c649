//! Places at which a test can end the process, as a crash would. Builds for release have none.

/// Ends the process here, if this is the place that `FAILPOINT` counts to among those that a claim passes: `KEY:NUMBER`.
#[cfg(debug_assertions)]
pub(crate) fn hit<'a>(place: &str, mut claims: impl Iterator<Item = &'a guerdon_core::ClaimKey>) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    static WANTED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("FAILPOINT").ok()?;
        let (key, number) = text.rsplit_once(':')?;
        Some((key.to_owned(), AtomicI64::new(number.parse().ok()?)))
    });
    let Some((key, left)) = wanted else { return };
    if claims.any(|claim| claim.as_str() == key) && left.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::warn!(place, "a place to fail at");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn hit<'a>(_place: &str, _claims: impl Iterator<Item = &'a guerdon_core::ClaimKey>) {}

/// Ends the process here, if this is the place that `FAILPOINT_AT` names, once it was passed as often as that says:
/// `PLACE`, or `PLACE:NUMBER`.
#[cfg(debug_assertions)]
pub(crate) fn at(place: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    static WANTED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("FAILPOINT_AT").ok()?;
        let counted = text.rsplit_once(':').and_then(|(place, number)| Some((place, number.parse().ok()?)));
        let (place, number) = counted.unwrap_or((text.as_str(), 1));
        Some((place.to_owned(), AtomicI64::new(number)))
    });
    let Some((name, left)) = wanted else { return };
    if name == place && left.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::warn!(place, "a place to fail at");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn at(_place: &'static str) {}
