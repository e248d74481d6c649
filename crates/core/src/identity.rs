//! Who is calling, and what their role lets them do.

use crate::id::UserId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Role {
    /// Own data only.
    User,
    /// Another back end of the house; may ask for a user's status.
    Service,
    /// Reads everything, changes nothing.
    Auditor,
    /// Runs events.
    Operator,
    /// All of it.
    Admin,
}

impl Role {
    pub const ALL: [Role; 5] = [Self::User, Self::Service, Self::Auditor, Self::Operator, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Service => "SERVICE",
            Self::Auditor => "AUDITOR",
            Self::Operator => "OPERATOR",
            Self::Admin => "ADMIN",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// What a call needs its caller to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Act on one's own data.
    Participate,
    /// Read what operators see.
    Inspect,
    /// Change events, users and deliveries.
    Operate,
    /// Ask whether a user is active.
    LookUpUsers,
}

impl Permission {
    pub fn allows(self, role: Role) -> bool {
        match self {
            Self::Participate => true,
            Self::Inspect => matches!(role, Role::Auditor | Role::Operator | Role::Admin),
            Self::Operate => matches!(role, Role::Operator | Role::Admin),
            Self::LookUpUsers => matches!(role, Role::Service | Role::Auditor | Role::Operator | Role::Admin),
        }
    }

    /// The roles that would do, for the refusal's text.
    pub fn roles(self) -> String {
        let roles: Vec<_> =
            Role::ALL.into_iter().filter(|role| self.allows(*role)).map(Role::as_str).collect();
        roles.join(", ")
    }
}

/// A verified caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user_id: UserId,
    pub name: Option<String>,
    pub roles: Vec<Role>,
}

impl Identity {
    pub fn may(&self, permission: Permission) -> bool {
        self.roles.iter().any(|role| permission.allows(*role))
    }
}

#[cfg(test)]
mod tests {
    use super::{Permission, Role};

    #[test]
    fn who_may_do_what() {
        use Permission::{Inspect, LookUpUsers, Operate, Participate};
        for (role, may) in [
            (Role::User, vec![Participate]),
            (Role::Service, vec![Participate, LookUpUsers]),
            (Role::Auditor, vec![Participate, Inspect, LookUpUsers]),
            (Role::Operator, vec![Participate, Inspect, Operate, LookUpUsers]),
            (Role::Admin, vec![Participate, Inspect, Operate, LookUpUsers]),
        ] {
            for permission in [Participate, Inspect, Operate, LookUpUsers] {
                assert_eq!(permission.allows(role), may.contains(&permission), "{role:?} {permission:?}");
            }
        }
    }
}
