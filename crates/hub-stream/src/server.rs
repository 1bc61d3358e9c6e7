//! A P2PS as a server that consumers can connect to: what it says of itself, and what others are told.

use super::{HubError, Kind};
use std::collections::BTreeSet;

/// A server that consumers can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server<'a> {
    /// Name or address by which consumers reach it, at most [`Server::HOST_MAX`] bytes; not empty.
    pub host: &'a str,
    /// Port for RSSL; not 0.
    pub rssl: u16,
    /// Port for JSON over WebSocket; 0 where it takes none.
    pub websocket: u16,
    /// How full it is, from 0 to 65,535, if it says so.
    pub load_factor: Option<u16>,
    /// How it is.
    pub health: Health,
}

/// How a server is, the best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Health {
    /// All of its services are up.
    #[default]
    Well = 0,
    /// A service is down there, or it has none.
    Impaired = 1,
    /// The server takes no new clients.
    Draining = 2,
}

/// Health, whether there is a load factor, load factor, port for RSSL, port for WebSocket, length of the host.
const HEAD: usize = 9;

impl<'a> Server<'a> {
    /// Bytes of the longest host.
    pub const HOST_MAX: usize = 255;
    /// Servers that anybody is told of at most.
    pub const MOST: usize = 64;

    /// The server's place among others: the healthiest first, of those the least loaded. One that does not say its load comes behind those that do.
    /// What is left decides so that everybody has the same order.
    pub fn rank(&self) -> (Health, u32, &'a str, u16, u16) {
        (self.health, self.load_factor.map_or(u32::MAX, u32::from), self.host, self.rssl, self.websocket)
    }

    /// The best ones in order, each once: what shards of one process say differs by their loads alone, and the best of them counts.
    pub fn best(mut servers: Vec<Self>, most: usize) -> Vec<Self> {
        servers.sort_unstable_by(|a, b| a.rank().cmp(&b.rank()));
        let mut seen = BTreeSet::new();
        servers.retain(|server| seen.insert((server.host, server.rssl)));
        servers.truncate(most);
        servers
    }

    /// Reads the first server of some bytes, and tells what follows.
    ///
    /// # Errors
    /// [`HubError::Malformed`]: the bytes are no server's.
    pub fn read(kind: Kind, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), HubError> {
        let bad = |what| HubError::Malformed { kind, what };
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(bad("server"))?;
        let &[health, has_load, load_0, load_1, rssl_0, rssl_1, websocket_0, websocket_1, length] = head;
        let health = match health {
            0 => Health::Well,
            1 => Health::Impaired,
            2 => Health::Draining,
            _ => return Err(bad("health of a server")),
        };
        let (host, rest) = rest.split_at_checked(usize::from(length)).ok_or(bad("host of a server"))?;
        // The host goes to consumers as ASCII.
        let is_printed = !host.is_empty() && host.iter().all(u8::is_ascii_graphic);
        let host = std::str::from_utf8(host).ok().filter(|_| is_printed).ok_or(bad("host of a server"))?;
        let rssl = u16::from_le_bytes([rssl_0, rssl_1]);
        if rssl == 0 {
            return Err(bad("port of a server"));
        }
        let websocket = u16::from_le_bytes([websocket_0, websocket_1]);
        let load_factor = (has_load != 0).then_some(u16::from_le_bytes([load_0, load_1]));
        Ok((Self { host, rssl, websocket, load_factor, health }, rest))
    }

    /// Reads all servers of some bytes, one behind the other.
    ///
    /// # Errors
    /// As [`Server::read`].
    pub fn read_all(kind: Kind, mut bytes: &'a [u8]) -> Result<Vec<Self>, HubError> {
        let mut servers = Vec::new();
        while !bytes.is_empty() {
            let (server, rest) = Self::read(kind, bytes)?;
            servers.push(server);
            bytes = rest;
        }
        Ok(servers)
    }

    /// Writes it behind `out`.
    ///
    /// # Panics
    /// The host is longer than [`Server::HOST_MAX`].
    pub fn write(&self, out: &mut Vec<u8>) {
        assert!(self.host.len() <= Self::HOST_MAX, "a host of {} bytes", self.host.len());
        out.extend_from_slice(&[self.health as u8, self.load_factor.is_some().into()]);
        out.extend_from_slice(&self.load_factor.unwrap_or_default().to_le_bytes());
        out.extend_from_slice(&self.rssl.to_le_bytes());
        out.extend_from_slice(&self.websocket.to_le_bytes());
        out.push(self.host.len() as u8);
        out.extend_from_slice(self.host.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_none_twice() {
        let server = |host, rssl, load_factor, health| Server { host, rssl, websocket: 0, load_factor, health };
        let (full, drains) = (server("a", 1, Some(u16::MAX), Health::Well), server("b", 1, Some(0), Health::Draining));
        let (empty, impaired, silent) = (
            server("c", 1, Some(0), Health::Well),
            server("d", 1, Some(0), Health::Impaired),
            server("e", 1, None, Health::Well),
        );
        let (shard, port) = (Server { load_factor: Some(9), ..empty }, server("c", 2, Some(0), Health::Well));
        let all = vec![full, shard, drains, empty, impaired, port, silent];
        let ordered = [empty, port, full, silent, impaired, drains];
        assert_eq!(Server::best(all.clone(), 9), ordered);
        assert_eq!(Server::best(all, 2), ordered[..2]);
    }

    #[test]
    fn servers_are_read_as_they_were_written_and_nothing_else_is() {
        let all = [
            Server { host: "p2ps1", rssl: 14_002, websocket: 15_000, load_factor: Some(65_535), health: Health::Well },
            Server { host: "fd00::7", rssl: 1, websocket: 0, load_factor: None, health: Health::Draining },
        ];
        let mut bytes = Vec::new();
        for server in all {
            server.write(&mut bytes);
        }
        fn read(bytes: &[u8]) -> Result<Vec<Server<'_>>, HubError> {
            Server::read_all(Kind::Servers, bytes)
        }
        assert_eq!(read(&bytes).expect("servers"), all);
        for end in (1..bytes.len()).filter(|&end| end != HEAD + 5) {
            assert!(read(&bytes[..end]).is_err(), "{end} bytes");
        }
        for (at, wrong) in [(0, 3), (4, 0), (8, 0), (8, 6), (9, b' '), (9, 0xFF)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            bytes[5] = if at == 4 { 0 } else { bytes[5] };
            assert!(read(&bytes).is_err(), "{wrong} at {at}");
        }
    }
}
