//! From what was sent to settings that hold: each refusal says which field and why.

use super::EventType;
use super::body::{AttendanceBody, EventBody, RandomBody, RewardBody};
use super::condition::Condition;
use super::settings::{
    AttendanceCount, EventKind, EventSettings, GrantPolicy, Odds, Prize, Reward, RewardKind, RewardKindName,
};
use crate::entries::ZONE_DEFAULT;
use crate::fields::{Change, FieldErrors};
use crate::id::{CouponId, Currency, EventId, RewardId};
use crate::rejection::Rejection;
use crate::time::Timestamp;
use std::collections::HashSet;
use std::ops::RangeInclusive;

const NAME_CHARACTERS_MAX: usize = 200;
const CAPACITY: RangeInclusive<i64> = 1..=1_000_000_000;
const QUANTITY: RangeInclusive<i64> = 1..=1_000_000;
const STOCK: RangeInclusive<i64> = 0..=1_000_000_000_000;
const DAYS: RangeInclusive<i64> = 1..=3_650;
const PLAYS: RangeInclusive<i64> = 1..=1_000_000;
const WEIGHT: RangeInclusive<i64> = 0..=1_000_000_000;
/// The longest list of rewards, prizes or milestones.
const LIST_MAX: usize = 100;
const NONCE_SOURCE_CHARACTERS_MAX: usize = 500;
const DETAILS_BYTES_MAX: usize = 2_048;

/// The fields of an event that is being created.
pub(super) fn draft(body: EventBody) -> Result<(EventId, EventSettings), Rejection> {
    let mut errors = FieldErrors::default();
    let id = errors.require("eventId", body.event_id.clone().over(None));
    let id = id.and_then(|id| errors.check("eventId", EventId::parse(id)));
    let kind = errors.require("type", body.r#type.clone().over(None));
    let settings = kind.and_then(|kind| settings(kind, Fields::of(body), &mut errors));
    errors.into_result()?;
    Ok((id.expect("no error was noted"), settings.expect("no error was noted")))
}

/// The fields of an event as they stand after the body was laid over them.
pub(super) fn settings_of(kind: EventType, fields: Fields) -> Result<EventSettings, Rejection> {
    let mut errors = FieldErrors::default();
    let settings = settings(kind, fields, &mut errors);
    errors.into_result()?;
    Ok(settings.expect("no error was noted"))
}

/// An event's fields before validation, each there or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) name: Option<String>,
    pub(super) starts_at: Option<Timestamp>,
    pub(super) ends_at: Option<Timestamp>,
    pub(super) capacity_total: Option<i64>,
    pub(super) lottery_cutoff_at: Option<Timestamp>,
    pub(super) public_nonce_source: Option<String>,
    pub(super) grant_policy: Option<GrantPolicy>,
    pub(super) conditions: Option<String>,
    pub(super) rewards: Option<Vec<RewardBody>>,
    pub(super) attendance: Option<AttendanceBody>,
    pub(super) random: Option<RandomBody>,
}

impl Fields {
    fn of(body: EventBody) -> Self {
        Self::default().overlaid_with(body)
    }

    pub(super) fn overlaid_with(self, body: EventBody) -> Self {
        Self {
            name: body.name.over(self.name),
            starts_at: body.starts_at.over(self.starts_at),
            ends_at: body.ends_at.over(self.ends_at),
            capacity_total: body.capacity_total.over(self.capacity_total),
            lottery_cutoff_at: body.lottery_cutoff_at.over(self.lottery_cutoff_at),
            public_nonce_source: body.public_nonce_source.over(self.public_nonce_source),
            grant_policy: body.grant_policy.over(self.grant_policy),
            conditions: body.conditions.over(self.conditions),
            rewards: body.rewards.over(self.rewards),
            attendance: body.attendance.over(self.attendance),
            random: body.random.over(self.random),
        }
    }
}

