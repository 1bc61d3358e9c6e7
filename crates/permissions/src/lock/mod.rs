//! Locks: what an item demands of whoever wants to see it, in the format of DACS (`docs/wire/locks.md`).
//!
//! A lock travels as the *permission data* of a message. It names network services by number and, for each, an AND of
//! groups of PEs (permissionable entities, also called entitlement codes); within a group any one PE is enough.
//!
//! ```
//! use permissions::lock::Lock;
//!
//! let lock: Lock = "257: 1027 & (456 | 985); 300: 1".parse()?;
//! let bytes = lock.encode()?;
//! assert_eq!(Lock::decode(&bytes)?, lock);
//! assert_eq!(lock.to_string(), "257: 1027 & (456 | 985); 300: 1");
//! # Ok::<(), permissions::lock::LockError>(())
//! ```

mod combine;
mod text;

pub use combine::{combine, combine_bytes, eq_bytes, eq_meaning};

use thiserror::Error;

/// Most bytes of a lock: permission data has a length of 15 bits in RWF.
pub const MAX_LEN: usize = 0x7FFF;

const STANDARD: u8 = 3;
const TEXT: u8 = 4;
const AND: u8 = 0xA;
const OR: u8 = 0xB;
const END: u8 = 0xC;
const NEXT_SERVICE: u8 = 0xD;

/// Why bytes or text are no lock, or cannot be made one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LockError {
    /// An operator without a PE on both sides, or none that a list can have.
    #[error("byte {at}: an operator without a PE code on both of its sides")]
    BadOperator {
        /// Offset of the byte.
        at: usize,
    },
    /// The PE codes of a list do not ascend.
    #[error("the PE codes are not in ascending order: {after} follows {before}; sort them")]
    NotInOrder {
        /// A code.
        before: u32,
        /// The smaller code after it.
        after: u32,
    },
    /// Nothing to combine.
    #[error("no locks to combine: every one of them is empty")]
    NoLocks,
    /// The bytes end before the lock does.
    #[error("the lock has no end: {len} bytes without the closing nibble C")]
    NoEnd {
        /// Bytes given.
        len: usize,
    },
    /// A version that this library does not know; such a lock denies.
    #[error("version {version} is not that of a DACS lock (3, or 4 for text)")]
    UnknownVersion {
        /// The first byte.
        version: u8,
    },
    /// Not even a version and a service.
    #[error("{len} bytes are too short for a lock: version, service id and end take 4")]
    TooShort {
        /// Bytes given.
        len: usize,
    },
    /// A nibble or number that no lock has.
    #[error("byte {at}: {what}")]
    Invalid {
        /// Offset of the byte.
        at: usize,
        /// The fault.
        what: &'static str,
    },
    /// A subject-based lock where a content-based one is needed.
    #[error("a lock of version 4 (text) can be shown, but neither combined nor checked against rights")]
    TextLock,
    /// A lock that no message can carry.
    #[error("the lock would have {len} bytes; permission data holds {MAX_LEN}")]
    TooLong {
        /// Bytes of the lock.
        len: usize,
    },
    /// Text that is no expression.
    #[error("column {column}: {what}")]
    Text {
        /// Where, from 1, in characters.
        column: usize,
        /// What was expected.
        what: &'static str,
    },
}

impl LockError {
    /// The number that the lock library of DACS gives for the fault, for those who know these numbers.
    pub const fn code(&self) -> u8 {
        match self {
            Self::BadOperator { .. } => 3,
            Self::NotInOrder { .. } => 4,
            Self::TooLong { .. } => 5,
            Self::NoLocks => 6,
            Self::NoEnd { .. } => 10,
            Self::UnknownVersion { .. } => 53,
            Self::TooShort { .. } => 54,
            Self::Invalid { .. } | Self::Text { .. } => 65,
            Self::TextLock => 72,
        }
    }
}

/// How the PEs of a list are joined ([`Lock::of`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// All are needed.
    And,
    /// One is enough.
    Or,
}

