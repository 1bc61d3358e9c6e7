//! Logins by token: who checks them, and what follows when a token runs out.
//!
//! The keys are not this crate's business: whoever owns them gives the P2PS an [`Authenticator`]. Without one, a
//! token is taken as a name is: nothing about either is checked.

use super::{Clients, Login};
use crate::CloseReason;
use crate::P2ps;
use crate::ids::{ClientId, StreamId};
use rwf::msg::Domain;
use rwf::rdm::login::{self, Authentication, name_type};
use rwf::{State, StateCode};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// The identity that a login shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user name, if that is what the login names.
    pub name: Option<&'a str>,
    /// The token, if the login is by token.
    pub token: Option<&'a str>,
    /// Where it comes from.
    pub address: IpAddr,
}

/// The identity of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// How long that holds; `None` for as long as the connection.
    pub token: Option<TokenLife>,
}

/// The life of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLife {
    /// When the next token is due, seconds since 1970: `AuthenticationTTReissue`.
    pub reissue_at: u64,
    /// When the login ends without another, in the P2PS's own time, nanoseconds.
    pub expires: u64,
}

/// Why a login is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The state code that the client gets.
    pub code: StateCode,
    /// The text that the client gets.
    pub text: String,
}

/// Says who a login is.
pub trait Authenticator: fmt::Debug + Send {
    /// Whether it knows whose a token is. Where it does not, a token is taken as a name is, and what it says of the user is not asked.
    fn reads_tokens(&self) -> bool {
        true
    }

    /// Looks at a login, or at a token that is to follow another one. `now` is the P2PS's time, nanoseconds.
    ///
    /// # Errors
    /// The login is refused.
    fn check(&mut self, now: u64, credentials: &Credentials<'_>) -> Result<Identity, Rejected>;
}

/// The logins that end by themselves.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    authenticator: Option<Box<dyn Authenticator>>,
    /// When each of them does.
    expiries: BTreeSet<(u64, ClientId)>,
}

impl Tokens {
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// Whether a login shows a token, and there is somebody who can read it.
    pub(super) fn judges(&self, request: &login::Request) -> bool {
        self.authenticator.as_ref().is_some_and(|authenticator| authenticator.reads_tokens())
            && token(request).is_some()
    }

    /// A login is over.
    pub(super) fn forget(&mut self, client: ClientId, login: &Login) {
        self.expiries.remove(&(login.expires, client));
    }

    fn follow(&mut self, client: ClientId, before: u64, after: u64) {
        self.expiries.remove(&(before, client));
        if after != u64::MAX {
            self.expiries.insert((after, client));
        }
    }
}

/// A login by token; its place in the request depends on the kind.
fn token(request: &login::Request) -> Option<&str> {
    match request.name_type {
        Some(name_type::AUTHENTICATION_TOKEN) => Some(request.authentication_token.as_deref().unwrap_or("")),
        Some(name_type::TOKEN | name_type::COOKIE) => Some(&request.name),
        _ => request.authentication_token.as_deref(),
    }
}

/// The request as if it had named the user whom its token means, and what the refresh says of the token.
pub(super) fn named(request: login::Request, identity: &Identity) -> (login::Request, Authentication) {
    let Some(life) = identity.token else { return (request, Authentication::default()) };
    let request = login::Request {
        name: identity.user.clone(),
        name_type: Some(name_type::NAME),
        authentication_token: None,
        ..request
    };
    let success = Authentication {
        reissue_at: Some(life.reissue_at),
        error_code: Some(0),
        error_text: Some("Success".to_owned()),
        ..Authentication::default()
    };
    (request, success)
}

impl Clients {
    /// A client's login holds until then.
    pub(super) fn set_expiry(&mut self, client: ClientId, identity: &Identity) {
        let expires = identity.token.map_or(u64::MAX, |life| life.expires);
        let login = self.get_mut(client).and_then(|known| known.login.as_mut());
        debug_assert!(login.is_some(), "a token of one who is not logged in: {client:?}");
        if let Some(login) = login {
            let before = std::mem::replace(&mut login.expires, expires);
            self.tokens.follow(client, before, expires);
        }
    }

