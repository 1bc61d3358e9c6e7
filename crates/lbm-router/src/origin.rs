//! Names of sources across domains.

use lbm::wire::lbmr::Transport;

/// A source: its domain, transport session and topic index, in the 32 bytes that advertisements have for an originating transport id.
/// Every router makes the same of the same source, so that copies by several paths are known as such.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub [u8; 32]);

impl Origin {
    /// Of a source that was found in a domain. `None`: a kind of transport that cannot be received.
    pub fn of(domain: u32, transport: &Transport, index: u32) -> Option<Self> {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&domain.to_be_bytes());
        id[4..8].copy_from_slice(&index.to_be_bytes());
        let rest = &mut id[8..];
        let (code, session) = match *transport {
            Transport::Tcp { address, session_id, port } | Transport::Lbtru { address, session_id, port } => {
                rest[8..12].copy_from_slice(&address.octets());
                rest[12..14].copy_from_slice(&port.to_be_bytes());
                (if matches!(transport, Transport::Tcp { .. }) { 1 } else { 2 }, session_id.unwrap_or(0))
            }
            Transport::Lbtrm { source, group, session_id, destination_port, unicast_port } => {
                rest[8..12].copy_from_slice(&source.octets());
                rest[12..14].copy_from_slice(&unicast_port.to_be_bytes());
                rest[14..16].copy_from_slice(&destination_port.to_be_bytes());
                rest[16..20].copy_from_slice(&group.octets());
                (3, session_id)
            }
            Transport::Lbtipc { host, session_id, transport } => {
                rest[8..12].copy_from_slice(&host.to_be_bytes());
                rest[12..14].copy_from_slice(&transport.to_be_bytes());
                (4, session_id)
            }
            _ => return None,
        };
        rest[0] = code;
        rest[4..8].copy_from_slice(&session.to_be_bytes());
        Some(Self(id))
    }

    /// The domain in which the source is.
    pub fn domain(&self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

impl core::fmt::Debug for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Origin({}:", self.domain())?;
        self.0[4..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_differ_in_anything_have_different_names() {
        let a = [10, 0, 0, 1].into();
        let b = [10, 0, 0, 2].into();
        let mut all = Vec::new();
        for domain in [1, 2] {
            for index in [0, 7] {
                for transport in [
                    Transport::Tcp { address: a, session_id: Some(5), port: 14371 },
                    Transport::Tcp { address: a, session_id: Some(6), port: 14371 },
                    Transport::Tcp { address: b, session_id: None, port: 14371 },
                    Transport::Lbtru { address: a, session_id: Some(5), port: 14371 },
                    Transport::Lbtrm { source: a, group: b, session_id: 5, destination_port: 1, unicast_port: 2 },
                    Transport::Lbtrm { source: a, group: b, session_id: 5, destination_port: 2, unicast_port: 1 },
                    Transport::Lbtipc { host: 9, session_id: 5, transport: 1 },
                ] {
                    let origin = Origin::of(domain, &transport, index).expect("a name");
                    assert_eq!(origin.domain(), domain);
                    all.push(origin);
                }
            }
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(Origin::of(1, &Transport::Other { code: 3 }, 0), None);
    }
}
