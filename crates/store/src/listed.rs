//! Lists of which only some rows are wanted. There may be a million between two of them, so a look ends after so many,
//! and says where.

/// The most rows that one look goes through.
pub const LOOKED_THROUGH_MAX: i64 = 20_000;

/// What a look found, and where it ended if the list goes on behind that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T, P> {
    pub rows: Vec<T>,
    pub end: Option<P>,
}

impl<T, P> Listed<T, P> {
    pub(crate) fn whole(rows: Vec<T>) -> Self {
        Self { rows, end: None }
    }
}