    /// The identity of a login.
    pub(super) fn identify(
        &mut self,
        now: u64,
        client: ClientId,
        request: &login::Request,
    ) -> Result<Identity, Rejected> {
        let token = token(request);
        let address = self.get(client).map(|known| known.info.address);
        let Some(authenticator) = &mut self.tokens.authenticator else {
            return Ok(Identity { user: request.name.clone(), token: None });
        };
        let Some(address) = address else {
            hub_items::fault!("a login of a client that is gone: {client:?}");
            return Err(Rejected { code: StateCode::USAGE_ERROR, text: String::new() });
        };
        let name = if token.is_some() { None } else { Some(request.name.as_str()) };
        let identity = authenticator.check(now, &Credentials { name, token, address })?;
        Ok(if authenticator.reads_tokens() { identity } else { Identity { user: request.name.clone(), token: None } })
    }
}

impl P2ps {
    /// Has logins checked from now on.
    pub fn authenticate_by(&mut self, authenticator: Box<dyn Authenticator>) {
        self.clients.tokens.authenticator = Some(authenticator);
    }

    /// Logs a client in that has brought its credentials by another way than a message (a cookie), on the stream of the request. It gets
    /// the refresh unasked.
    pub fn log_in(&mut self, now: u64, id: ClientId, request: login::Request) {
        self.now = now;
        if self.clients.get(id).is_some_and(|client| !client.closing && client.login.is_none()) {
            self.first_login(id, request, true);
        }
    }

    /// A token again: the same user for longer. Tells whether the login goes on.
    pub(super) fn renew_token(&mut self, client: ClientId, request: &login::Request) -> Option<Authentication> {
        if token(request).is_none() {
            return Some(Authentication::default());
        }
        let user = self.clients.get(client).and_then(|known| known.login.as_ref()).map(|login| login.name.clone());
        let renewed = self.clients.identify(self.now, client, request).and_then(|identity| {
            // A token that nobody checked says nothing of its user.
            if identity.token.is_none() || user.as_deref() == Some(identity.user.as_str()) {
                return Ok(identity);
            }
            let text = "Login Rejected. The token is another user's: log out before that one logs in.".to_owned();
            Err(Rejected { code: StateCode::NOT_ENTITLED, text })
        });
        match renewed {
            Ok(identity) => {
                self.clients.set_expiry(client, &identity);
                Some(named(request.clone(), &identity).1)
            }
            Err(rejected) => {
                self.counters.logins_refused += 1;
                self.end_login(client, StreamId(request.stream_id), rejected.code, &rejected.text);
                None
            }
        }
    }

    /// Logins whose token has run out end.
    pub(crate) fn expire_logins(&mut self) {
        while let Some(&(at, client)) = self.clients.tokens.expiries.first()
            && at <= self.now
        {
            self.clients.tokens.expiries.remove(&(at, client));
            let login = self.clients.get(client).and_then(|known| known.login.as_ref());
            debug_assert!(login.is_some_and(|login| login.expires == at), "{client:?} is not logged in by that token");
            if let Some(stream) = login.map(|login| login.stream) {
                self.counters.tokens_expired += 1;
                let text = "The token has expired: reissue the login with a new one before AuthenticationTTReissue.";
                self.end_login(client, stream, StateCode::NOT_ENTITLED, text);
            }
        }
    }

    /// Tells a client that its login is over, and closes it.
    fn end_login(&mut self, client: ClientId, stream: StreamId, code: StateCode, text: &str) {
        let state = State::new(rwf::StreamState::CLOSED, rwf::DataState::SUSPECT, code, text);
        self.send_status(client, stream, Domain::LOGIN, state);
        self.close_client(client, CloseReason::LoginRefused { text: text.to_owned() });
    }
}
