//! What makes two requests ask for the same item.
//!
//! An item is named by its service, its domain, the whole message key and the quality of service that was matched. All
//! but the service make up an [`ItemKey`]; its *canonical bytes* are equal exactly if the keys are, so that tables store
//! and compare bytes, and the key can be read back from them to ask a provider again.

use crate::hash_seed::HashSeed;
use rwf::msg::{Attrib, Domain, MsgKey};
use rwf::{DataType, Qos, Rate, Timeliness};
use std::fmt;

/// Name type of an instrument name; a name without a type has this one (ETA `InstrumentNameTypes.RIC`).
pub const NAME_TYPE_RIC: u8 = 1;

/// Quality of service in the form a key compares: numbers as in RWF's `QoS`, the infos 0 unless timeliness or rate says
/// that they count. All zero: none was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KeyQos {
    /// ETA `QosTimeliness`; 0 is unspecified.
    pub timeliness: u8,
    /// ETA `QosRates`; 0 is unspecified.
    pub rate: u8,
    /// Delay, for timeliness 3 (delayed).
    pub time_info: u16,
    /// Interval, for rate 3 (time conflated).
    pub rate_info: u16,
}

/// The item that a request names, apart from its service. Borrows from the request, or from canonical bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ItemKey<'a> {
    /// Domain (message model type).
    pub domain: u8,
    /// Matched quality of service.
    pub qos: KeyQos,
    /// Name type; [`NAME_TYPE_RIC`] if the request has a name without one, `None` without a name.
    pub name_type: Option<u8>,
    /// Name.
    pub name: Option<&'a [u8]>,
    /// Filter.
    pub filter: Option<u32>,
    /// Identifier.
    pub identifier: Option<i32>,
    /// Attributes: container type (`rwf::DataType` number) and bytes.
    pub attrib: Option<(u8, &'a [u8])>,
}

impl From<Qos> for KeyQos {
    fn from(qos: Qos) -> Self {
        Self {
            timeliness: qos.timeliness.0,
            rate: qos.rate.0,
            time_info: if qos.timeliness > Timeliness::DELAYED_UNKNOWN { qos.time_info } else { 0 },
            rate_info: if qos.rate > Rate::JIT_CONFLATED { qos.rate_info } else { 0 },
        }
    }
}

impl KeyQos {
    /// The quality to write into a message; `None` if none was asked for.
    pub fn to_qos(self) -> Option<Qos> {
        (self != Self::default()).then(|| Qos {
            time_info: self.time_info,
            rate_info: self.rate_info,
            ..Qos::new(Timeliness(self.timeliness), Rate(self.rate))
        })
    }
}

const HAS_NAME: u8 = 0x01;
const HAS_FILTER: u8 = 0x02;
const HAS_IDENTIFIER: u8 = 0x04;
const HAS_ATTRIB: u8 = 0x08;
const HAS_QOS: u8 = 0x10;
const HAS_QOS_INFO: u8 = 0x20;
const HAS_NAME_TYPE: u8 = 0x40;
const ALL_BITS: u8 = 0x7F;

impl<'a> ItemKey<'a> {
    /// The item that a message's key names. An empty name is none.
    pub fn new(domain: Domain, key: &MsgKey<'a>, qos: Option<Qos>) -> Self {
        let name = key.name.filter(|name| !name.is_empty());
        Self {
            domain: domain.0,
            qos: qos.map(KeyQos::from).unwrap_or_default(),
            name_type: name.map(|_| key.name_type.unwrap_or(NAME_TYPE_RIC)),
            name,
            filter: key.filter,
            identifier: key.identifier,
            attrib: key.attrib.map(|attrib| (attrib.container.0, attrib.data)),
        }
    }

