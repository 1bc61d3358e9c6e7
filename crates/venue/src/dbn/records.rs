//! The records of Databento's files, and files that are in memory.

use market::Level;
use thiserror::Error;

/// No price.
pub const UNDEFINED_PRICE: i64 = i64::MAX;

/// The record is the last of its event for its instrument: the book is consistent behind it.
pub const LAST: u8 = 0x80;
/// The record is of a snapshot.
pub const SNAPSHOT: u8 = 0x20;

const HEAD: usize = 16;
/// Trades: the head of records by price, without a level.
const MBP_0: u8 = 0x00;
const MBP_1: u8 = 0x01;
const MBP_10: u8 = 0x0A;
const STATUS: u8 = 0x12;
const STATISTICS: u8 = 0x18;
const MBO: u8 = 0xA0;
/// Best prices over several venues: of each change, of each second or minute, of each trade.
const CMBP_1: u8 = 0xB1;
const CBBO_1S: u8 = 0xC0;
const CBBO_1M: u8 = 0xC1;
const TCBBO: u8 = 0xC2;
/// Best prices of each second or minute.
const BBO_1S: u8 = 0xC3;
const BBO_1M: u8 = 0xC4;

/// Bytes ahead of the levels of a record by price, and of a level.
const MBP_HEAD: usize = 48;
const MBP_LEVEL: usize = 32;
/// Levels a side of the deepest records by price.
const MBP_DEPTH: usize = 10;

/// Longest metadata that is believed.
pub(super) const LONGEST_METADATA: usize = 64 << 20;

/// Head of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Type of the record.
    pub rtype: u8,
    /// Number of publisher and data set.
    pub publisher: u16,
    /// Number of the instrument.
    pub instrument: u32,
    /// The venue's time of matching, nanoseconds since 1970 UTC.
    pub event_time_ns: u64,
}

/// A record by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbo {
    /// Head of the record.
    pub head: Head,
    /// The venue's number of the order.
    pub order: u64,
    /// Price with nine decimals.
    pub price: i64,
    /// Size.
    pub size: u32,
    /// [`LAST`], [`SNAPSHOT`] and others.
    pub flags: u8,
    /// The venue's channel.
    pub channel: u8,
    /// A add, C cancel, M modify, R clear, T trade, F fill, N none.
    pub action: u8,
    /// B bid, A ask, N none.
    pub side: u8,
    /// Time of capture, nanoseconds since 1970 UTC.
    pub receive_time_ns: u64,
    /// Number of the venue's packet.
    pub sequence: u32,
}

/// A record of the best prices, with what changed them. Samples (BBO, CBBO) have the action N and the end of their interval as event time; records
/// over several venues (CMBP, CBBO, TCBBO) neither numbers of orders nor of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbp1 {
    /// Head of the record.
    pub head: Head,
    /// Price of the change or trade.
    pub price: i64,
    /// Size of the change or trade.
    pub size: u32,
    /// As [`Mbo::action`].
    pub action: u8,
    /// As [`Mbo::side`].
    pub side: u8,
    /// As [`Mbo::flags`].
    pub flags: u8,
    /// Number of the venue's packet.
    pub sequence: u32,
    /// Best bid; price [`UNDEFINED_PRICE`]: none.
    pub bid: Level,
    /// Best ask; price [`UNDEFINED_PRICE`]: none.
    pub ask: Level,
}

/// A record of the ten best prices of each side, with what changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbp10 {
    /// The change, and the best prices.
    pub change: Mbp1,
    /// Bids and asks, the best first; price [`UNDEFINED_PRICE`]: none.
    pub levels: [[Level; 2]; MBP_DEPTH],
}

/// A trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print {
    /// Head of the record.
    pub head: Head,
    /// Price of the trade.
    pub price: i64,
    /// Size of the trade.
    pub size: u32,
    /// As [`Mbo::action`].
    pub action: u8,
    /// Who traded at once: B, A, or N.
    pub side: u8,
    /// As [`Mbo::flags`].
    pub flags: u8,
    /// Number of the venue's packet.
    pub sequence: u32,
}

