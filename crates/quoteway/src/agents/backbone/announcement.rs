//! What a Source Distributor says of itself in the heartbeats of its data stream.
//!
//! A version byte (1), then its name and the address of its unicast port, each behind its length in a byte.

const VERSION: u8 = 1;

/// Who sends a data stream, and where it can be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// Its name: the same in every life of it, and no other's.
    pub name: &'a str,
    /// `address:port` for P2PSs.
    pub address: &'a str,
}

impl<'a> Announcement<'a> {
    /// Its bytes. Texts over 255 bytes are not written.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        for text in [self.name, self.address] {
            out.push(u8::try_from(text.len()).ok()?);
            out.extend_from_slice(text.as_bytes());
        }
        Some(out)
    }

    /// Reads it; what follows is left for later versions.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (name, rest) = text(rest)?;
        let (address, _) = text(rest)?;
        (version == VERSION && !name.is_empty()).then_some(Self { name, address })
    }
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::Announcement;

    #[test]
    fn an_announcement_reads_back_and_half_of_one_does_not() {
        let announcement = Announcement { name: "feed 1", address: "10.0.0.1:14004" };
        let bytes = announcement.encode().expect("short");
        assert_eq!(Announcement::decode(&bytes), Some(announcement));
        for cut in 0..bytes.len() {
            assert_eq!(Announcement::decode(&bytes[..cut]), None);
        }
        assert_eq!(Announcement { name: &"n".repeat(256), ..announcement }.encode(), None);
    }
}