    /// The key to write into a message to a provider that knows the service by this id.
    pub fn msg_key(&self, service_id: u16) -> MsgKey<'a> {
        MsgKey {
            service_id: Some(service_id),
            name: self.name,
            name_type: self.name_type,
            filter: self.filter,
            identifier: self.identifier,
            attrib: self.attrib.map(|(container, data)| Attrib::new(DataType(container), data)),
            ..MsgKey::EMPTY
        }
    }

    /// Appends the canonical bytes: a byte of presence bits, the domain, then the members that are there; the name
    /// comes last or has its length in front.
    pub fn write(&self, out: &mut Vec<u8>) {
        let qos = self.qos;
        let has_info = qos.time_info != 0 || qos.rate_info != 0;
        // The usual name type costs nothing: 40 bytes a key become 39 a hundred thousand times over.
        let other_type = self.name_type.filter(|&t| t != NAME_TYPE_RIC && self.name.is_some());
        let is_more =
            other_type.is_some() || self.filter.is_some() || self.identifier.is_some() || self.attrib.is_some();
        if !is_more && !has_info {
            return self.write_plain(out);
        }
        let mut bits = 0;
        for (bit, present) in [
            (HAS_NAME, self.name.is_some()),
            (HAS_NAME_TYPE, other_type.is_some()),
            (HAS_FILTER, self.filter.is_some()),
            (HAS_IDENTIFIER, self.identifier.is_some()),
            (HAS_ATTRIB, self.attrib.is_some()),
            (HAS_QOS, qos.timeliness != 0 || qos.rate != 0),
            (HAS_QOS_INFO, has_info),
        ] {
            if present {
                bits |= bit;
            }
        }
        out.extend_from_slice(&[bits, self.domain]);
        if bits & HAS_QOS != 0 {
            out.extend_from_slice(&[qos.timeliness, qos.rate]);
        }
        if has_info {
            out.extend_from_slice(&qos.time_info.to_le_bytes());
            out.extend_from_slice(&qos.rate_info.to_le_bytes());
        }
        out.extend(other_type);
        if let Some(filter) = self.filter {
            out.extend_from_slice(&filter.to_le_bytes());
        }
        if let Some(identifier) = self.identifier {
            out.extend_from_slice(&identifier.to_le_bytes());
        }
        if let Some((container, bytes)) = self.attrib {
            out.push(container);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(self.name.unwrap_or_default());
    }

    /// The bytes of what nearly all keys are: a name of the usual type, perhaps in a quality without details.
    #[inline]
    fn write_plain(&self, out: &mut Vec<u8>) {
        let name = self.name.unwrap_or_default();
        let has_qos = self.qos.timeliness != 0 || self.qos.rate != 0;
        let bits = if self.name.is_some() { HAS_NAME } else { 0 } | if has_qos { HAS_QOS } else { 0 };
        let head = [bits, self.domain, self.qos.timeliness, self.qos.rate];
        out.reserve(head.len() + name.len());
        out.extend_from_slice(if has_qos { &head } else { &head[..2] });
        out.extend_from_slice(name);
    }

    /// Reads canonical bytes back; `None` if no key has these bytes.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&[bits, domain], rest) = bytes.split_first_chunk::<2>()?;
        if bits & !HAS_QOS != HAS_NAME {
            return Self::read_any(bits, domain, rest);
        }
        // See `write_plain`.
        let mut key = Self { domain, name_type: Some(NAME_TYPE_RIC), name: Some(rest), ..Self::default() };
        if bits & HAS_QOS != 0 {
            let (&[timeliness, rate], name) = rest.split_first_chunk::<2>()?;
            (key.qos.timeliness, key.qos.rate, key.name) = (timeliness, rate, Some(name));
        }
        Some(key)
    }

    fn read_any(bits: u8, domain: u8, mut rest: &'a [u8]) -> Option<Self> {
        if bits & !ALL_BITS != 0 {
            return None;
        }
        let has = |bit| bits & bit != 0;
        let mut key = Self { domain, ..Self::default() };
        if has(HAS_QOS) {
            [key.qos.timeliness, key.qos.rate] = take(&mut rest)?;
        }
        if has(HAS_QOS_INFO) {
            key.qos.time_info = u16::from_le_bytes(take(&mut rest)?);
            key.qos.rate_info = u16::from_le_bytes(take(&mut rest)?);
        }
        if has(HAS_NAME_TYPE) {
            let [name_type] = take(&mut rest)?;
            key.name_type = Some(name_type);
        } else if has(HAS_NAME) {
            key.name_type = Some(NAME_TYPE_RIC);
        }
        if has(HAS_FILTER) {
            key.filter = Some(u32::from_le_bytes(take(&mut rest)?));
        }
        if has(HAS_IDENTIFIER) {
            key.identifier = Some(i32::from_le_bytes(take(&mut rest)?));
        }
        if has(HAS_ATTRIB) {
            let [container] = take(&mut rest)?;
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (bytes, behind) = rest.split_at_checked(length)?;
            key.attrib = Some((container, bytes));
            rest = behind;
        }
        if has(HAS_NAME) {
            key.name = Some(rest);
        } else if !rest.is_empty() {
            return None;
        }
        Some(key)
    }

    /// The quality in canonical bytes, without a look at the rest; unspecified if no key has these bytes.
    pub fn qos_of(bytes: &[u8]) -> KeyQos {
        let Some((&[bits, _], mut rest)) = bytes.split_first_chunk::<2>() else { return KeyQos::default() };
        let mut qos = KeyQos::default();
        if bits & HAS_QOS != 0 {
            [qos.timeliness, qos.rate] = take(&mut rest).unwrap_or_default();
        }
        if bits & HAS_QOS_INFO != 0 {
            qos.time_info = u16::from_le_bytes(take(&mut rest).unwrap_or_default());
            qos.rate_info = u16::from_le_bytes(take(&mut rest).unwrap_or_default());
        }
        qos
    }

    /// The canonical bytes in a vector of their own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.name.map_or(0, <[u8]>::len));
        self.write(&mut out);
        out
    }
}

