//! The user registry: who may take part.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UserStatus {
    Active,
    Inactive,
    Banned,
    Withdrawn,
}

impl UserStatus {
    pub const ALL: [UserStatus; 4] = [Self::Active, Self::Inactive, Self::Banned, Self::Withdrawn];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Inactive => "INACTIVE",
            Self::Banned => "BANNED",
            Self::Withdrawn => "WITHDRAWN",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_active(self) -> bool {
        self == Self::Active
    }
}
