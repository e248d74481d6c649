//! Secrets and signatures of webhooks: secrets are never shown, and a signature is good for what was signed.

use crate::{lines, says_why};
use guerdon_connect::Secrets;

const OTHER: &str = "whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldCEh";

pub(crate) fn hold(data: &[u8]) {
    let Some([text, id, seconds, header, body]) = lines(data) else { return };
    let read = Secrets::parse(text);
    let shown = match &read {
        Ok(secrets) => format!("{secrets:?}"),
        Err(reason) => reason.clone(),
    };
    says_why(&shown);
    for secret in text.split([' ', ',']).filter(|secret| secret.len() > 12) {
        assert!(!shown.contains(secret), "a secret is shown: {shown}");
    }
    let Ok(secrets) = read else { return };
    // The specification's ids have no point in them, which would run into the time.
    if id.contains('.') {
        return;
    }
    let seconds: i64 = seconds.parse().unwrap_or(1_700_000_000);
    let (time, body) = (seconds.to_string(), body.as_bytes());
    let signed = secrets.sign(id, seconds, body).expect("there is a secret to sign with");
    let signatures: Vec<_> = signed.split(' ').collect();
    assert!(signatures.iter().all(|one| secrets.verifies(id, &time, body, one)), "each is good by itself");
    assert!(secrets.verifies(id, &time, body, &format!("v2,x {signed}")), "others may stand beside it");
    let longer = [body, b"x"].concat();
    let other = Secrets::parse(OTHER).unwrap();
    assert!(!secrets.verifies(id, &time, &longer, &signed), "another body");
    assert!(!secrets.verifies(&format!("{id}x"), &time, body, &signed), "another id");
    assert!(!secrets.verifies(id, &seconds.wrapping_add(1).to_string(), body, &signed), "another time");
    assert!(text.contains(OTHER) || !other.verifies(id, &time, body, &signed), "another secret");
    if secrets.verifies(id, &time, body, header) {
        assert!(signatures.iter().any(|one| header.contains(one)), "{header} was never signed");
    }
}