/// A figure that the venue publishes of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Head of the record.
    pub head: Head,
    /// 1 opening price, 3 settlement, 9 open interest, 11 close, 17 upper and 18 lower limit, ...
    pub kind: u16,
    /// Its price; [`UNDEFINED_PRICE`]: none.
    pub price: i64,
    /// Its quantity; `None`: none.
    pub quantity: Option<i64>,
    /// 2: the venue takes it back.
    pub update_action: u8,
}

/// A state of trading in an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradingStatus {
    /// Head of the record.
    pub head: Head,
    /// 7 trading, 8 halt, 9 pause, 10 suspended, 15 not available; others before and behind trading.
    pub action: u16,
    /// Y: short sales are restricted; N: they are not; else: not told.
    pub short_sale: u8,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one record is held at a time, and copied once")]
pub enum Record {
    /// By order.
    Mbo(Mbo),
    /// Best prices.
    Mbp1(Mbp1),
    /// The ten best prices.
    Mbp10(Mbp10),
    /// A trade.
    Trade(Print),
    /// A figure of the venue.
    Statistic(Statistic),
    /// A state of trading.
    Status(TradingStatus),
    /// A record of a type that is not read, passed over.
    Other(Head),
}

/// Why bytes are no DBN, or stop being it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotDbn {
    /// The file does not begin as one.
    #[error("no DBN: the file does not begin with \"DBN\"")]
    Begin,
    /// The metadata are longer than can be.
    #[error("metadata of {0} bytes")]
    Metadata(usize),
    /// A record is shorter than its head, or than its type.
    #[error("a record of type {rtype:#04x} and {length} bytes at byte {at}")]
    Record {
        /// Type of the record.
        rtype: u8,
        /// Length of the record.
        length: usize,
        /// Where it begins, in the unpacked file.
        at: usize,
    },
}

/// Reads an unpacked file that is in memory or mapped.
#[derive(Clone, Debug)]
pub struct DbnFile<'a> {
    version: u8,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> DbnFile<'a> {
    /// Reads up to the records.
    ///
    /// # Errors
    /// The file does not begin as DBN, or ends within its metadata.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NotDbn> {
        let begin = bytes.first_chunk::<8>().filter(|begin| begin.starts_with(b"DBN")).ok_or(NotDbn::Begin)?;
        let length = u32::from_le_bytes([begin[4], begin[5], begin[6], begin[7]]) as usize;
        let at = 8 + length;
        if length > LONGEST_METADATA || at > bytes.len() {
            return Err(NotDbn::Metadata(length));
        }
        Ok(Self { version: begin[3], bytes, at })
    }

    /// The version.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Bytes behind the last whole record: not 0 when all records have been read from a file that is torn.
    pub fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next record; `None`: no whole one follows.
    ///
    /// # Errors
    /// A record's length cannot be; nothing behind it can be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, NotDbn> {
        let found = record_at(&self.bytes[self.at..], self.at)?;
        Ok(found.map(|(record, length)| {
            self.at += length;
            record
        }))
    }
}

/// The record at the beginning of `bytes`, which lie at `at` in the file, and its length; `None`: it is not whole.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Result<Option<(Record, usize)>, NotDbn> {
    let Some([words, rtype]) = bytes.first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(*words) * 4;
    let least = match *rtype {
        MBO => 56,
        MBP_0 => MBP_HEAD,
        MBP_1 | CMBP_1 | CBBO_1S | CBBO_1M | TCBBO | BBO_1S | BBO_1M => MBP_HEAD + MBP_LEVEL,
        MBP_10 => MBP_HEAD + MBP_DEPTH * MBP_LEVEL,
        STATUS => 40,
        STATISTICS => 64,
        _ => HEAD,
    };
    if length < least {
        return Err(NotDbn::Record { rtype: *rtype, length, at });
    }
    Ok(bytes.get(..length).map(|record| (read(record, *rtype), length)))
}