impl fmt::Display for ItemKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{}", name.escape_ascii())?,
            None => write!(f, "(no name)")?,
        }
        write!(f, " (domain {})", self.domain)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// Hash of an item: of its service and its canonical bytes, under the seed of its table. Not stable between releases.
///
/// The service is mixed in after the keyed hash, which takes the bytes in one piece (half the instructions of two pieces): the
/// hashes of one key under two services differ, and who does not know the seed learns nothing from by how much. 32 bits are kept:
/// enough to tell 2^25 buckets and 128 tags apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemHash(u32);

impl ItemHash {
    /// Hashes; dear in comparison (about 130 instructions), so done once a request.
    pub fn new(seed: HashSeed, service: u16, canonical: &[u8]) -> Self {
        Self((seed.hash_bytes(canonical) >> 32) as u32 ^ u32::from(service).wrapping_mul(0x9e37_79b9))
    }

    /// All of it.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

/// Canonical bytes behind their hash: what an item keeps. A table that grows or gives an item up hashes nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct HashedKey(Store);

/// Most keys are short, and lie in the item itself.
#[derive(Clone, PartialEq, Eq)]
enum Store {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

/// A store is as large as the two words of a box and one more.
const SHORT: usize = 22;
const _: () = assert!(size_of::<HashedKey>() == 24);

const HASH_BYTES: usize = size_of::<u32>();

impl Default for HashedKey {
    fn default() -> Self {
        Self(Store::Short { length: 0, bytes: [0; SHORT] })
    }
}

impl HashedKey {
    /// The canonical bytes of a key, and their hash with those of its service.
    pub fn new(hash: ItemHash, canonical: &[u8]) -> Self {
        let (hash, length) = (hash.0.to_ne_bytes(), HASH_BYTES + canonical.len());
        let mut bytes = [0; SHORT];
        if let Some(room) = bytes.get_mut(..length) {
            room[..HASH_BYTES].copy_from_slice(&hash);
            room[HASH_BYTES..].copy_from_slice(canonical);
            return Self(Store::Short { length: length as u8, bytes });
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&hash);
        bytes.extend_from_slice(canonical);
        Self(Store::Long(bytes.into_boxed_slice()))
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Store::Short { length, bytes } => &bytes[..usize::from(*length)],
            Store::Long(bytes) => bytes,
        }
    }

