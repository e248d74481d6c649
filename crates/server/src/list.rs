//! Lists: `limit` and `cursor` in, `items` and `nextCursor` out.

use crate::cursor;
use crate::problem::Problem;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use guerdon_core::{Code, Timestamp};
use guerdon_engine::{Page, PageRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use utoipa::ToSchema;

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 200;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<T> {
    items: Vec<T>,
    /// For the next page; `null` on the last one.
    next_cursor: Option<String>,
}

impl<T> List<T> {
    pub(crate) fn of<U, P: Serialize>(name: &str, page: Page<U, P>, view: impl Fn(U) -> T) -> Self {
        let next_cursor = page.next.map(|place| cursor::encode(name, &place));
        Self { items: page.items.into_iter().map(view).collect(), next_cursor }
    }
}

/// The query of a list call: its page, and the filters by name.
pub(crate) struct ListQuery(HashMap<String, String>);

impl ListQuery {
    pub(crate) fn page<P: Serialize + DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<PageRequest<P>, Problem> {
        let limit = match self.0.get("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(|| Problem::field("limit", format!("must be between 1 and {LIMIT_MAX}")))?,
        };
        let after = self.0.get("cursor").map(|text| cursor::decode(name, text)).transpose()?;
        Ok(PageRequest { limit, after })
    }

    /// What cursors of this list are of: the list and its filters, since a place in one is none in another.
    pub(crate) fn name(&self, list: &str, filters: &[&str]) -> String {
        let set = filters.iter().filter_map(|filter| self.text(filter));
        set.fold(list.to_owned(), |name, value| format!("{name}/{value}"))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A moment, in epoch milliseconds.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let millis = text.parse().map_err(|_| Problem::field(name, "must be epoch milliseconds"))?;
        let time = Timestamp::from_millis(millis).check();
        time.map(Some).map_err(|reason| Problem::field(name, reason))
    }

    /// A filter whose value is one of a few names.
    pub(crate) fn one_of<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = parse(text).ok_or_else(|| Problem::field(name, "is not a value that it can have"))?;
        Ok(Some(value))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(_) => Err(Problem::new(Code::BadRequest, "the query cannot be read")),
        }
    }
}
