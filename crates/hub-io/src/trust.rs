//! Whom a hub lets in, and which announcements it believes.

use std::io;
use std::net::{IpAddr, SocketAddr};

use lbm_io::Transport;
use net::Network;

use super::announcement::Announcement;
use super::auth::Key;

/// The transport session that a data stream comes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The same text on both sides; it is signed.
    pub name: String,
    /// Whose datagrams carry it; `None` for one in this host's memory.
    pub from: Option<IpAddr>,
}

impl From<&Transport> for Session {
    fn from(transport: &Transport) -> Self {
        let from = match *transport {
            Transport::Lbtrm { source, .. } => Some(source),
            Transport::Lbtru { address, .. } | Transport::Tcp { address, .. } => Some(address),
            _ => None,
        };
        Self { name: transport.to_string(), from: from.map(IpAddr::V4) }
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        // LBM's names of sessions have the address in them.
        match self.from.filter(|_| self.name.starts_with("AERON:")) {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

/// Whom a hub lets in: the holders of its key, if it has one, from the networks that are allowed, if they are named.
#[derive(Debug)]
pub struct Trust {
    /// The hub's name.
    pub hub: String,
    /// The hub's key, if it has one.
    pub key: Option<Key>,
    allow: Vec<Network>,
    clock_tolerance_ms: u64,
}

impl Trust {
    /// Trust as the configuration of a hub says.
    ///
    /// # Errors
    /// The key file cannot be read; a network of `hub.allow` is none.
    pub fn new(c: &config::Hub) -> io::Result<Self> {
        let key = if c.key_file.is_empty() { None } else { Some(Key::from_file(&c.key_file)?) };
        let bad = |e: net::BadNetwork| io::Error::new(io::ErrorKind::InvalidInput, format!("hub.allow: {e}"));
        let allow = c.allow.iter().map(|text| text.parse().map_err(bad)).collect::<io::Result<_>>()?;
        Ok(Self { hub: c.name.clone(), key, allow, clock_tolerance_ms: u64::from(c.clock_tolerance_s) * 1_000 })
    }

    /// Whether an address is in a network that is let in.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(address))
    }

    /// Why an announcement that was heard in a transport session is not to be believed. `since`: the time of the last one of its
    /// name that was.
    pub fn refusal(
        &self,
        announcement: &Announcement<'_>,
        incarnation: u32,
        session: &Session,
        since: u64,
    ) -> Option<String> {
        let Ok(address) = announcement.address.parse::<SocketAddr>() else {
            return Some(format!("it gives {} as its address", announcement.address));
        };
        let from = session.from;
        if let Some(stranger) = from.into_iter().chain([address.ip()]).find(|ip| !self.allows(*ip)) {
            return Some(format!("{stranger} is not in hub.allow"));
        }
        let key = self.key.as_ref()?;
        let Some(proof) = announcement.proof.filter(|_| announcement.is_genuine(key, &self.hub, incarnation)) else {
            return Some("it is not signed with the hub's key".to_owned());
        };
        // A stream that a daemon carries was sent in another session: in this host's memory, or in that of the sender's host.
        let carried = from.is_none() || proof.session.starts_with("LBTIPC:");
        if !carried && proof.session != session.name {
            return Some(format!("it was made for {}", proof.session));
        }
        if unix_ms().abs_diff(proof.time) > self.clock_tolerance_ms {
            return Some(format!(
                "it was made {} s away from this clock's time (hub.clock_tolerance_s)",
                unix_ms().abs_diff(proof.time) / 1_000
            ));
        }
        (proof.time <= since).then(|| "it is no newer than one that was heard".to_owned())
    }
}

/// Milliseconds of Unix time.
pub(crate) fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_names_an_address_and_no_host() {
        let trust = Trust::new(&config::Hub::default()).expect("no key");
        let session = Session { name: "any".to_owned(), from: None };
        let refusal = |address| trust.refusal(&Announcement { name: "one", address, proof: None }, 1, &session, 0);
        assert_eq!(refusal("10.1.1.5:14004"), None);
        for host in ["one.example:14004", "localhost:14004", "10.1.1.5", ""] {
            assert_eq!(refusal(host), Some(format!("it gives {host} as its address")));
        }
    }
}