    /// The canonical bytes; none of the default.
    #[inline]
    pub fn canonical(&self) -> &[u8] {
        self.bytes().get(HASH_BYTES..).unwrap_or_default()
    }

    /// Hash of the canonical bytes, `None` for the default.
    #[inline]
    pub fn hash(&self) -> Option<ItemHash> {
        Some(ItemHash(u32::from_ne_bytes(*self.bytes().first_chunk()?)))
    }

    /// Whether this is the default, which is no item's key.
    pub fn is_none(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Whether the key has this hash and these bytes.
    #[inline]
    pub fn is(&self, hash: ItemHash, canonical: &[u8]) -> bool {
        self.hash() == Some(hash) && *self.canonical() == *canonical
    }

    /// Whether the key has this name. A name stands last, so that keys with another end are not read.
    pub fn is_of_name(&self, name: &[u8]) -> bool {
        let canonical = self.canonical();
        canonical.ends_with(name) && ItemKey::read(canonical).is_some_and(|key| key.name == Some(name))
    }
}

impl fmt::Debug for HashedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.canonical(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn ibm() -> ItemKey<'static> {
        let qos = KeyQos { timeliness: 1, rate: 1, ..KeyQos::default() };
        ItemKey { domain: 6, qos, name_type: Some(1), name: Some(b"IBM.N"), ..ItemKey::default() }
    }

    #[test]
    fn a_usual_key_costs_four_bytes_beside_its_name() {
        assert_eq!(ibm().to_bytes(), b"\x11\x06\x01\x01IBM.N");
    }

    #[test]
    fn an_empty_name_is_not_no_name() {
        let none = ItemKey { domain: 6, ..ItemKey::default() };
        let empty = ItemKey { name: Some(b""), name_type: Some(1), ..none };
        assert_ne!(none.to_bytes(), empty.to_bytes());
        assert_eq!(ItemKey::read(&empty.to_bytes()), Some(empty));
    }

    #[test]
    fn each_member_makes_another_item() {
        let base = ibm();
        let others = [
            ItemKey { domain: 7, ..base },
            ItemKey { name_type: Some(2), ..base },
            ItemKey { name: Some(b"IBM.L"), ..base },
            ItemKey { filter: Some(0), ..base },
            ItemKey { identifier: Some(0), ..base },
            ItemKey { attrib: Some((133, b"")), ..base },
            ItemKey { qos: KeyQos { rate: 2, ..base.qos }, ..base },
            ItemKey { qos: KeyQos::default(), ..base },
        ];
        for other in others {
            assert_ne!(other.to_bytes(), base.to_bytes(), "{other:?}");
            assert_eq!(ItemKey::read(&other.to_bytes()), Some(other));
            assert_eq!(ItemKey::qos_of(&other.to_bytes()), other.qos);
        }
        let seed = HashSeed::new(1, 2);
        assert_ne!(ItemHash::new(seed, 1, &base.to_bytes()), ItemHash::new(seed, 2, &base.to_bytes()));
    }

    #[test]
    fn a_key_of_any_length_is_kept_with_its_hash() {
        let seed = HashSeed::new(1, 2);
        assert!(HashedKey::default().is_none() && HashedKey::default().hash().is_none());
        for length in 0..64 {
            let canonical: Vec<u8> = (0..length).collect();
            let hash = ItemHash::new(seed, 1, &canonical);
            let key = HashedKey::new(hash, &canonical);
            assert_eq!((key.canonical(), key.hash()), (&canonical[..], Some(hash)));
            assert!(key.is(hash, &canonical) && !key.is(hash, &[&canonical[..], b"x"].concat()) && !key.is_none());
            assert_eq!(matches!(key.0, Store::Short { .. }), usize::from(length) + HASH_BYTES <= SHORT);
        }
    }

