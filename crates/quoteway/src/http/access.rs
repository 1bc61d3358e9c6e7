//! Who may look, and who may act.
//!
//! A process that listens on the loopback without users lets everybody act who is on the machine; requests that another page has a
//! browser send are told by their `Host`, `Origin` and `Sec-Fetch-Site` and refused. With users, each request carries a name and a
//! password (HTTP Basic), of which an argon2 hash is kept. Whoever may open the Unix socket is an operator.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordVerifier as _};
use base64ct::{Base64, Encoding as _};
use hyper::HeaderMap;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Anybody, also without a password: is the process alive?
    Anybody,
    /// Look.
    Viewer,
    /// Act.
    Operator,
}

impl Role {
    /// As users and documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// Somebody who may look or act, as `http.users` has it.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    role: Role,
    /// In the form of the Password Hashing Competition.
    hash: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.role.name())
    }
}

impl FromStr for User {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("not NAME:ROLE:HASH");
        };
        let role = match role {
            "viewer" => Role::Viewer,
            "operator" => Role::Operator,
            _ => return Err("a role is viewer or operator"),
        };
        if name.is_empty() || PasswordHash::new(hash).is_err() {
            return Err("a name, and a hash as `quoteway ctl password` makes it");
        }
        Ok(Self { name: name.to_owned(), role, hash: hash.to_owned() })
    }
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) role: Role,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// A name and a password are wanted, or others.
    WhoAreYou,
    /// This one may not.
    MayNot,
    /// The browser of somebody sends it for a page of another server.
    Foreign,
}

/// Passwords that were right are not hashed again for so long: a hash takes tens of milliseconds by design.
const REMEMBERED: Duration = Duration::from_mins(5);
/// Names and passwords that are remembered.
const REMEMBERED_MAX: usize = 64;

/// The rules.
pub(super) struct Access {
    users: RwLock<Vec<User>>,
    known: Mutex<HashMap<String, (Instant, Caller)>>,
}

impl Access {
    pub(super) fn new(users: Vec<User>) -> Self {
        Self { users: RwLock::new(users), known: Mutex::default() }
    }

    /// Others may look and act from now on.
    pub(super) fn set_users(&self, users: Vec<User>) {
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Who sends a request with these headers, if that one may do what `needed` may.
    pub(super) fn check(&self, headers: &HeaderMap, needed: Role, acts: bool) -> Result<Caller, Denial> {
        let is_open = self.users.read().unwrap_or_else(PoisonError::into_inner).is_empty();
        if is_foreign(headers, acts, is_open) {
            return Err(Denial::Foreign);
        }
        if is_open {
            return Ok(Caller { name: "local".to_owned(), role: Role::Operator });
        }
        if needed == Role::Anybody {
            return Ok(Caller { name: String::new(), role: Role::Anybody });
        }
        let given = headers.get("authorization").and_then(|value| value.to_str().ok()).ok_or(Denial::WhoAreYou)?;
        let caller = self.caller(given).ok_or(Denial::WhoAreYou)?;
        if caller.role >= needed { Ok(caller) } else { Err(Denial::MayNot) }
    }

    fn caller(&self, given: &str) -> Option<Caller> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, caller)) = known.get(given)
            && since.elapsed() < REMEMBERED
        {
            return Some(caller.clone());
        }
        let decoded = String::from_utf8(Base64::decode_vec(given.strip_prefix("Basic ")?).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        // An unknown name takes as long as a wrong password.
        let user = users.iter().find(|user| user.name == name);
        let hash = user.or(users.first())?.hash.as_str();
        let is_right = Argon2::default().verify_password(password.as_bytes(), &PasswordHash::new(hash).ok()?).is_ok();
        let user = user.filter(|_| is_right)?;
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        let caller = Caller { name: user.name.clone(), role: user.role };
        known.insert(given.to_owned(), (Instant::now(), caller.clone()));
        Some(caller)
    }
}

/// A page of another server has the browser send this.
fn is_foreign(headers: &HeaderMap, acts: bool, on_loopback: bool) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").unwrap_or_default();
    // A name of another server may lead to the loopback: then it is that server's pages that ask.
    if on_loopback && !host.is_empty() && !is_local(host) {
        return true;
    }
    if !acts {
        return false;
    }
    let elsewhere = text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let origin = text("origin").and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    elsewhere || origin.is_some_and(|origin| origin != host)
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::ctl::{UserRole, password_line};

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_password_opens_what_its_role_may() {
        let line = password_line("ann", UserRole::Viewer, "open sesame").unwrap();
        assert!(line.starts_with("ann:viewer:$argon2id$"), "{line}");
        let access = Access::new(vec![line.parse().unwrap()]);
        // "ann:open sesame" and "ann:wrong".
        let right = headers(&[("authorization", "Basic YW5uOm9wZW4gc2VzYW1l")]);
        let wrong = headers(&[("authorization", "Basic YW5uOndyb25n")]);
        for _ in 0..2 {
            assert_eq!(access.check(&right, Role::Viewer, false).map(|c| c.name), Ok("ann".to_owned()));
            assert_eq!(access.check(&wrong, Role::Viewer, false), Err(Denial::WhoAreYou));
        }
        assert_eq!(access.check(&right, Role::Operator, true), Err(Denial::MayNot));
        assert_eq!(access.check(&HeaderMap::new(), Role::Viewer, false), Err(Denial::WhoAreYou));
        assert!(access.check(&HeaderMap::new(), Role::Anybody, false).is_ok(), "supervisors have no password");
        for bad in ["ann:viewer:secret", "ann:boss:x", ":viewer:x", "ann"] {
            assert!(bad.parse::<User>().is_err(), "{bad}");
        }
    }

    #[test]
    fn pages_of_other_servers_get_nothing() {
        let access = Access::new(Vec::new());
        let may = |all: &[(&'static str, &str)], acts| access.check(&headers(all), Role::Viewer, acts).is_ok();
        assert!(may(&[("host", "localhost:8080")], true) && may(&[("host", "127.0.0.1:8080")], false));
        assert!(may(&[("host", "[::1]:8080"), ("origin", "http://[::1]:8080")], true));
        assert!(!may(&[("host", "evil.example:8080")], false), "a name that was made to lead here");
        assert!(!may(&[("host", "localhost:8080"), ("origin", "http://evil.example")], true));
        assert!(!may(&[("host", "localhost:8080"), ("sec-fetch-site", "cross-site")], true));
    }
}
