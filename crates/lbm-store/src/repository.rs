//! Limits that a source asks of its stores for its messages, beside what the stores are told themselves.

/// Bytes of the settings on the wire.
const LENGTH: usize = 29;
/// Flag: acknowledged as soon as it has come.
const ON_RECEPTION: u8 = 1;

/// See the module. 0 of all: as the store is told itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// Bytes of messages held at most: `ume_repository_size_limit`. A store holds no more than it is told itself.
    pub size_limit: u64,
    /// Messages that all pacing receivers have consumed stay while no more than so many bytes are held: `ume_repository_size_threshold`.
    pub size_threshold: u64,
    /// Bytes held at most by a store that has a disk, which holds the same there and in memory: `ume_repository_disk_file_size_limit`.
    pub disk_size_limit: u64,
    /// Where receivers pace, a message is written to the disk after so many milliseconds, and not at all if all have consumed it before:
    /// `ume_write_delay`.
    pub write_delay_ms: u32,
    /// A message is acknowledged when it has come, whether or not the disk has it: `ume_repository_ack_on_reception`.
    pub ack_on_reception: bool,
}

impl Repository {
    /// Bytes held at most by a store that holds no more than `own`, and has a disk or not.
    pub fn limit(&self, own: usize, has_disk: bool) -> usize {
        let disk = if has_disk { self.disk_size_limit } else { 0 };
        let said = [self.size_limit, disk].into_iter().filter(|bytes| *bytes > 0).min();
        said.map_or(own, |bytes| own.min(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    /// As it stands on the wire: flags u8, then three times u64 and u32 in the order above.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[0] = if self.ack_on_reception { ON_RECEPTION } else { 0 };
        for (place, bytes) in
            out[1..25].chunks_exact_mut(8).zip([self.size_limit, self.size_threshold, self.disk_size_limit])
        {
            place.copy_from_slice(&bytes.to_be_bytes());
        }
        out[25..].copy_from_slice(&self.write_delay_ms.to_be_bytes());
        out
    }

    /// Reads it; `None`: it is too short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (sizes, rest) = rest.split_first_chunk::<24>()?;
        let size = |at: usize| sizes[at..].first_chunk::<8>().map_or(0, |size| u64::from_be_bytes(*size));
        Some(Self {
            size_limit: size(0),
            size_threshold: size(8),
            disk_size_limit: size(16),
            write_delay_ms: u32::from_be_bytes(*rest.first_chunk::<4>()?),
            ack_on_reception: flags & ON_RECEPTION != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_and_the_least_limit_counts() {
        let said = Repository {
            size_limit: 1 << 40,
            size_threshold: 7,
            disk_size_limit: 500,
            write_delay_ms: 30,
            ack_on_reception: true,
        };
        assert_eq!(Repository::decode(&said.encode()), Some(said));
        assert_eq!(Repository::decode(&said.encode()[..LENGTH - 1]), None);
        assert_eq!((said.limit(1_000, true), said.limit(1_000, false), said.limit(100, true)), (500, 1_000, 100));
        assert_eq!(Repository::default().limit(9, true), 9);
    }
}
