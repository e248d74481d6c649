//! Identity by headers, from a gateway that has checked the token: taken only with the gateway's signature over the method, the
//! address, the identity and the time, and only once.

use crate::problem::Problem;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Code, Timestamp, UserId};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) static USER_ID: HeaderName = HeaderName::from_static("x-user-id");
pub(crate) static USER_ROLES: HeaderName = HeaderName::from_static("x-user-roles");
pub(crate) static USER_NAME: HeaderName = HeaderName::from_static("x-user-name");
pub(crate) static SIGNATURE: HeaderName = HeaderName::from_static("x-gateway-signature");

const VERSION: &str = "v1";
/// How many signatures of one window are remembered: beyond that nothing more is taken.
const SEEN_MAX: usize = 2_000_000;

/// Unlike that of any other signature.
pub(crate) type Nonce = [u8; 16];

/// What gateway and server share.
#[derive(Clone)]
pub struct GatewayKey(Hmac<Sha256>);

impl GatewayKey {
    pub fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).expect("a key of any length will do"))
    }

    /// Each part with its length, so that nothing can be moved from one to the next.
    fn mac(&self, method: &Method, address: &str, stamp: &str, identity: [&[u8]; 3]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        let parts = [VERSION.as_bytes(), method.as_str().as_bytes(), address.as_bytes(), stamp.as_bytes()];
        for part in parts.into_iter().chain(identity) {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    /// Puts an identity among the headers of a request, signed.
    pub(crate) fn sign(
        &self,
        headers: &mut HeaderMap,
        (method, address): (&Method, &str),
        identity: &Identity,
        now: Timestamp,
        nonce: Nonce,
    ) -> Option<()> {
        let roles: Vec<_> = identity.roles.iter().map(|role| role.as_str()).collect();
        let roles = roles.join(",");
        // Names are in any script; headers are not.
        let name = URL_SAFE_NO_PAD.encode(identity.name.as_deref().unwrap_or_default());
        let stamp = format!("{}.{}", now.as_millis(), URL_SAFE_NO_PAD.encode(nonce));
        let user = identity.user_id.as_str();
        let mac = self.mac(method, address, &stamp, [user.as_bytes(), roles.as_bytes(), name.as_bytes()]);
        let signature = format!("{VERSION}.{stamp}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        for (header, value) in
            [(&USER_ID, user), (&USER_ROLES, &roles), (&USER_NAME, &name), (&SIGNATURE, &signature)]
        {
            headers.insert(header, HeaderValue::from_str(value).ok()?);
        }
        Some(())
    }
}

/// What a server behind a gateway knows of it.
pub struct Trusted {
    key: GatewayKey,
    window_ms: i64,
    seen: Mutex<Seen>,
}

/// Signatures of the present window and of the one before.
#[derive(Default)]
struct Seen {
    window: i64,
    present: HashSet<Nonce>,
    before: HashSet<Nonce>,
}

impl Trusted {
    pub fn new(key: GatewayKey, window_ms: i64) -> Self {
        Self { key, window_ms: window_ms.max(1), seen: Mutex::default() }
    }

    /// The identity that a request brings.
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        method: &Method,
        address: &str,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Problem> {
        let Some(signature) = single(headers, &SIGNATURE)? else {
            return Err(Problem::new(Code::TokenMissing, "this server is called through its gateway"));
        };
        let [user, roles, name] = [&USER_ID, &USER_ROLES, &USER_NAME].map(|header| single(headers, header));
        let (user, roles, name) = (user?.unwrap_or(b""), roles?.unwrap_or(b""), name?.unwrap_or(b""));
        let refused = || Problem::new(Code::TokenInvalid, "the gateway's signature does not fit the request");
        let text = std::str::from_utf8(signature).map_err(|_| refused())?;
        let parts: Vec<_> = text.split('.').collect();
        let [VERSION, time, nonce, mac] = parts[..] else { return Err(refused()) };
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| refused())?;
        let stamp = &text[VERSION.len() + 1..VERSION.len() + 2 + time.len() + nonce.len()];
        let expected = self.key.mac(method, address, stamp, [user, roles, name]);
        expected.verify_slice(&mac).map_err(|_| refused())?;
        // From here on it is the gateway that speaks.
        let time = time.parse().map(Timestamp::from_millis).map_err(|_| refused())?;
        if now.millis_since(time).abs() > self.window_ms {
            let detail = "the gateway's signature is too old, or its clock and ours differ";
            return Err(Problem::new(Code::TokenInvalid, detail));
        }
        let nonce: Nonce =
            URL_SAFE_NO_PAD.decode(nonce).ok().and_then(|nonce| nonce.try_into().ok()).ok_or_else(refused)?;
        self.see(nonce, now)?;
        identity(user, roles, name).ok_or_else(refused)
    }

    /// Each signature is good for one call. One is remembered for at least twice as long as it could be good for.
    fn see(&self, nonce: Nonce, now: Timestamp) -> Result<(), Problem> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now.as_millis() / (2 * self.window_ms);
        // A clock that is set back forgets nothing.
        if window > seen.window {
            let present = std::mem::take(&mut seen.present);
            seen.before = if window == seen.window + 1 { present } else { HashSet::new() };
            seen.window = window;
        }
        if seen.present.len() >= SEEN_MAX {
            return Err(Problem::new(
                Code::StoreBusy,
                "more calls come through the gateway than can be told apart",
            ));
        }
        if seen.before.contains(&nonce) || !seen.present.insert(nonce) {
            return Err(Problem::new(Code::TokenInvalid, "the gateway's signature was used before"));
        }
        Ok(())
    }
}

