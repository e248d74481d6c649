//! Signatures as Standard Webhooks has them: HMAC-SHA256 over the call's id, time and body, with each secret there is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// The secrets to sign with: several while one is being replaced by another. None means that calls are not signed.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// `whsec_…`, or several with spaces or commas between.
    pub fn parse(text: &str) -> Result<Self, String> {
        let secrets = text.split([' ', ',']).filter(|part| !part.is_empty()).map(|part| {
            let encoded = part.strip_prefix("whsec_").ok_or("must begin with whsec_")?;
            let key = STANDARD.decode(encoded).map_err(|_| "must be whsec_ and then base64")?;
            if (24..=64).contains(&key.len()) {
                Ok(key)
            } else {
                Err("must be 24 to 64 bytes in base64, after whsec_")
            }
        });
        let secrets = secrets.collect::<Result<Vec<_>, &str>>()?;
        if secrets.is_empty() { Err("is empty".into()) } else { Ok(Self(secrets)) }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a header's value is right for what was sent, by any of the secrets.
    pub fn verifies(&self, id: &str, seconds: &str, body: &[u8], header: &str) -> bool {
        let given: Vec<_> = header
            .split(' ')
            .filter_map(|part| part.strip_prefix("v1,"))
            .filter_map(|encoded| STANDARD.decode(encoded).ok())
            .collect();
        self.0.iter().any(|secret| {
            given.iter().any(|signature| {
                let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
                mac.update(format!("{id}.{seconds}.").as_bytes());
                mac.update(body);
                mac.verify_slice(signature).is_ok()
            })
        })
    }

    /// The header's value.
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let signatures = self.0.iter().filter_map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(body);
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        });
        let signatures: Vec<_> = signatures.collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn secrets_are_read_and_never_shown() {
        let one = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
        assert_eq!(format!("{:?}", Secrets::parse(one).unwrap()), "1 secrets");
        assert_eq!(Secrets::parse(&format!("{one}, {one}")).unwrap().0.len(), 2);
        for bad in ["", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_short", "whsec_c2hvcnQ=", "whsec_!"] {
            let reason = Secrets::parse(bad).unwrap_err();
            assert!(bad.is_empty() || !reason.contains(bad), "{reason}");
        }
    }

    #[test]
    fn every_secret_signs() {
        let secrets =
            Secrets::parse("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4")
                .unwrap();
        let header = secrets.sign("msg_1", 1_700_000_000, b"{}").unwrap();
        let signatures: Vec<_> = header.split(' ').collect();
        assert_eq!(signatures.len(), 2);
        assert!(signatures.iter().all(|signature| signature.starts_with("v1,")));
        assert_ne!(signatures[0], signatures[1]);
        assert_eq!(Secrets::default().sign("msg_1", 0, b""), None);
    }
}
