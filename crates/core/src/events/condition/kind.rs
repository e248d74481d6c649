//! What is known about the values of an expression before there is data.

use Kind::{Bool, Bytes, Double, Dyn, Int, List, Uint};
use std::fmt;

/// `Dyn` can turn out to be anything.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    List(Box<Kind>),
    Map,
    Type,
    Dyn,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::List(_) => "list",
            Self::Map => "map",
            Self::Type => "type",
            Self::Dyn => "dyn",
        })
    }
}

impl Kind {
    pub(super) fn is_test(&self) -> bool {
        matches!(self, Bool | Dyn)
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::String | Dyn)
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Int | Uint | Dyn)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Int | Uint | Double | Dyn)
    }

    pub(super) fn is_signed(&self) -> bool {
        matches!(self, Int | Double | Dyn)
    }

    pub(super) fn can_be_added(&self) -> bool {
        self.is_number() || matches!(self, Self::String | Bytes | List(_))
    }

    pub(super) fn has_order(&self) -> bool {
        self.is_number() || matches!(self, Self::String | Bytes | Bool)
    }

    pub(super) fn is_key(&self) -> bool {
        self.is_number() || matches!(self, Self::String | Bool)
    }

    pub(super) fn has_size(&self) -> bool {
        matches!(self, Self::String | Bytes | List(_) | Self::Map | Dyn)
    }

    pub(super) fn can_be_bool(&self) -> bool {
        self.is_test() || self.is_text()
    }

    pub(super) fn can_be_bytes(&self) -> bool {
        self.is_text() || matches!(self, Bytes)
    }

    pub(super) fn can_be_number(&self) -> bool {
        self.is_number() || self.is_text()
    }

    pub(super) fn can_be_string(&self) -> bool {
        self.can_be_number() || matches!(self, Bool | Bytes)
    }

    /// The kind of a value that is one or the other.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (List(one), List(other)) => List(Box::new(one.or(*other))),
            (one, other) if one == other => one,
            _ => Dyn,
        }
    }

    pub(super) fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Dyn, _) | (_, Dyn) | (List(_), List(_)) => true,
            _ => self == other || (self.is_number() && other.is_number()),
        }
    }

    pub(super) fn may_be_alike(&self, other: &Self) -> bool {
        matches!((self, other), (Dyn, _) | (_, Dyn) | (List(_), List(_))) || self == other
    }
}