/// What a lock demands of one service: a right to the service itself, and one PE of each group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceLock {
    /// The network service's number at the place where the lock was made.
    pub service: u16,
    /// All groups are needed; of each, one PE is enough. No group is empty.
    pub groups: Vec<Vec<u32>>,
}

/// A content-based lock (version 3), as it is written: `==` compares the order of services, groups and PEs, too. See
/// [`eq_meaning`] for whether two locks demand the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lock {
    /// All services are needed. A lock without any demands nothing and cannot be encoded.
    pub services: Vec<ServiceLock>,
}

/// A lock of either known version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyLock {
    /// Version 3.
    Standard(Lock),
    /// Version 4: a service and text. Real feeds do not send it; it can be shown, and denies.
    Text {
        /// The network service's number.
        service: u16,
        /// The text, mostly ASCII.
        text: Vec<u8>,
    },
}

impl AnyLock {
    /// Reads a lock of version 3 or 4.
    ///
    /// # Errors
    /// As [`Lock::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, LockError> {
        match *bytes {
            [TEXT, hi, lo, ref text @ ..] => {
                let end = text.iter().rposition(|b| *b == END << 4).ok_or(LockError::NoEnd { len: bytes.len() })?;
                Ok(Self::Text { service: u16::from_be_bytes([hi, lo]), text: text[..end].to_vec() })
            }
            _ => Lock::decode(bytes).map(Self::Standard),
        }
    }

    /// The bytes of the lock.
    ///
    /// # Errors
    /// As [`Lock::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, LockError> {
        match self {
            Self::Standard(lock) => lock.encode(),
            Self::Text { service, text } => {
                let [hi, lo] = service.to_be_bytes();
                checked_len([&[TEXT, hi, lo], text.as_slice(), &[END << 4]].concat())
            }
        }
    }
}

impl Lock {
    /// The lock of one service from a list of PEs with one operator, as DACS's `GetLock` makes it. Repeated codes are
    /// dropped; without any the lock demands the service alone.
    ///
    /// # Errors
    /// [`LockError::NotInOrder`]: the codes must ascend.
    pub fn of(service: u16, operator: Operator, pes: &[u32]) -> Result<Self, LockError> {
        if let Some(&[before, after]) = pes.array_windows().find(|[before, after]| before > after) {
            return Err(LockError::NotInOrder { before, after });
        }
        let mut pes = pes.to_vec();
        pes.dedup();
        let groups = match operator {
            _ if pes.is_empty() => Vec::new(),
            Operator::And => pes.into_iter().map(|pe| vec![pe]).collect(),
            Operator::Or => vec![pes],
        };
        Ok(Self { services: vec![ServiceLock { service, groups }] })
    }

    /// Reads a lock of version 3. Bytes after its end are ignored, as DACS does.
    ///
    /// # Errors
    /// What is wrong and where; [`LockError::TextLock`] for version 4. Never takes more memory than a few times `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, LockError> {
        match bytes {
            [STANDARD, ..] if bytes.len() >= 3 => Nibbles { bytes, at: 2 }.lock(),
            [TEXT, ..] => Err(LockError::TextLock),
            [] | [STANDARD, ..] => Err(LockError::TooShort { len: bytes.len() }),
            [version, ..] => Err(LockError::UnknownVersion { version: *version }),
        }
    }

    /// The bytes of the lock, in the order in which it stands.
    ///
    /// # Errors
    /// [`LockError::TooLong`] over [`MAX_LEN`] bytes; [`LockError::NoLocks`] without any service;
    /// [`LockError::BadOperator`] for a group without PEs.
    pub fn encode(&self) -> Result<Vec<u8>, LockError> {
        if self.services.is_empty() {
            return Err(LockError::NoLocks);
        }
        let mut out = NibbleWriter { bytes: vec![STANDARD], half: false };
        for (index, list) in self.services.iter().enumerate() {
            if index > 0 {
                out.nibble(NEXT_SERVICE);
            }
            out.half = false;
            out.bytes.extend_from_slice(&list.service.to_be_bytes());
            for (index, group) in list.groups.iter().enumerate() {
                if group.is_empty() {
                    return Err(LockError::BadOperator { at: out.bytes.len() });
                }
                if index > 0 {
                    out.nibble(AND);
                }
                for (index, pe) in group.iter().enumerate() {
                    if index > 0 {
                        out.nibble(OR);
                    }
                    out.decimal(*pe);
                }
            }
        }
        out.nibble(END);
        checked_len(out.bytes)
    }

    /// Whether `holds` (service, PE) grants suffice; `has_service` says which services are open at all.
    pub fn admits(&self, mut has_service: impl FnMut(u16) -> bool, mut holds: impl FnMut(u16, u32) -> bool) -> bool {
        self.services.iter().all(|list| {
            has_service(list.service) && list.groups.iter().all(|group| group.iter().any(|pe| holds(list.service, *pe)))
        })
    }
}