fn settings(kind: EventType, fields: Fields, errors: &mut FieldErrors) -> Option<EventSettings> {
    only_for(&fields, kind, errors);
    let name =
        errors.require("name", fields.name.clone()).and_then(|name| errors.check("name", check_name(name)));
    let starts_at = time("startsAt", fields.starts_at, errors);
    let ends_at = time("endsAt", fields.ends_at, errors);
    if let (Some(starts_at), Some(ends_at)) = (starts_at, ends_at)
        && ends_at <= starts_at
    {
        errors.refuse("endsAt", "must be after startsAt");
    }
    let rewards = rewards(fields.rewards.as_deref().unwrap_or_default(), errors);
    let kind = match kind {
        EventType::FirstCome => capacity(fields.capacity_total, errors)
            .map(|capacity_total| EventKind::FirstCome { capacity_total }),
        EventType::Lottery => lottery(&fields, errors),
        EventType::Claim => Some(claim(&fields, errors)),
        EventType::Attendance => attendance(fields.attendance, &rewards, errors),
        EventType::Random => random(fields.random, starts_at, &rewards, errors),
    };
    Some(EventSettings { name: name?, starts_at: starts_at?, ends_at: ends_at?, rewards, kind: kind? })
}

/// Refuses the fields that events of another type have.
fn only_for(fields: &Fields, kind: EventType, errors: &mut FieldErrors) {
    use EventType::{Attendance, Claim, FirstCome, Lottery, Random};
    let places: [(&str, bool, &[EventType]); 7] = [
        ("capacityTotal", fields.capacity_total.is_some(), &[FirstCome, Lottery]),
        ("lotteryCutoffAt", fields.lottery_cutoff_at.is_some(), &[Lottery]),
        ("publicNonceSource", fields.public_nonce_source.is_some(), &[Lottery]),
        ("grantPolicy", fields.grant_policy.is_some(), &[Claim]),
        ("conditions", fields.conditions.is_some(), &[Claim]),
        ("attendance", fields.attendance.is_some(), &[Attendance]),
        ("random", fields.random.is_some(), &[Random]),
    ];
    for (path, present, kinds) in places {
        if present && !kinds.contains(&kind) {
            let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
            errors.refuse(path, format!("is only for {} events", names.join(" and ")));
        }
    }
}

pub(super) fn check_name(name: String) -> Result<String, String> {
    check_line(name, NAME_CHARACTERS_MAX)
}

fn check_line(text: String, characters_max: usize) -> Result<String, String> {
    let count = text.chars().count();
    if count > characters_max {
        Err(format!("must be at most {characters_max} characters"))
    } else if text.trim().is_empty() {
        Err("must not be empty".into())
    } else if text.chars().any(char::is_control) {
        Err("must not contain control characters".into())
    } else {
        Ok(text)
    }
}

fn time(path: &str, value: Option<Timestamp>, errors: &mut FieldErrors) -> Option<Timestamp> {
    errors.require(path, value).and_then(|value| errors.check(path, value.check()))
}

fn within(value: i64, range: &RangeInclusive<i64>) -> Result<i64, String> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(format!("must be between {} and {}", range.start(), range.end()))
    }
}

fn capacity(value: Option<i64>, errors: &mut FieldErrors) -> Option<i64> {
    let value = errors.require("capacityTotal", value)?;
    errors.check("capacityTotal", within(value, &CAPACITY))
}

fn lottery(fields: &Fields, errors: &mut FieldErrors) -> Option<EventKind> {
    let capacity_total = capacity(fields.capacity_total, errors);
    let cutoff = time("lotteryCutoffAt", fields.lottery_cutoff_at, errors);
    if let Some(cutoff) = cutoff {
        if fields.ends_at.is_some_and(|ends_at| cutoff > ends_at) {
            errors.refuse("lotteryCutoffAt", "must not be after endsAt");
        }
        if fields.starts_at.is_some_and(|starts_at| cutoff <= starts_at) {
            errors.refuse("lotteryCutoffAt", "must be after startsAt");
        }
    }
    let public_nonce_source = fields
        .public_nonce_source
        .clone()
        .and_then(|text| errors.check("publicNonceSource", check_line(text, NONCE_SOURCE_CHARACTERS_MAX)));
    Some(EventKind::Lottery {
        capacity_total: capacity_total?,
        lottery_cutoff_at: cutoff?,
        public_nonce_source,
    })
}

