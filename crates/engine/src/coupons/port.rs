//! What coupons need from outside: somebody who counts faster than the store, and may forget.

use guerdon_core::coupons::{CouponResult, UserCouponId};
use guerdon_core::{CouponId, Timestamp, UserId};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// Nobody answers, or not as agreed. Whether what was asked for was done is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away(pub String);

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Somebody wants a coupon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    pub coupon_id: CouponId,
    /// How many a user can have.
    pub limit: i64,
    /// From when on nobody has to know any more that they have it.
    pub forget_at: Timestamp,
    pub id: UserCouponId,
    pub user_id: UserId,
    pub key: String,
    pub at: Timestamp,
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub result: CouponResult,
    /// Under which id it was counted: another one where the same key was counted before.
    pub id: UserCouponId,
}

/// What became of wishes for one coupon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They were counted, in their order and in this epoch.
    Counted { epoch: i64, all: Vec<Counted> },
    /// It knows nothing of this coupon.
    Empty,
    /// Somebody is counting anew.
    Building,
    /// It is not the one that was there before, or has forgotten what it was taught: find out what it knows.
    Replaced,
}

/// Where a count stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// None where it knows nothing of the coupon, or while it is counted anew.
    pub epoch: Option<i64>,
    pub building: bool,
    /// The epoch that it was last counted in, or is being counted in; 0 where there is none.
    pub marked: i64,
    pub left: i64,
    /// Counted, and not yet known to be in the store.
    pub unsettled: i64,
}

/// An issue that lives in the counter's own log until the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the log calls it.
    pub entry: String,
    pub epoch: i64,
    pub id: UserCouponId,
    pub user_id: UserId,
    pub key: String,
    pub at: Timestamp,
}

/// One that is known to the counter and not to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub user_id: UserId,
    pub key: String,
    pub at: Timestamp,
}

pub type Tells<'a, T> = Pin<Box<dyn Future<Output = Result<T, Away>> + Send + 'a>>;
/// Whether it was done; not, where somebody else has begun a later epoch.
pub type Begins<'a> = Tells<'a, bool>;
/// None where it is not the one that was there before.
pub type Reads<'a, T> = Tells<'a, Option<T>>;

/// Counts coupons. All that it does to one coupon happens one after the other.
pub trait CouponCounter: Send + Sync + 'static {
    /// Counts wishes for one coupon, and writes those that are counted to its log, if it is to.
    fn take<'a>(&'a self, takes: &'a [Take], log: bool) -> Tells<'a, Taken>;

    /// Counts one less, once for this user coupon as long as that is not settled and forgotten, if the count is of this epoch.
    fn give_back<'a>(
        &'a self,
        coupon: &'a CouponId,
        epoch: i64,
        id: UserCouponId,
        user: &'a UserId,
        now: Timestamp,
    ) -> Tells<'a, Taken>;

    /// Forgets how it came to know of these, after a while: the store has them. What the log calls them goes at once.
    fn settle<'a>(
        &'a self,
        coupon: &'a CouponId,
        done: &'a [(UserCouponId, String)],
        remember: Duration,
    ) -> Tells<'a, ()>;

    /// Which one it is that counts this coupon: another after a restart. Nobody is counted by it before it is trusted.
    fn meet<'a>(&'a self, coupon: &'a CouponId) -> Tells<'a, String>;

    /// The one that was met last knows what the store knows: from now on it counts this coupon.
    fn trust(&self, coupon: &CouponId);

    fn look<'a>(&'a self, coupon: &'a CouponId) -> Tells<'a, Counter>;

    /// Begins to count anew: nobody is counted until that is done.
    fn begin<'a>(&'a self, coupon: &'a CouponId, epoch: i64) -> Begins<'a>;

    /// Learns who has asked before, and whether they have one.
    fn learn<'a>(&'a self, epoch: i64, holders: &'a [(Take, bool)]) -> Begins<'a>;

    /// Goes on counting, with so many left.
    fn publish<'a>(&'a self, coupon: &'a CouponId, epoch: i64, left: i64) -> Begins<'a>;

    /// Has it counted anew by whoever comes next, if it is of this epoch.
    fn forget<'a>(&'a self, coupon: &'a CouponId, epoch: i64) -> Tells<'a, ()>;

    /// Whether somebody was counted under a key; none where that cannot be told now.
    fn known<'a>(&'a self, coupon: &'a CouponId, user: &'a UserId, key: &'a str) -> Reads<'a, bool>;

    /// Takes from the log what nobody has taken.
    fn read<'a>(&'a self, coupon: &'a CouponId, worker: &'a str, most: usize) -> Reads<'a, Vec<Entry>>;

    /// Takes from the log what others took, and have not been heard of for so long.
    fn take_over<'a>(
        &'a self,
        coupon: &'a CouponId,
        worker: &'a str,
        idle: Duration,
        most: usize,
    ) -> Reads<'a, Vec<Entry>>;

    /// All that is in the log, from its beginning, whoever took it.
    fn log<'a>(&'a self, coupon: &'a CouponId, most: usize) -> Tells<'a, Vec<Entry>>;

    /// An issue that the store does not have.
    fn waiting<'a>(&'a self, coupon: &'a CouponId, id: UserCouponId) -> Tells<'a, Option<Waiting>>;

    /// What was counted before a time and is not settled.
    fn unsettled<'a>(
        &'a self,
        coupon: &'a CouponId,
        before: Timestamp,
        most: usize,
    ) -> Tells<'a, Vec<UserCouponId>>;
}
