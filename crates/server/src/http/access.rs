//! Access to HTTP: users who may look, and those who may act.
//!
//! A process that listens on the loopback without users lets everybody act who is on the machine; requests that another page has a
//! browser send are told by their `Host`, `Origin` and `Sec-Fetch-Site` and refused. What of these cannot be read, or stands there twice, is
//! a stranger's. With users, each request carries a name and a password (HTTP Basic). Whoever may open the Unix socket is an operator.

use std::sync::{PoisonError, RwLock};

use config::{Role, User};
use hyper::http::Version;
use hyper::{HeaderMap, Uri};
use rssl::ws::pages::{Host, Origin};

use super::passwords::{Caller, Passwords, Wrong};
use super::places::Whose;

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// A name and a password are wanted, or others.
    WhoAreYou,
    /// The user may not.
    MayNot,
    /// The browser of somebody sends it for a page of another server.
    Foreign,
    /// The request does not say which server it is for, or says it in two ways.
    NoHost,
    /// The address has tried too many passwords.
    TooMany,
    /// Too many passwords wait to be checked.
    Busy,
}

/// A request, as far as it says who sends it.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) uri: &'a Uri,
    pub(super) version: Version,
    /// The request is to change something.
    pub(super) acts: bool,
    pub(super) whose: Whose,
}

impl<'a> Sent<'a> {
    /// The value of a field that may stand there once.
    fn only(&self, name: &str) -> Result<Option<&'a str>, ()> {
        let mut all = self.headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(drop),
            _ => Err(()),
        }
    }

    /// The server that it is for. Only programs of before HTTP/1.1 need not say it, and no browser is one.
    fn host(&self) -> Result<Option<Host>, Denial> {
        let said = self.only("host").map_err(|()| Denial::NoHost)?;
        let own = said.map(str::parse::<Host>).transpose().map_err(|_| Denial::NoHost)?;
        let Some(authority) = self.uri.authority() else {
            return if own.is_some() || self.version < Version::HTTP_11 { Ok(own) } else { Err(Denial::NoHost) };
        };
        let named: Host = authority.as_str().parse().map_err(|_| Denial::NoHost)?;
        if own.is_some_and(|own| own != named) { Err(Denial::NoHost) } else { Ok(Some(named)) }
    }

    /// Whether a page of another server has the browser send it, as far as browsers say.
    fn is_foreign(&self, host: Option<&Host>, origins: &[Origin]) -> bool {
        let (Ok(site), Ok(mode), Ok(origin)) =
            (self.only("sec-fetch-site"), self.only("sec-fetch-mode"), self.only("origin"))
        else {
            return true;
        };
        // A link on another page may lead to this one.
        let is_link = !self.acts && mode == Some("navigate");
        let is_own_site = match site {
            None | Some("same-origin" | "none") => true,
            Some("same-site" | "cross-site") => is_link,
            Some(_) => false,
        };
        let is_own_page = |origin: &str| {
            let origin = origin.parse::<Origin>().ok();
            origin.is_some_and(|origin| {
                host.is_some_and(|host| origin == Origin::of("http", host)) || origins.contains(&origin)
            })
        };
        !is_own_site || !origin.is_none_or(is_own_page)
    }
}

/// The rules.
pub(super) struct Access {
    passwords: Passwords,
    /// Where the page is, beside where it is asked for.
    origins: RwLock<Vec<Origin>>,
}

impl Access {
    pub(super) fn new(users: Vec<User>, origins: Vec<Origin>) -> Self {
        Self { passwords: Passwords::new(users), origins: RwLock::new(origins) }
    }

    /// Others may look and act from now on.
    pub(super) fn set(&self, users: Vec<User>, origins: Vec<Origin>) {
        self.passwords.set_users(users);
        *self.origins.write().unwrap_or_else(PoisonError::into_inner) = origins;
    }

