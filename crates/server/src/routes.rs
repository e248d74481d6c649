//! The routes mirror the URLs: a folder for each segment, a file for each call.

mod accounts;
mod admin;
mod claims;
mod coupons;
mod event_claims;
mod events;
mod healthz;
mod idempotency_keys;
mod me;
mod metrics;
mod readyz;
mod requests;
mod session;
mod time;
mod transfers;
mod user_coupons;
mod users;

use crate::app::App;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn all() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(events::list::handle))
        .routes(routes!(events::get::handle))
        .routes(routes!(events::apply::handle))
        .routes(routes!(events::attendance::get::handle, events::attendance::check_in::handle))
        .routes(routes!(events::plays::list::handle, events::plays::create::handle))
        .routes(routes!(events::odds::handle))
        .routes(routes!(events::draw::get::handle))
        .routes(routes!(events::draw::document::handle))
        .routes(routes!(events::draw::proof::handle))
        .routes(routes!(time::handle))
        .routes(routes!(requests::get::handle))
        .routes(routes!(requests::stream::handle))
        .routes(routes!(me::requests::handle))
        .routes(routes!(me::accounts::handle))
        .routes(routes!(me::allocations::handle))
        .routes(routes!(event_claims::handle))
        .routes(routes!(claims::get::handle))
        .routes(routes!(me::claims::handle))
        .routes(routes!(coupons::get::handle))
        .routes(routes!(coupons::issue::handle))
        .routes(routes!(user_coupons::get::handle))
        .routes(routes!(user_coupons::stream::handle))
        .routes(routes!(user_coupons::r#use::handle))
        .routes(routes!(user_coupons::cancel_use::handle))
        .routes(routes!(me::coupons::handle))
        .routes(routes!(users::status::handle))
        .routes(routes!(idempotency_keys::handle))
        .routes(routes!(transfers::create::handle))
        .routes(routes!(transfers::get::handle))
        .routes(routes!(transfers::refund::handle))
        .routes(routes!(accounts::get::handle))
        .routes(routes!(accounts::entries::handle))
        .routes(routes!(session::get::handle, session::create::handle, session::end::handle))
        .routes(routes!(admin::events::list::handle, admin::events::create::handle))
        .routes(routes!(admin::events::get::handle, admin::events::patch::handle))
        .routes(routes!(admin::events::open::handle))
        .routes(routes!(admin::events::close::handle))
        .routes(routes!(admin::events::cancel::handle))
        .routes(routes!(admin::events::draw::handle))
        .routes(routes!(admin::events::requests::handle))
        .routes(routes!(admin::events::summary::handle))
        .routes(routes!(admin::events::stream::handle))
        .routes(routes!(admin::events::pace::get::handle))
        .routes(routes!(admin::events::pace::stream::handle))
        .routes(routes!(admin::events::users::handle))
        .routes(routes!(admin::requests::get::handle))
        .routes(routes!(admin::search::handle))
        .routes(routes!(admin::users::list::handle))
        .routes(routes!(admin::users::put::handle))
        .routes(routes!(admin::users::requests::handle))
        .routes(routes!(admin::users::coupons::handle))
        .routes(routes!(admin::users::activity::get::handle, admin::users::activity::put::handle))
        .routes(routes!(admin::claims::list::handle))
        .routes(routes!(admin::claims::get::handle))
        .routes(routes!(admin::claims::retry::handle))
        .routes(routes!(admin::claims::resolve::handle))
        .routes(routes!(admin::coupons::list::handle, admin::coupons::create::handle))
        .routes(routes!(admin::coupons::get::handle))
        .routes(routes!(admin::coupons::user_coupons::handle))
        .routes(routes!(admin::user_coupons::revoke::handle))
        .routes(routes!(admin::accounts::list::handle, admin::accounts::create::handle))
        .routes(routes!(admin::accounts::deposit::handle))
        .routes(routes!(admin::allocations::list::handle))
        .routes(routes!(admin::allocations::count::handle))
        .routes(routes!(admin::allocations::retry_all::handle))
        .routes(routes!(admin::allocations::cancel_all::handle))
        .routes(routes!(admin::allocations::retries::list::handle))
        .routes(routes!(admin::allocations::retries::get::handle))
        .routes(routes!(admin::allocations::retries::stop::handle))
        .routes(routes!(admin::allocations::get::handle))
        .routes(routes!(admin::allocations::retry::handle))
        .routes(routes!(admin::allocations::cancel::handle))
        .routes(routes!(admin::outbox::list::handle))
        .routes(routes!(admin::outbox::replay_range::handle))
        .routes(routes!(admin::outbox::sink::handle))
        .routes(routes!(admin::outbox::enable::handle))
        .routes(routes!(admin::outbox::get::handle))
        .routes(routes!(admin::outbox::replay::handle))
        .routes(routes!(admin::audit::handle))
        .routes(routes!(admin::audit_log::handle))
        .routes(routes!(healthz::handle))
        .routes(routes!(readyz::handle))
        .routes(routes!(metrics::handle))
}