fn checked_len(bytes: Vec<u8>) -> Result<Vec<u8>, LockError> {
    if bytes.len() > MAX_LEN { Err(LockError::TooLong { len: bytes.len() }) } else { Ok(bytes) }
}

/// A reader of half bytes; `at` counts them.
struct Nibbles<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Nibbles<'_> {
    fn next(&mut self) -> Result<u8, LockError> {
        let byte = *self.bytes.get(self.at / 2).ok_or(LockError::NoEnd { len: self.bytes.len() })?;
        let nibble = if self.at.is_multiple_of(2) { byte >> 4 } else { byte & 0xF };
        self.at += 1;
        Ok(nibble)
    }

    /// A service id begins at a byte.
    fn service(&mut self) -> Result<u16, LockError> {
        let at = self.at.div_ceil(2);
        let id = self.bytes.get(at..at + 2).ok_or(LockError::NoEnd { len: self.bytes.len() })?;
        self.at = 2 * (at + 2);
        Ok(u16::from_be_bytes([id[0], id[1]]))
    }

    fn lock(&mut self) -> Result<Lock, LockError> {
        let mut services = Vec::new();
        loop {
            let (list, is_last) = self.list()?;
            services.push(list);
            if is_last {
                return Ok(Lock { services });
            }
        }
    }

    /// The list of a service, and whether the lock ends with it.
    fn list(&mut self) -> Result<(ServiceLock, bool), LockError> {
        let mut list = ServiceLock { service: self.service()?, groups: Vec::new() };
        let mut pe: Option<u32> = None;
        let mut joins_group = false;
        loop {
            let at = self.at / 2;
            let nibble = self.next()?;
            match nibble {
                0..=9 => {
                    let number = pe.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(nibble.into()));
                    pe = Some(number.ok_or(LockError::Invalid { at, what: "a PE code over 4294967295" })?);
                }
                AND..=NEXT_SERVICE => {
                    let is_end = nibble >= END;
                    match (pe.take(), list.groups.last_mut()) {
                        (Some(pe), Some(group)) if joins_group => group.push(pe),
                        (Some(pe), _) => list.groups.push(vec![pe]),
                        // A service without PEs; but after an operator a PE has to follow.
                        (None, None) if is_end => {}
                        (None, _) => return Err(LockError::BadOperator { at }),
                    }
                    if is_end {
                        return Ok((list, nibble == END));
                    }
                    joins_group = nibble == OR;
                }
                _ => return Err(LockError::Invalid { at, what: "a nibble E or F, which no lock has" }),
            }
        }
    }
}

/// A writer of half bytes; the low half of the last byte is free while `half` is set.
struct NibbleWriter {
    bytes: Vec<u8>,
    half: bool,
}

impl NibbleWriter {
    fn nibble(&mut self, nibble: u8) {
        match self.bytes.last_mut() {
            Some(last) if self.half => *last |= nibble,
            _ => self.bytes.push(nibble << 4),
        }
        self.half = !self.half;
    }

    fn decimal(&mut self, number: u32) {
        if number >= 10 {
            self.decimal(number / 10);
        }
        self.nibble((number % 10) as u8);
    }
}
