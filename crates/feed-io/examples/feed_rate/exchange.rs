//! An exchange that sends a generated day of TotalView-ITCH over `MoldUDP64` at a steady rate. Each message bears the time at which its datagram was
//! handed to the kernel.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use feed::new_york;
use market::Side;
use net::udp::{UdpOptions, UdpSocket};
use venue::nasdaq::itch::{AddOrder, Message};
use venue::nasdaq::mold::Header;

use super::day::{Day, Settings};

const SESSION: [u8; 10] = *b"0000000037";
const SECOND: u64 = 1_000_000_000;

/// Bytes of a packet at most: an Ethernet frame without the heads of IP and UDP.
const PACKET: usize = 1_472;

/// Where a message has its time: six bytes behind type, locate and tracking number.
const TIME: std::ops::Range<usize> = 5..11;

/// Price of the last order of each stock, in the feed's smallest unit: no whole cent, as all of the generator's are.
pub(crate) const LAST_PRICE: u32 = 51;

/// A day's messages, one behind the other.
pub(crate) struct Script {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    stocks: u16,
    /// Messages until all stocks are named and have had orders: consumers come then.
    opening: usize,
}

impl Script {
    /// A day of so many stocks, with `count` messages behind its beginning and an order at [`LAST_PRICE`] behind these for each stock. Orders live
    /// for half a second of the day at most, so that their number soon stays as it is.
    pub(crate) fn new(stocks: u16, count: usize, rate: u64) -> Self {
        let mut day = Day::new(Settings { seed: 37, stocks, longest_life: (rate / 2).max(1_000) as f64 });
        let opening = 2 * usize::from(stocks) + 1_000 + count / 20;
        let mut script = Self { bytes: Vec::new(), ends: Vec::new(), stocks, opening };
        for _ in 0..opening + count {
            script.put(&day.next());
        }
        let first = day.highest_order() + 1;
        for locate in 1..=stocks {
            let order = first + u64::from(locate);
            let (side, shares, price, stock) = (Side::Bid, 100, LAST_PRICE, Day::symbol(locate));
            script.put(&Message::AddOrder(AddOrder {
                locate,
                tracking: 0,
                time: 0,
                order,
                side,
                shares,
                stock,
                price,
            }));
        }
        script
    }

    fn put(&mut self, message: &Message) {
        message.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// All messages.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Messages that come before the consumers.
    pub(crate) fn opening(&self) -> usize {
        self.opening
    }

    /// Names of the stocks, those with the most traffic first.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.stocks).map(|locate| Day::symbol(locate).trimmed().into_owned())
    }

    fn message(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }
}

/// The exchange's lines, and how far it is.
pub(crate) struct Exchange {
    script: Script,
    socket: UdpSocket,
    lines: Vec<SocketAddrV4>,
    sent: usize,
    /// Midnight in New York, nanoseconds since 1970.
    midnight: u64,
    packet: Vec<u8>,
    /// Datagrams that the kernel had no room for at once.
    pub(crate) waits: u64,
}

impl Exchange {
    /// An exchange that has sent nothing, and sends to these addresses.
    pub(crate) fn new(script: Script, lines: Vec<SocketAddrV4>) -> std::io::Result<Self> {
        let options = UdpOptions { multicast_interface: Some(Ipv4Addr::LOCALHOST), ..UdpOptions::default() };
        let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &options)?;
        let day = (net::clock::wall() - 5 * 3_600 * SECOND) / (86_400 * SECOND);
        let midnight = day * 86_400 * SECOND + new_york::utc(day as u32, 0).time;
        Ok(Self { script, socket, lines, sent: 0, midnight, packet: Vec::new(), waits: 0 })
    }

    /// The day.
    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// Sends messages up to this number at so many a second: what is due, in as many packets as that takes, whenever the sleep between is over.
    /// `meanwhile` is called between packets, at most a thousand times a second.
    pub(crate) fn send_until(
        &mut self,
        end: usize,
        rate: u64,
        mut meanwhile: impl FnMut(&Self),
    ) -> std::io::Result<()> {
        let (begin, from) = (net::clock::now(), self.sent);
        let mut told = begin;
        while self.sent < end {
            let now = net::clock::now();
            let due = from + (u128::from(now - begin) * u128::from(rate) / u128::from(SECOND)) as usize;
            while self.sent < due.min(end) {
                self.send_packet(due.min(end))?;
            }
            if now >= told + SECOND / 1_000 {
                told = now;
                meanwhile(self);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// A packet without messages, which says how far the day is.
    pub(crate) fn beat(&mut self) -> std::io::Result<()> {
        self.packet.clear();
        self.packet.extend(Header { session: SESSION, sequence: self.sent as u64 + 1, count: 0 }.write());
        self.put()
    }

    fn send_packet(&mut self, end: usize) -> std::io::Result<()> {
        let first = self.sent;
        self.packet.clear();
        self.packet.extend([0; venue::nasdaq::mold::HEADER]);
        let stamp = (net::clock::wall() - self.midnight).to_be_bytes();
        while self.sent < end {
            let message = self.script.message(self.sent);
            if self.packet.len() + 2 + message.len() > PACKET {
                break;
            }
            self.packet.extend((message.len() as u16).to_be_bytes());
            let at = self.packet.len();
            self.packet.extend(message);
            self.packet[at + TIME.start..at + TIME.end].copy_from_slice(&stamp[2..]);
            self.sent += 1;
        }
        let head = Header { session: SESSION, sequence: first as u64 + 1, count: (self.sent - first) as u16 };
        self.packet[..venue::nasdaq::mold::HEADER].copy_from_slice(&head.write());
        self.put()
    }

    fn put(&mut self) -> std::io::Result<()> {
        for line in &self.lines {
            while !self.socket.send(Some(*line), &self.packet)? {
                self.waits += 1;
                self.socket.wait_writable(Some(Duration::from_millis(10)))?;
            }
        }
        Ok(())
    }
}

/// An address of this host that nobody has now.
pub(crate) fn free_address() -> std::io::Result<SocketAddrV4> {
    Ok(UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &UdpOptions::default())?.local_addr())
}