fn identity(user: &[u8], roles: &[u8], name: &[u8]) -> Option<Arc<Identity>> {
    let user_id = UserId::parse(std::str::from_utf8(user).ok()?).ok()?;
    let roles = std::str::from_utf8(roles).ok()?.split(',').filter_map(Role::parse).collect();
    let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
    Some(Arc::new(Identity { user_id, name: (!name.is_empty()).then_some(name), roles }))
}

/// A header that may be there once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(HeaderValue::as_bytes);
    match values.next() {
        Some(_) => Err(Problem::new(Code::TokenInvalid, format!("there is more than one {name} header"))),
        None => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        GatewayKey, Identity, Role, SIGNATURE, Timestamp, Trusted, USER_ID, USER_NAME, USER_ROLES, UserId,
    };
    use axum::http::{HeaderMap, Method};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn signed(nonce: u8) -> HeaderMap {
        let identity = Identity {
            user_id: UserId::parse("u-1").unwrap(),
            name: Some("김 서연".into()),
            roles: vec![Role::User, Role::Auditor],
        };
        let mut headers = HeaderMap::new();
        let key = GatewayKey::new("a shared secret");
        key.sign(&mut headers, (&Method::GET, "/v1/me?x=1"), &identity, NOW, [nonce; 16]).unwrap();
        headers
    }

    fn server() -> Trusted {
        Trusted::new(GatewayKey::new("a shared secret"), 10_000)
    }

    #[test]
    fn what_was_signed_is_taken_once_and_in_time() {
        let (server, headers) = (server(), signed(1));
        let verify = |now: i64| server.verify(&headers, &Method::GET, "/v1/me?x=1", NOW.plus_millis(now));
        assert!(verify(10_001).is_err(), "too late");
        assert!(verify(-10_001).is_err(), "too early");
        let identity = verify(9_999).unwrap();
        assert_eq!((identity.user_id.as_str(), identity.name.as_deref()), ("u-1", Some("김 서연")));
        assert_eq!(identity.roles, [Role::User, Role::Auditor]);
        for later in [9_999, 10_000, 0, -10_000] {
            assert!(verify(later).is_err(), "used before");
        }
        // Whatever the clock does, it is not forgotten while it could be good.
        let other = signed(2);
        for now in (-10_000..=10_000).step_by(500) {
            let good = server.verify(&other, &Method::GET, "/v1/me?x=1", NOW.plus_millis(now)).is_ok();
            assert_eq!(good, now == -10_000, "{now}");
        }
    }

    #[test]
    fn nothing_of_it_can_be_changed() {
        let at = |headers: &HeaderMap, method: Method, address: &str| {
            server().verify(headers, &method, address, NOW).is_ok()
        };
        assert!(at(&signed(1), Method::GET, "/v1/me?x=1"));
        assert!(!at(&signed(1), Method::POST, "/v1/me?x=1"));
        assert!(!at(&signed(1), Method::GET, "/v1/me?x=2"));
        for (header, value) in
            [(&USER_ID, "u-2"), (&USER_ROLES, "USER,ADMIN"), (&USER_NAME, "eA"), (&SIGNATURE, "v1.1.a.b")]
        {
            let mut changed = signed(1);
            changed.insert(header, value.parse().unwrap());
            assert!(!at(&changed, Method::GET, "/v1/me?x=1"), "{header}");
            let mut doubled = signed(1);
            doubled.append(header, value.parse().unwrap());
            assert!(!at(&doubled, Method::GET, "/v1/me?x=1"), "two of {header}");
            let mut missing = signed(1);
            missing.remove(header);
            assert!(!at(&missing, Method::GET, "/v1/me?x=1"), "without {header}");
        }
        let stranger = Trusted::new(GatewayKey::new("another secret"), 10_000);
        assert!(stranger.verify(&signed(1), &Method::GET, "/v1/me?x=1", NOW).is_err());
        // What moves from one part to the next is not the same.
        let mut moved = signed(1);
        moved.insert(&USER_ID, "u-1USER".parse().unwrap());
        moved.insert(&USER_ROLES, ",AUDITOR".parse().unwrap());
        assert!(!at(&moved, Method::GET, "/v1/me?x=1"));
    }
}
