//! A Source Distributor's announcement of itself in the heartbeats of its data stream.
//!
//! A version byte, then its name and the address of its unicast port, each behind its length in a byte. Version 2 goes on with the
//! transport session of the stream (behind its length), the time (Unix, milliseconds, u64) and a signature of 32 bytes.

use super::auth::{Key, LENGTH, Signature};

const PLAIN: u8 = 1;
const SIGNED: u8 = 2;
const LABEL: &str = "quoteway hub: announcement";

/// The sender of a data stream, and where it can be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The Source Distributor's name: the same in every life of it, and no other's.
    pub name: &'a str,
    /// `address:port` for P2PSs.
    pub address: &'a str,
    /// How it proves who it is, where the hub has a key.
    pub proof: Option<Proof<'a>>,
}

/// The label that an announcement is signed under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof<'a> {
    /// The transport session that carries the stream, as text: heard in another one, the announcement is a copy.
    pub session: &'a str,
    /// When it was made, Unix milliseconds; no two of one name have the same.
    pub time: u64,
    /// Over all of it.
    pub signature: Signature,
}

impl<'a> Announcement<'a> {
    /// The announcement's bytes. Texts over 255 bytes are not written.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![if self.proof.is_some() { SIGNED } else { PLAIN }];
        for text in [Some(self.name), Some(self.address), self.proof.map(|p| p.session)].into_iter().flatten() {
            out.push(u8::try_from(text.len()).ok()?);
            out.extend_from_slice(text.as_bytes());
        }
        if let Some(proof) = &self.proof {
            out.extend_from_slice(&proof.time.to_le_bytes());
            out.extend_from_slice(&proof.signature);
        }
        Some(out)
    }

    /// Reads it; what follows is left for later versions.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (name, rest) = text(rest)?;
        let (address, rest) = text(rest)?;
        let proof = match version {
            PLAIN => None,
            SIGNED => {
                let (session, rest) = text(rest)?;
                let (time, rest) = rest.split_first_chunk::<8>()?;
                let signature = rest.first_chunk::<LENGTH>()?;
                Some(Proof { session, time: u64::from_le_bytes(*time), signature: *signature })
            }
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { name, address, proof })
    }

    /// The same, signed with a hub's key for one life of the Source Distributor.
    #[must_use]
    pub fn signed(self, key: &Key, hub: &str, incarnation: u32, session: &'a str, time: u64) -> Self {
        let signature = key.sign(LABEL, &self.fields(hub, &incarnation.to_le_bytes(), session, &time.to_le_bytes()));
        Self { proof: Some(Proof { session, time, signature }), ..self }
    }

    /// Whether it is signed with this key, for this hub and life.
    pub fn is_genuine(&self, key: &Key, hub: &str, incarnation: u32) -> bool {
        self.proof.is_some_and(|proof| {
            let (life, time) = (incarnation.to_le_bytes(), proof.time.to_le_bytes());
            key.verify(LABEL, &self.fields(hub, &life, proof.session, &time), &proof.signature)
        })
    }

    fn fields<'f>(&'f self, hub: &'f str, life: &'f [u8], session: &'f str, time: &'f [u8]) -> [&'f [u8]; 6] {
        [hub.as_bytes(), life, self.name.as_bytes(), self.address.as_bytes(), session.as_bytes(), time]
    }
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::{Announcement, Key};

    #[test]
    fn an_announcement_reads_back_and_half_of_one_does_not() {
        let plain = Announcement { name: "feed 1", address: "10.0.0.1:14004", proof: None };
        let key = Key::new(&[1; 32]).expect("a key");
        for announcement in [plain, plain.signed(&key, "prod", 7, "LBTRM:10.0.0.1:14390:1:239.1.1.1:14400", 99)] {
            let bytes = announcement.encode().expect("short");
            assert_eq!(Announcement::decode(&bytes), Some(announcement));
            for cut in 0..bytes.len() {
                assert_eq!(Announcement::decode(&bytes[..cut]), None);
            }
        }
        assert_eq!(Announcement { name: &"n".repeat(256), ..plain }.encode(), None);
    }

    #[test]
    fn a_signed_announcement_is_nobody_else_s() {
        let plain = Announcement { name: "feed 1", address: "10.0.0.1:14004", proof: None };
        let key = Key::new(&[1; 32]).expect("a key");
        let signed = plain.signed(&key, "prod", 7, "session", 99);
        assert!(signed.is_genuine(&key, "prod", 7));
        assert!(!plain.is_genuine(&key, "prod", 7));
        assert!(!signed.is_genuine(&Key::new(&[2; 32]).expect("a key"), "prod", 7));
        assert!(!signed.is_genuine(&key, "test", 7) && !signed.is_genuine(&key, "prod", 8));
        let moved = Announcement { address: "10.0.0.66:14004", ..signed };
        assert!(!moved.is_genuine(&key, "prod", 7));
        for at in 0..signed.encode().expect("short").len() {
            let mut bytes = signed.encode().expect("short");
            bytes[at] ^= 1;
            let forged = Announcement::decode(&bytes).is_some_and(|a| a.is_genuine(&key, "prod", 7));
            assert!(!forged, "with byte {at} changed");
        }
    }
}