fn claim(fields: &Fields, errors: &mut FieldErrors) -> EventKind {
    if fields.rewards.as_ref().is_none_or(Vec::is_empty) {
        errors.refuse("rewards", "must name at least one reward to claim");
    }
    let conditions =
        fields.conditions.clone().and_then(|text| errors.check("conditions", Condition::parse(text)));
    let grant_policy = fields.grant_policy.unwrap_or(GrantPolicy::AllOrNothing);
    EventKind::Claim { conditions, grant_policy }
}

fn attendance(
    body: Option<AttendanceBody>,
    rewards: &[Reward],
    errors: &mut FieldErrors,
) -> Option<EventKind> {
    let body = errors.require("attendance", body)?;
    let time_zone = zone("attendance.timeZone", body.time_zone, errors);
    let daily = body.daily.and_then(|id| known_reward("attendance.daily", &id, rewards, errors));
    if daily.is_none() && body.bonus.is_empty() && errors.is_empty() {
        errors.refuse("attendance.daily", "must be set, or attendance.bonus must name a milestone");
    }
    if body.bonus.len() > LIST_MAX {
        errors.refuse("attendance.bonus", format!("must have at most {LIST_MAX} milestones"));
    }
    let mut days = HashSet::new();
    for (index, bonus) in body.bonus.iter().enumerate() {
        let path = format!("attendance.bonus[{index}]");
        errors.check(format!("{path}.days"), within(bonus.days, &DAYS));
        if !days.insert(bonus.days) {
            errors.refuse(format!("{path}.days"), "is a milestone already");
        }
        known_reward(&format!("{path}.rewardId"), bonus.reward_id.as_str(), rewards, errors);
    }
    let count = body.count.unwrap_or(AttendanceCount::Total);
    Some(EventKind::Attendance { time_zone, count, daily, bonus: body.bonus })
}

fn zone(path: &str, named: Option<String>, errors: &mut FieldErrors) -> String {
    let zone = named.unwrap_or_else(|| ZONE_DEFAULT.into());
    if jiff::tz::TimeZone::get(&zone).is_err() {
        errors.refuse(path, "must be the IANA name of a time zone, such as Asia/Seoul");
    }
    zone
}

fn random(
    body: Option<RandomBody>,
    starts_at: Option<Timestamp>,
    rewards: &[Reward],
    errors: &mut FieldErrors,
) -> Option<EventKind> {
    let body = errors.require("random", body)?;
    if body.effective_at.is_some() {
        errors.refuse("random.effectiveAt", "is only for the odds of an event that is open");
    }
    let time_zone = zone("random.timeZone", body.time_zone, errors);
    let per_day = body.per_day.and_then(|plays| errors.check("random.perDay", within(plays, &PLAYS)));
    let per_user = body.per_user.and_then(|plays| errors.check("random.perUser", within(plays, &PLAYS)));
    let (prizes, fallback) = odds(body.prizes, body.fallback, rewards, errors);
    let first = Odds { version: 1, effective_at: starts_at?, prizes, fallback };
    Some(EventKind::Random { time_zone, per_day, per_user, odds: vec![first] })
}

/// Checks a table of prizes; also used for the later versions of an open event's odds.
pub(super) fn odds(
    prizes: Vec<Prize>,
    fallback: Option<String>,
    rewards: &[Reward],
    errors: &mut FieldErrors,
) -> (Vec<Prize>, Option<RewardId>) {
    let mut sum = 0_i64;
    for (index, prize) in prizes.iter().enumerate() {
        let path = format!("random.prizes[{index}]");
        if let Some(id) = &prize.reward_id {
            known_reward(&format!("{path}.rewardId"), id.as_str(), rewards, errors);
        }
        if let Some(weight) = errors.check(format!("{path}.weight"), within(prize.weight, &WEIGHT)) {
            sum += weight;
        }
    }
    if prizes.len() > LIST_MAX {
        errors.refuse("random.prizes", format!("must have at most {LIST_MAX} prizes"));
    } else if sum == 0 {
        errors.refuse("random.prizes", "must have weights that sum to more than 0");
    }
    let fallback = fallback.and_then(|id| known_reward("random.fallback", &id, rewards, errors));
    (prizes, fallback)
}

fn known_reward(path: &str, id: &str, rewards: &[Reward], errors: &mut FieldErrors) -> Option<RewardId> {
    let known = rewards.iter().find(|reward| reward.id.as_str() == id);
    if known.is_none() {
        errors.refuse(path, format!("names the reward {id:?}, which is not in rewards"));
    }
    known.map(|reward| reward.id.clone())
}