/// Reads a record that is as long as its type.
fn read(r: &[u8], rtype: u8) -> Record {
    let head = Head { rtype, publisher: u16_at(r, 2), instrument: u32_at(r, 4), event_time_ns: u64_at(r, 8) };
    match rtype {
        MBO => Record::Mbo(Mbo {
            head,
            order: u64_at(r, 16),
            price: u64_at(r, 24) as i64,
            size: u32_at(r, 32),
            flags: r[36],
            channel: r[37],
            action: r[38],
            side: r[39],
            receive_time_ns: u64_at(r, 40),
            sequence: u32_at(r, 52),
        }),
        MBP_0 => {
            let Mbp1 { price, size, action, side, flags, sequence, .. } = change(r, head);
            Record::Trade(Print { head, price, size, action, side, flags, sequence })
        }
        MBP_1 => Record::Mbp1(change(r, head)),
        MBP_10 => {
            let mut levels = [[NO_LEVEL; 2]; MBP_DEPTH];
            levels.iter_mut().enumerate().for_each(|(n, level)| *level = level_at(r, MBP_HEAD + n * MBP_LEVEL));
            Record::Mbp10(Mbp10 { change: change(r, head), levels })
        }
        CMBP_1 | TCBBO => Record::Mbp1(without_numbers(change(r, head))),
        CBBO_1S | CBBO_1M => Record::Mbp1(without_numbers(sample(r, head))),
        BBO_1S | BBO_1M => Record::Mbp1(sample(r, head)),
        STATUS => Record::Status(TradingStatus { head, action: u16_at(r, 24), short_sale: r[32] }),
        STATISTICS => Record::Statistic(statistic(r, head)),
        _ => Record::Other(head),
    }
}

const NO_LEVEL: Level = Level { price: UNDEFINED_PRICE, size: 0, orders: 0 };

/// Bid and ask of a pair of levels.
fn level_at(r: &[u8], at: usize) -> [Level; 2] {
    let level = |n: usize| Level {
        price: u64_at(r, at + n * 8) as i64,
        size: u64::from(u32_at(r, at + 16 + n * 4)),
        orders: u32_at(r, at + 24 + n * 4),
    };
    [level(0), level(1)]
}

/// The change of a record by price, with its first pair of levels if it has one.
fn change(r: &[u8], head: Head) -> Mbp1 {
    let [bid, ask] = if r.len() >= MBP_HEAD + MBP_LEVEL { level_at(r, MBP_HEAD) } else { [NO_LEVEL; 2] };
    Mbp1 {
        head,
        price: u64_at(r, 16) as i64,
        size: u32_at(r, 24),
        action: r[28],
        side: r[29],
        flags: r[30],
        sequence: u32_at(r, 44),
        bid,
        ask,
    }
}

/// Best prices at the end of an interval: nothing changed them then.
fn sample(r: &[u8], head: Head) -> Mbp1 {
    Mbp1 { action: b'N', head: Head { event_time_ns: u64_at(r, 32), ..head }, ..change(r, head) }
}

/// Where orders are counted in other records these have numbers of venues, and no packet has a number.
fn without_numbers(change: Mbp1) -> Mbp1 {
    let plain = |level: Level| Level { orders: 0, ..level };
    Mbp1 { sequence: 0, bid: plain(change.bid), ask: plain(change.ask), ..change }
}

/// Version 3 has quantities of 64 bits, those before of 32.
fn statistic(r: &[u8], head: Head) -> Statistic {
    let (quantity, behind) = if r.len() >= 80 {
        (Some(u64_at(r, 40) as i64).filter(|quantity| *quantity != i64::MAX), 48)
    } else {
        (Some(u32_at(r, 40) as i32).filter(|quantity| *quantity != i32::MAX).map(i64::from), 44)
    };
    let (kind, update_action) = (u16_at(r, behind + 8), r[behind + 12]);
    Statistic { head, kind, price: u64_at(r, 32) as i64, quantity, update_action }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
