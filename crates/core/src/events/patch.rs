//! Changing an event: anything while it is a draft, very little once people can see it.

use super::body::{AttendanceBody, EventBody, RandomBody, RewardBody};
use super::settings::{EventKind, EventSettings, Odds, Reward, RewardKind};
use super::validate::{self, Fields};
use crate::code::Code;
use crate::fields::{Change, FieldErrors};
use crate::rejection::Rejection;
use crate::time::Timestamp;

/// The most versions that a game's odds can have.
const ODDS_VERSIONS_MAX: usize = 20;

/// Lays the body over a draft's settings and validates the whole again.
pub(super) fn draft(present: &EventSettings, body: EventBody) -> Result<EventSettings, Rejection> {
    refuse_identity(&body)?;
    validate::settings_of(present.kind.event_type(), fields_of(present).overlaid_with(body))
}

/// An open event takes a new name, a later end, and odds that come into force at a time to come.
pub(super) fn open(
    present: &EventSettings,
    body: EventBody,
    now: Timestamp,
) -> Result<EventSettings, Rejection> {
    refuse_identity(&body)?;
    refuse_frozen(&body)?;
    let mut errors = FieldErrors::default();
    let mut settings = present.clone();
    match body.name {
        Change::Keep => {}
        Change::Clear => errors.refuse("name", "is required"),
        Change::Set(name) => {
            if let Some(name) = errors.check("name", validate::check_name(name)) {
                settings.name = name;
            }
        }
    }
    match body.ends_at {
        Change::Keep => {}
        Change::Clear => errors.refuse("endsAt", "is required"),
        Change::Set(ends_at) if ends_at < present.ends_at => {
            errors.refuse("endsAt", "can only be moved later while the event is open");
        }
        Change::Set(ends_at) => {
            if let Some(ends_at) = errors.check("endsAt", ends_at.check()) {
                settings.ends_at = ends_at;
            }
        }
    }
    match body.random {
        Change::Keep => {}
        Change::Clear => errors.refuse("random", "is required"),
        Change::Set(random) => add_odds(&mut settings, random, now, &mut errors),
    }
    errors.into_result()?;
    Ok(settings)
}

fn refuse_identity(body: &EventBody) -> Result<(), Rejection> {
    let mut errors = FieldErrors::default();
    if validate::names(&body.event_id) {
        errors.refuse("eventId", "cannot change");
    }
    if validate::names(&body.r#type) {
        errors.refuse("type", "cannot change");
    }
    errors.into_result()
}

fn refuse_frozen(body: &EventBody) -> Result<(), Rejection> {
    let named = [
        ("startsAt", validate::names(&body.starts_at)),
        ("capacityTotal", validate::names(&body.capacity_total)),
        ("lotteryCutoffAt", validate::names(&body.lottery_cutoff_at)),
        ("publicNonceSource", validate::names(&body.public_nonce_source)),
        ("grantPolicy", validate::names(&body.grant_policy)),
        ("conditions", validate::names(&body.conditions)),
        ("rewards", validate::names(&body.rewards)),
        ("attendance", validate::names(&body.attendance)),
    ];
    match named.into_iter().find(|(_, named)| *named) {
        None => Ok(()),
        Some((field, _)) => Err(Rejection::new(
            Code::EventFieldFrozen,
            format!(
                "{field} cannot change while the event is OPEN; only name, a later endsAt, and random with effectiveAt can"
            ),
        )),
    }
}

fn add_odds(settings: &mut EventSettings, body: RandomBody, now: Timestamp, errors: &mut FieldErrors) {
    let EventKind::Random { odds, .. } = &mut settings.kind else {
        errors.refuse("random", "is only for RANDOM events");
        return;
    };
    for (path, present) in [
        ("random.timeZone", body.time_zone.is_some()),
        ("random.perDay", body.per_day.is_some()),
        ("random.perUser", body.per_user.is_some()),
    ] {
        if present {
            errors.refuse(path, "cannot change while the event is open");
        }
    }
    if odds.len() >= ODDS_VERSIONS_MAX {
        errors
            .refuse("random", format!("has had {ODDS_VERSIONS_MAX} versions of its odds, which is the most"));
    }
    let newest = odds.last().map_or((0, now), |last| (last.version, last.effective_at));
    let effective_at = errors.require("random.effectiveAt", body.effective_at);
    if effective_at.is_some_and(|at| at < now) {
        errors.refuse("random.effectiveAt", "must not be in the past");
    } else if effective_at.is_some_and(|at| at <= newest.1) {
        errors.refuse("random.effectiveAt", "must be after the time of the newest odds");
    }
    let effective_at = effective_at.and_then(|at| errors.check("random.effectiveAt", at.check()));
    let (prizes, fallback) = validate::odds(body.prizes, body.fallback, &settings.rewards, errors);
    if let Some(effective_at) = effective_at {
        odds.push(Odds { version: newest.0 + 1, effective_at, prizes, fallback });
    }
}

/// The fields that a body would have to name to make these settings.
fn fields_of(settings: &EventSettings) -> Fields {
    let mut fields = Fields {
        name: Some(settings.name.clone()),
        starts_at: Some(settings.starts_at),
        ends_at: Some(settings.ends_at),
        rewards: Some(settings.rewards.iter().map(RewardBody::from).collect()),
        capacity_total: settings.kind.capacity_total(),
        ..Fields::default()
    };
    match &settings.kind {
        EventKind::FirstCome { .. } => {}
        EventKind::Lottery { lottery_cutoff_at, public_nonce_source, .. } => {
            fields.lottery_cutoff_at = Some(*lottery_cutoff_at);
            fields.public_nonce_source.clone_from(public_nonce_source);
        }
        EventKind::Claim { conditions, grant_policy } => {
            fields.conditions = conditions.as_ref().map(ToString::to_string);
            fields.grant_policy = Some(*grant_policy);
        }
        EventKind::Attendance { .. } => fields.attendance = AttendanceBody::of(&settings.kind),
        EventKind::Random { .. } => fields.random = RandomBody::of(&settings.kind),
    }
    fields
}

impl AttendanceBody {
    pub(super) fn of(kind: &EventKind) -> Option<Self> {
        let EventKind::Attendance { time_zone, count, daily, bonus } = kind else { return None };
        Some(Self {
            time_zone: Some(time_zone.clone()),
            count: Some(*count),
            daily: daily.clone().map(String::from),
            bonus: bonus.clone(),
        })
    }
}

impl RandomBody {
    /// The first version of the odds: the only one that a draft has.
    fn of(kind: &EventKind) -> Option<Self> {
        let EventKind::Random { time_zone, per_day, per_user, odds } = kind else { return None };
        let first = odds.first()?;
        Some(Self {
            time_zone: Some(time_zone.clone()),
            per_day: *per_day,
            per_user: *per_user,
            prizes: first.prizes.clone(),
            fallback: first.fallback.clone().map(String::from),
            effective_at: None,
        })
    }
}

impl From<&Reward> for RewardBody {
    fn from(reward: &Reward) -> Self {
        let (amount, currency, coupon_id) = match &reward.kind {
            RewardKind::Point { amount, currency } => (Some(*amount), Some(currency.clone()), None),
            RewardKind::Coupon { coupon_id } => (None, None, Some(coupon_id.to_string())),
            RewardKind::Item => (None, None, None),
        };
        Self {
            reward_id: reward.id.to_string(),
            kind: reward.kind.name(),
            quantity: Some(reward.quantity),
            total_stock: reward.total_stock,
            amount,
            currency,
            coupon_id,
            provider: reward.provider.clone(),
            details: reward.details.clone(),
        }
    }
}