fn rewards(bodies: &[RewardBody], errors: &mut FieldErrors) -> Vec<Reward> {
    if bodies.len() > LIST_MAX {
        errors.refuse("rewards", format!("must have at most {LIST_MAX} rewards"));
        return Vec::new();
    }
    let mut seen = HashSet::new();
    let mut rewards = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        let path = format!("rewards[{index}]");
        if !seen.insert(body.reward_id.as_str()) {
            errors.refuse(format!("{path}.rewardId"), "is in the list already");
        }
        rewards.extend(reward(body, &path, errors));
    }
    rewards
}

fn reward(body: &RewardBody, path: &str, errors: &mut FieldErrors) -> Option<Reward> {
    let id = errors.check(format!("{path}.rewardId"), RewardId::parse(body.reward_id.clone()));
    let quantity = errors.check(format!("{path}.quantity"), within(body.quantity.unwrap_or(1), &QUANTITY));
    let total_stock =
        body.total_stock.and_then(|stock| errors.check(format!("{path}.totalStock"), within(stock, &STOCK)));
    // A provider's name has the same alphabet as a reward's.
    let provider = body.provider.clone();
    if let Some(name) = &provider {
        errors.check(format!("{path}.provider"), RewardId::parse(name.as_str()));
    }
    for (name, of) in [("wallet", RewardKindName::Point), ("coupon", RewardKindName::Coupon)] {
        if provider.as_deref() == Some(name) && body.kind != of {
            errors.refuse(format!("{path}.provider"), format!("{name} is only for {} rewards", of.as_str()));
        }
    }
    let ours = provider.as_deref().is_none_or(|name| name == "coupon");
    if body.kind == RewardKindName::Coupon && ours && body.quantity.is_some_and(|quantity| quantity != 1) {
        errors.refuse(
            format!("{path}.quantity"),
            "is 1 of a coupon; list as many rewards as there are to be coupons",
        );
    }
    let kind = reward_kind(body, path, errors);
    let details = body.details.clone();
    let details_bytes =
        details.as_ref().and_then(|details| serde_json::to_string(details).ok()).map_or(0, |text| text.len());
    if details_bytes > DETAILS_BYTES_MAX {
        errors.refuse(format!("{path}.details"), format!("must be at most {DETAILS_BYTES_MAX} bytes"));
    }
    Some(Reward { id: id?, kind: kind?, quantity: quantity?, total_stock, provider, details })
}

fn reward_kind(body: &RewardBody, path: &str, errors: &mut FieldErrors) -> Option<RewardKind> {
    let point = body.kind == RewardKindName::Point;
    for (field, present) in [("amount", body.amount.is_some()), ("currency", body.currency.is_some())] {
        if present && !point {
            errors.refuse(format!("{path}.{field}"), "is only for POINT rewards");
        }
    }
    if body.coupon_id.is_some() && body.kind != RewardKindName::Coupon {
        errors.refuse(format!("{path}.couponId"), "is only for COUPON rewards");
    }
    match body.kind {
        RewardKindName::Item => Some(RewardKind::Item),
        RewardKindName::Coupon => {
            let field = format!("{path}.couponId");
            let id = errors.require(&field, body.coupon_id.clone())?;
            let coupon_id = errors.check(field, CouponId::parse(id))?;
            Some(RewardKind::Coupon { coupon_id })
        }
        RewardKindName::Point => {
            let field = format!("{path}.amount");
            let amount = errors.require(&field, body.amount);
            if amount.is_some_and(|amount| !amount.is_positive()) {
                errors.refuse(field, "must be more than 0");
            }
            let field = format!("{path}.currency");
            let currency = errors.require(&field, body.currency.clone());
            let currency = currency
                .and_then(|currency| errors.check(field, Currency::parse(currency)).map(String::from));
            Some(RewardKind::Point { amount: amount?, currency: currency? })
        }
    }
}

/// Whether a patch names a field at all.
pub(super) fn names<T>(change: &Change<T>) -> bool {
    !change.is_keep()
}

#[cfg(test)]
mod tests;