    /// The sender of a request, if that user may do what `needed` may.
    pub(super) async fn check(&self, sent: Sent<'_>, needed: Role) -> Result<Caller, Denial> {
        let is_open = !self.passwords.has_users();
        self.is_of_a_page(&sent, is_open, needed)?;
        if is_open {
            return Ok(Caller { name: "local".to_owned(), role: Role::Operator });
        }
        if needed == Role::Anybody {
            return Ok(Caller { name: String::new(), role: Role::Anybody });
        }
        let given = sent.only("authorization").ok().flatten().ok_or(Denial::WhoAreYou)?;
        let caller = self.passwords.caller(given, sent.whose).await.map_err(|wrong| match wrong {
            Wrong::Nobody => Denial::WhoAreYou,
            Wrong::TooMany => Denial::TooMany,
            Wrong::Busy => Denial::Busy,
        })?;
        if caller.role >= needed { Ok(caller) } else { Err(Denial::MayNot) }
    }

    /// Whether it is none, or one that this process shows.
    fn is_of_a_page(&self, sent: &Sent<'_>, is_open: bool, needed: Role) -> Result<(), Denial> {
        let host = sent.host()?;
        let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
        let is_listed = |host: &Host| {
            origins.iter().any(|own| *own == Origin::of("https", host) || *own == Origin::of("http", host))
        };
        // A name of another server may lead to the loopback: then it is that server's pages that ask. With users the browser has no password
        // for that name.
        let leads_here = |host: &Host| !is_open || host.is_loopback() || is_listed(host);
        if host.as_ref().is_some_and(|host| !leads_here(host)) {
            return Err(Denial::Foreign);
        }
        if needed != Role::Anybody && sent.is_foreign(host.as_ref(), &origins) {
            return Err(Denial::Foreign);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &Access, needed: Role, acts: bool, fields: &[(&str, &[u8])]) -> Result<Role, Denial> {
        check_at(access, needed, acts, fields, "/api/v1/process", Version::HTTP_11)
    }

    fn check_at(
        access: &Access,
        needed: Role,
        acts: bool,
        fields: &[(&str, &[u8])],
        uri: &str,
        version: Version,
    ) -> Result<Role, Denial> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            headers.append(name, hyper::header::HeaderValue::from_bytes(value).unwrap());
        }
        let (uri, whose) = (uri.parse().unwrap(), Whose::of([127, 0, 0, 1].into()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let sent = Sent { headers: &headers, uri: &uri, version, acts, whose };
        runtime.block_on(access.check(sent, needed)).map(|caller| caller.role)
    }

    #[test]
    fn pages_of_other_servers_get_nothing() {
        let access = Access::new(Vec::new(), Vec::new());
        let may = |acts, fields: &[(&str, &[u8])]| check(&access, Role::Viewer, acts, fields).is_ok();
        assert!(may(true, &[("host", b"localhost:8080")]) && may(false, &[("host", b"127.0.0.1:8080")]));
        assert!(may(true, &[("host", b"[::1]:8080"), ("origin", b"http://[::1]:8080")]));
        assert!(may(
            true,
            &[("host", b"localhost:8080"), ("origin", b"http://LOCALHOST:8080"), ("sec-fetch-site", b"same-origin")]
        ));
        assert!(may(
            false,
            &[("host", b"localhost"), ("sec-fetch-site", b"cross-site"), ("sec-fetch-mode", b"navigate")]
        ));
        let strangers: [&[u8]; 20] = [
            b"http://evil.example",
            b"null",
            b"",
            b"https://localhost:8080",
            b"http://localhost",
            b"http://localhost:80800",
            b"http://localhost:8080/",
            b"http://localhost:8080.",
            b"http://localhost.:8080",
            b"http://a@localhost:8080",
            b"localhost:8080",
            b"//localhost:8080",
            b"http:localhost:8080",
            b"ws://localhost:8080",
            b"http://127.0.0.1:8080",
            b"http://localhost:8081",
            b"http://localhost:8080 http://evil.example",
            b"\xff",
            b"http://localhost:8080,http://localhost:8080",
            b"*",
        ];
        for origin in strangers {
            for acts in [true, false] {
                let fields: [(&str, &[u8]); 2] = [("host", b"localhost:8080"), ("origin", origin)];
                assert!(!may(acts, &fields), "{}", String::from_utf8_lossy(origin));
            }
        }
        let own: (&str, &[u8]) = ("origin", b"http://localhost:8080");
        assert!(!may(true, &[("host", b"localhost:8080"), own, own]), "twice");
        for site in ["cross-site", "same-site", "same-origin, none", "", "?1"] {
            assert!(!may(true, &[("host", b"localhost:8080"), ("sec-fetch-site", site.as_bytes())]), "{site}");
            assert!(!may(
                true,
                &[("host", b"localhost:8080"), ("sec-fetch-site", site.as_bytes()), ("sec-fetch-mode", b"navigate")]
            ));
        }
        assert!(!may(
            false,
            &[("host", b"localhost"), ("sec-fetch-site", b"cross-site"), ("sec-fetch-mode", b"no-cors")]
        ));
    }

    #[test]
    fn a_request_says_once_which_server_it_is_for() {
        let access = Access::new(Vec::new(), vec!["https://desk.example".parse().unwrap()]);
        let at = |uri: &str, version, fields: &[(&str, &[u8])]| {
            check_at(&access, Role::Anybody, false, fields, uri, version).err()
        };
        let now = Version::HTTP_11;
        assert_eq!(
            at("/healthz", now, &[("host", b"evil.example:8080")]),
            Some(Denial::Foreign),
            "a name made to lead here"
        );
        assert_eq!(at("/healthz", now, &[]), Some(Denial::NoHost));
        assert_eq!(at("/healthz", Version::HTTP_10, &[]), None, "old programs that look after a process");
        assert_eq!(at("http://localhost/healthz", now, &[("host", b"localhost")]), None);
        assert_eq!(at("http://evil.example/healthz", now, &[("host", b"localhost")]), Some(Denial::NoHost));
        assert_eq!(at("http://evil.example/healthz", Version::HTTP_10, &[]), Some(Denial::Foreign));
        assert_eq!(at("/healthz", now, &[("host", b"localhost"), ("host", b"localhost")]), Some(Denial::NoHost));
        assert_eq!(at("/healthz", now, &[("host", b"desk.example")]), None, "the name of the proxy in front");
        let unreadable: [&[u8]; 9] = [
            b"",
            b"localhost:",
            b"localhost:0",
            b"localhost:99999",
            b"a@localhost",
            b"localhost/",
            b"127.1",
            b"localhost.",
            b"[::1",
        ];
        for host in unreadable {
            assert_eq!(
                at("/healthz", now, &[("host", host)]),
                Some(Denial::NoHost),
                "{}",
                String::from_utf8_lossy(host)
            );
        }
    }

    #[test]
    fn a_proxy_in_front_is_named_with_its_scheme() {
        let access = Access::new(Vec::new(), vec!["https://localhost:8443".parse().unwrap()]);
        let of = |origin: &[u8]| {
            check(&access, Role::Operator, true, &[("host", b"localhost:8080"), ("origin", origin)]).is_ok()
        };
        assert!(of(b"https://localhost:8443") && of(b"http://localhost:8080"));
        assert!(!of(b"http://localhost:8443") && !of(b"https://localhost:8080") && !of(b"https://localhost"));
    }

    #[test]
    fn a_role_opens_what_it_may() {
        let line = tools::ctl::password_line("ann", tools::ctl::UserRole::Viewer, "open sesame").unwrap();
        let access = Access::new(vec![line.parse().unwrap()], Vec::new());
        let host: (&str, &[u8]) = ("host", b"desk.example");
        let right: (&str, &[u8]) = ("authorization", b"Basic YW5uOm9wZW4gc2VzYW1l");
        let wrong: (&str, &[u8]) = ("authorization", b"Basic YW5uOndyb25n");
        assert_eq!(check(&access, Role::Viewer, false, &[host, right]), Ok(Role::Viewer));
        assert_eq!(check(&access, Role::Operator, true, &[host, right]), Err(Denial::MayNot));
        for fields in [&[host, wrong][..], &[host], &[host, right, wrong], &[host, wrong, right]] {
            assert_eq!(check(&access, Role::Viewer, false, fields), Err(Denial::WhoAreYou));
        }
        assert!(check(&access, Role::Anybody, false, &[host]).is_ok(), "supervisors have no password");
        let elsewhere: (&str, &[u8]) = ("origin", b"https://desk.example");
        assert_eq!(check(&access, Role::Viewer, false, &[host, right, elsewhere]), Err(Denial::Foreign));
    }
}