    /// Names of 12 bytes whose last eight make a factor of the unseeded hash zero: all of them have one hash there.
    fn names_of_one_hash() -> impl Iterator<Item = [u8; 12]> {
        const SECOND_FACTOR: u64 = 0x1319_8a2e_0370_7344;
        (0..20_000_u32).map(|n| {
            let mut name = [0; 12];
            name[..4].copy_from_slice(&n.to_le_bytes());
            name[4..].copy_from_slice(&SECOND_FACTOR.to_le_bytes());
            name
        })
    }

    #[test]
    fn an_item_keeps_its_key_and_its_hash() {
        let bytes = ibm().to_bytes();
        let hash = ItemHash::new(HashSeed::new(1, 2), 1, &bytes);
        let key = HashedKey::new(hash, &bytes);
        assert_eq!((key.canonical(), key.hash(), key.is_none()), (&bytes[..], Some(hash), false));
        assert!(key.is(hash, &bytes) && !key.is(hash, &bytes[1..]));
        let none = HashedKey::default();
        assert_eq!((none.canonical(), none.hash(), none.is_none()), (&[][..], None, true));
    }

    #[test]
    fn names_that_a_client_chose_to_collide_do_not() {
        let keys = || names_of_one_hash().map(|name| ItemKey { name: Some(&name), ..ibm() }.to_bytes());
        let unseeded = |key: Vec<u8>| {
            use std::hash::Hasher as _;
            let mut hasher = rustc_hash::FxHasher::default();
            hasher.write_u16(1);
            hasher.write(&key);
            hasher.finish()
        };
        let before: HashSet<u64> = keys().map(unseeded).collect();
        assert_eq!(before.len(), 1, "the attack that the seed is against");
        let seed = HashSeed::new(3, 4);
        let hashed = |seed| -> HashSet<u32> { keys().map(|key| ItemHash::new(seed, 1, &key).bits()).collect() };
        let (hashes, other) = (hashed(seed), hashed(HashSeed::new(3, 5)));
        // Of 20,000 numbers of 32 bits one pair in twenty such runs is the same by chance.
        assert!(hashes.len() >= 19_999, "{}", hashes.len());
        assert!(hashes.intersection(&other).count() <= 1, "what one instance reveals is of no use at another");
    }

    type Bytes = Option<(u8, Vec<u8>)>;

    fn any_key() -> impl Strategy<Value = (u8, [u16; 4], Bytes, Option<u32>, Option<i32>, Bytes)> {
        let bytes = || prop::option::of((any::<u8>(), prop::collection::vec(any::<u8>(), 0..20)));
        (any::<u8>(), any::<[u16; 4]>(), bytes(), any::<Option<u32>>(), any::<Option<i32>>(), bytes())
    }

    proptest! {
        #[test]
        fn every_key_comes_back_from_its_bytes((domain, qos, name, filter, identifier, attrib) in any_key()) {
            let qos = KeyQos { timeliness: qos[0] as u8, rate: qos[1] as u8, time_info: qos[2], rate_info: qos[3] };
            let key = ItemKey {
                domain,
                qos,
                name_type: name.as_ref().map(|n| n.0),
                name: name.as_ref().map(|n| &n.1[..]),
                filter,
                identifier,
                attrib: attrib.as_ref().map(|(container, bytes)| (*container, &bytes[..])),
            };
            let bytes = key.to_bytes();
            prop_assert_eq!(ItemKey::read(&bytes), Some(key));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(key) = ItemKey::read(&bytes) {
                prop_assert!(key.name.unwrap_or_default().len() <= bytes.len());
            }
        }
    }
}
