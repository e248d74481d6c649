//! Where something belongs in a trace, as the W3C's `traceparent` has it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A span of a trace: what is caused by it names it as its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whether anybody keeps it.
    pub sampled: bool,
}

/// `00-` and 32, 16 and 2 digits, with a hyphen between them.
const LENGTH: usize = 55;

impl Trace {
    /// Reads a `traceparent`; none where it is not one. What a later version adds behind it is passed over.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() < LENGTH || bytes[2] != b'-' || bytes[35] != b'-' || bytes[52] != b'-' {
            return None;
        }
        let [version] = digits(&bytes[..2])?;
        let fits = match version {
            0 => bytes.len() == LENGTH,
            0xff => false,
            _ => bytes.len() == LENGTH || bytes[LENGTH] == b'-',
        };
        let (trace_id, span_id, [flags]) =
            (digits(&bytes[3..35])?, digits(&bytes[36..52])?, digits(&bytes[53..55])?);
        let named = trace_id != [0; 16] && span_id != [0; 8];
        (fits && named).then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span_id: [u8; 8]) -> Self {
        Self { span_id, ..self }
    }

    /// Whether it is among the share of all traces that is kept, told by its id, so that everybody who asks agrees.
    pub fn is_among(&self, share: Share) -> bool {
        let mut last = [0; 8];
        last.copy_from_slice(&self.trace_id[8..]);
        // Seven bytes of it are random by the W3C's word.
        u64::from_be_bytes(last) & 0x00ff_ffff_ffff_ffff < share.0
    }
}

/// How many of all traces are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

impl Share {
    pub const ALL: Self = Self(1 << 56);

    /// In millionths.
    pub fn of_millionths(millionths: u32) -> Self {
        let whole = u128::from(Self::ALL.0) * u128::from(millionths.min(1_000_000)) / 1_000_000;
        Self(u64::try_from(whole).unwrap_or(Self::ALL.0))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-0{}", Hex(&self.trace_id), Hex(&self.span_id), u8::from(self.sampled))
    }
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a traceparent"))
    }
}

/// Bytes as digits, in lower case.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Only lower case, as the W3C has it.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    (text.len() == 2 * N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Share, Trace};

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_a_traceparent() {
        let table: &[(&str, bool)] = &[
            (GOOD, true),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true),
            // A later version may say more.
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true),
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
            ("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c8031\u{e9}-b7ad6b7169203331-01", false),
            ("", false),
        ];
        for (text, good) in table {
            assert_eq!(Trace::parse(text).is_some(), *good, "{text}");
        }
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let trace = Trace::parse(GOOD).unwrap();
        assert_eq!(trace.to_string(), GOOD);
        assert_eq!(serde_json::from_str::<Trace>(&serde_json::to_string(&trace).unwrap()).unwrap(), trace);
        assert!(serde_json::from_str::<Trace>("\"00-1-2-3\"").is_err());
    }

    #[test]
    fn a_share_of_all_is_kept() {
        let trace = Trace::parse(GOOD).unwrap();
        assert!(trace.is_among(Share::ALL) && trace.is_among(Share::of_millionths(1_000_000)));
        assert!(!trace.is_among(Share::of_millionths(0)));
        // 0x48eb211c80319c of 2^56 is a little more than 28 %.
        assert!(
            trace.is_among(Share::of_millionths(290_000)) && !trace.is_among(Share::of_millionths(280_000))
        );
    }
}
