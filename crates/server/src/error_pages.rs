//! The pages of the error codes, as `docs/errors/` has them: a problem's `type` leads here.

use crate::problem::Problem;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use guerdon_core::Code;

macro_rules! page {
    ($code:literal) => {
        ($code, include_str!(concat!("../../../docs/errors/", $code, ".md")))
    };
}

const PAGES: &[(&str, &str)] = &[
    page!("MALFORMED_JSON"),
    page!("BAD_CURSOR"),
    page!("BAD_REQUEST"),
    page!("INVALID_FIELDS"),
    page!("TOKEN_MISSING"),
    page!("TOKEN_INVALID"),
    page!("TOKEN_EXPIRED"),
    page!("KEYS_UNAVAILABLE"),
    page!("RATE_LIMITED"),
    page!("OVERLOADED"),
    page!("UPSTREAM_UNAVAILABLE"),
    page!("UPSTREAM_FAILED"),
    page!("FORBIDDEN"),
    page!("USER_NOT_ACTIVE"),
    page!("CSRF_REFUSED"),
    page!("NOT_FOUND"),
    page!("METHOD_NOT_ALLOWED"),
    page!("REQUEST_TIMEOUT"),
    page!("BODY_TOO_LARGE"),
    page!("UNSUPPORTED_MEDIA_TYPE"),
    page!("EVENT_NOT_FOUND"),
    page!("EVENT_EXISTS"),
    page!("EVENT_TRANSITION_REFUSED"),
    page!("EVENT_FIELD_FROZEN"),
    page!("EVENT_NOT_READY"),
    page!("EVENT_NOT_OPEN"),
    page!("EVENT_WRONG_TYPE"),
    page!("DRAW_NOT_READY"),
    page!("REQUEST_NOT_FOUND"),
    page!("ALLOCATION_NOT_FOUND"),
    page!("ALLOCATION_REFUSED"),
    page!("RETRY_NOT_FOUND"),
    page!("CLAIM_NOT_FOUND"),
    page!("CLAIM_IN_PROGRESS"),
    page!("CLAIM_REFUSED"),
    page!("VALIDATION_FAILED_EXTERNAL_AUTH"),
    page!("VALIDATION_FAILED_USER_INACTIVE"),
    page!("VALIDATION_FAILED_EVENT_NOT_ACTIVE"),
    page!("VALIDATION_FAILED_ALREADY_CLAIMED"),
    page!("CONDITION_CHECK_FAILED_EXTERNAL"),
    page!("CONDITION_NOT_MET"),
    page!("INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK"),
    page!("INVENTORY_ALLOCATION_FAILED_CONCURRENCY"),
    page!("FAILED_ROLLED_BACK"),
    page!("COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED"),
    page!("COUPON_NOT_FOUND"),
    page!("COUPON_EXISTS"),
    page!("COUPON_NOT_VALID"),
    page!("OUT_OF_STOCK"),
    page!("DUPLICATE"),
    page!("USER_COUPON_NOT_FOUND"),
    page!("COUPON_ALREADY_USED"),
    page!("COUPON_EXPIRED"),
    page!("COUPON_NOT_USABLE"),
    page!("ISSUER_UNAVAILABLE"),
    page!("PLAY_LIMIT_REACHED"),
    page!("USER_NOT_FOUND"),
    page!("IDEMPOTENCY_KEY_MISSING"),
    page!("IDEMPOTENCY_KEY_NOT_FOUND"),
    page!("IDEMPOTENCY_KEY_EXPIRED"),
    page!("IDEMPOTENCY_HASH_MISMATCH"),
    page!("TIMEOUT"),
    page!("ACCOUNT_NOT_FOUND"),
    page!("ACCOUNT_FORBIDDEN"),
    page!("ACCOUNT_NOT_ACTIVE"),
    page!("CURRENCY_SCALE_MISMATCH"),
    page!("CURRENCY_MISMATCH"),
    page!("INSUFFICIENT_BALANCE"),
    page!("BALANCE_OUT_OF_RANGE"),
    page!("TRANSFER_NOT_FOUND"),
    page!("MESSAGE_NOT_FOUND"),
    page!("NO_SINK"),
    page!("TRANSFER_NOT_REFUNDABLE"),
    page!("REFUND_EXCEEDS_TRANSFER"),
    page!("STORE_BUSY"),
    page!("STORE_UNAVAILABLE"),
    page!("OUTCOME_UNKNOWN"),
    page!("SHUTTING_DOWN"),
    page!("INTERNAL_ERROR"),
];

pub(crate) async fn handle(Path(code): Path<String>) -> Result<impl IntoResponse, Problem> {
    let page = PAGES.iter().find(|(name, _)| *name == code);
    let (_, text) = page.ok_or_else(|| Problem::new(Code::NotFound, "there is no such code"))?;
    Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], *text))
}

#[cfg(test)]
mod tests {
    use super::PAGES;
    use crate::problem::status_of;
    use guerdon_core::Code;

    #[test]
    fn every_code_has_its_page_and_every_page_its_code() {
        let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        for (name, text) in PAGES {
            assert!(codes.contains(name), "{name} is not a code");
            assert!(text.starts_with(&format!("# {name}\n")), "{name}: the title");
            assert!(
                text.contains("## What it means") && text.contains("## What to do"),
                "{name}: the sections"
            );
        }
        for code in Code::ALL {
            let page = PAGES.iter().find(|(name, _)| *name == code.as_str());
            let (_, text) = page.unwrap_or_else(|| panic!("{code} has no page"));
            assert!(text.contains(&format!("Status {}.", status_of(*code).as_u16())), "{code}: the status");
        }
        let index = include_str!("../../../docs/errors/README.md");
        assert!(
            codes.iter().all(|code| index.contains(&format!("({code}.md)"))),
            "the index has all of them"
        );
    }
}
