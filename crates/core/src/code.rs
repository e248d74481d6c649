//! The catalogue of error codes: stable names that clients branch on. Each has a page in `docs/errors/`.

use std::fmt;

macro_rules! codes {
    ($($variant:ident $text:literal $title:literal;)+) => {
        /// Why a call was refused or failed, as a stable name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant),+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text),+ }
            }

            /// One short sentence that is the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),+ }
            }
        }
    };
}

codes! {
    MalformedJson "MALFORMED_JSON" "The body is not well-formed JSON";
    BadCursor "BAD_CURSOR" "The cursor is not one that this list gave out";
    BadRequest "BAD_REQUEST" "The request cannot be read";
    InvalidFields "INVALID_FIELDS" "Some fields are not acceptable";
    TokenMissing "TOKEN_MISSING" "A bearer token is needed";
    TokenInvalid "TOKEN_INVALID" "The bearer token is not acceptable";
    TokenExpired "TOKEN_EXPIRED" "The bearer token has expired";
    KeysUnavailable "KEYS_UNAVAILABLE" "The keys that tokens are checked with cannot be had";
    RateLimited "RATE_LIMITED" "Too many calls in a second";
    Overloaded "OVERLOADED" "Too many calls are under way";
    UpstreamUnavailable "UPSTREAM_UNAVAILABLE" "The gateway reaches no server";
    UpstreamFailed "UPSTREAM_FAILED" "The server behind the gateway did not answer";
    Forbidden "FORBIDDEN" "The caller's role does not allow this";
    CsrfRefused "CSRF_REFUSED" "The call does not prove that it comes from the session's own page";
    UserNotActive "USER_NOT_ACTIVE" "The user is not active";
    NotFound "NOT_FOUND" "There is nothing at this address";
    MethodNotAllowed "METHOD_NOT_ALLOWED" "The address does not take this method";
    RequestTimeout "REQUEST_TIMEOUT" "The request's body came too slowly";
    BodyTooLarge "BODY_TOO_LARGE" "The body is larger than the limit";
    UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" "The body must be application/json";
    EventNotFound "EVENT_NOT_FOUND" "There is no such event";
    EventExists "EVENT_EXISTS" "An event with this id exists already";
    EventTransitionRefused "EVENT_TRANSITION_REFUSED" "The event's status does not allow this";
    EventFieldFrozen "EVENT_FIELD_FROZEN" "The field cannot change in the event's present status";
    EventNotReady "EVENT_NOT_READY" "The event cannot be opened as it is";
    EventNotOpen "EVENT_NOT_OPEN" "The event takes no applications now";
    EventWrongType "EVENT_WRONG_TYPE" "The event is of a type that does not have this";
    DrawNotReady "DRAW_NOT_READY" "The draw has not come that far";
    RequestNotFound "REQUEST_NOT_FOUND" "There is no such request";
    AllocationNotFound "ALLOCATION_NOT_FOUND" "There is no such allocation";
    AllocationRefused "ALLOCATION_REFUSED" "The allocation's status does not allow this";
    RetryNotFound "RETRY_NOT_FOUND" "There is no such retry of many allocations";
    ClaimNotFound "CLAIM_NOT_FOUND" "There is no such claim";
    ClaimInProgress "CLAIM_IN_PROGRESS" "Another claim of the same user at this event is under way";
    ClaimRefused "CLAIM_REFUSED" "The claim's status does not allow this";
    ValidationFailedExternalAuth "VALIDATION_FAILED_EXTERNAL_AUTH" "Nobody could say whether the user is active";
    ValidationFailedUserInactive "VALIDATION_FAILED_USER_INACTIVE" "The user is not active";
    ValidationFailedEventNotActive "VALIDATION_FAILED_EVENT_NOT_ACTIVE" "The event takes no claims now";
    ValidationFailedAlreadyClaimed "VALIDATION_FAILED_ALREADY_CLAIMED" "The rewards of this event were claimed before";
    ConditionCheckFailedExternal "CONDITION_CHECK_FAILED_EXTERNAL" "The event's conditions could not be judged";
    ConditionNotMet "CONDITION_NOT_MET" "The event's conditions are not met";
    OutOfStock "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK" "Nothing is left of a reward";
    InventoryConcurrency "INVENTORY_ALLOCATION_FAILED_CONCURRENCY" "Others were faster, again and again";
    FailedRolledBack "FAILED_ROLLED_BACK" "The claim failed, and what was done for it was undone";
    NeedsIntervention "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED" "The claim failed, and somebody has to see to it";
    CouponNotFound "COUPON_NOT_FOUND" "There is no such coupon";
    CouponExists "COUPON_EXISTS" "A coupon with this id exists already";
    CouponNotValid "COUPON_NOT_VALID" "The coupon is not issued now";
    CouponOutOfStock "OUT_OF_STOCK" "Nothing is left of the coupon";
    CouponDuplicate "DUPLICATE" "The user has as many of the coupon as one can have";
    UserCouponNotFound "USER_COUPON_NOT_FOUND" "There is no such user coupon";
    CouponAlreadyUsed "COUPON_ALREADY_USED" "The coupon was used for an order";
    CouponExpired "COUPON_EXPIRED" "The coupon was not used in time";
    CouponNotUsable "COUPON_NOT_USABLE" "The coupon cannot be used as it is";
    IssuerUnavailable "ISSUER_UNAVAILABLE" "Whoever counts the coupons cannot be reached";
    PlayLimitReached "PLAY_LIMIT_REACHED" "No play is left";
    UserNotFound "USER_NOT_FOUND" "The registry does not know this user";
    IdempotencyKeyMissing "IDEMPOTENCY_KEY_MISSING" "The call needs an idempotency key";
    IdempotencyKeyNotFound "IDEMPOTENCY_KEY_NOT_FOUND" "This idempotency key was never issued to the caller";
    IdempotencyKeyExpired "IDEMPOTENCY_KEY_EXPIRED" "The idempotency key was not used in time";
    IdempotencyHashMismatch "IDEMPOTENCY_HASH_MISMATCH" "The idempotency key was used for another request";
    Timeout "TIMEOUT" "The work under this idempotency key was not finished in time";
    AccountNotFound "ACCOUNT_NOT_FOUND" "There is no such account";
    AccountForbidden "ACCOUNT_FORBIDDEN" "The account is not the caller's";
    AccountNotActive "ACCOUNT_NOT_ACTIVE" "The account is not active";
    CurrencyScaleMismatch "CURRENCY_SCALE_MISMATCH" "The currency has another number of decimals";
    CurrencyMismatch "CURRENCY_MISMATCH" "The two accounts have different currencies";
    InsufficientBalance "INSUFFICIENT_BALANCE" "The account does not hold that much";
    BalanceOutOfRange "BALANCE_OUT_OF_RANGE" "The account cannot hold that much";
    TransferNotFound "TRANSFER_NOT_FOUND" "There is no such transfer";
    MessageNotFound "MESSAGE_NOT_FOUND" "There is no such message in the outbox";
    NoSink "NO_SINK" "Nothing is published by this server";
    TransferNotRefundable "TRANSFER_NOT_REFUNDABLE" "This transfer cannot be refunded";
    RefundExceedsTransfer "REFUND_EXCEEDS_TRANSFER" "No more can be refunded than was transferred";
    StoreBusy "STORE_BUSY" "Too much work is waiting";
    StoreUnavailable "STORE_UNAVAILABLE" "The store cannot be reached";
    OutcomeUnknown "OUTCOME_UNKNOWN" "It is not known whether the change was made";
    ShuttingDown "SHUTTING_DOWN" "The server is stopping";
    InternalError "INTERNAL_ERROR" "Something broke on our side";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_are_distinct_upper_snake_case() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(text.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{text}");
            assert!(seen.insert(text), "{text} twice");
        }
    }
}
