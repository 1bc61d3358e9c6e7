//! RSSL sessions out of a packet capture: TCP put together again, both directions in the order of the capture.

use super::sheet::{Envelope, Sheet};
use super::stream::Direction;
use anyhow::anyhow;
use feed::replay::packets::{Packets, TCP};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::SocketAddr;

/// Bytes that wait behind a hole before it is taken for a loss of the capture.
const BEHIND_A_HOLE: usize = 1 << 20;
/// No handshake is longer.
const HANDSHAKE_MAX: usize = 1_024;
/// Sequence numbers are compared by their distance: below this they are ahead, above it behind.
const HALF: u32 = 1 << 31;

/// One direction of a TCP connection.
#[derive(Default)]
struct Flow {
    rssl: Direction,
    /// Sequence number of the byte that comes next.
    next: Option<u32>,
    /// Segments that came early, by sequence number.
    early: BTreeMap<u32, Vec<u8>>,
    waiting: usize,
}

/// A segment: its sequence number, whether it opens the connection, and its bytes.
struct Segment<'a> {
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    opens: bool,
    bytes: &'a [u8],
}

/// Shows the messages of all RSSL connections of a capture; with a port, of all connections of that port.
///
/// # Errors
/// A text for the user.
pub(super) fn show(capture: impl Read, port: Option<u16>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut packets = Packets::new(capture)?;
    let mut flows: HashMap<(SocketAddr, SocketAddr), Flow> = HashMap::new();
    let mut begun = None;
    while let Some(packet) = packets.next_packet()? {
        let begun = *begun.get_or_insert(packet.at);
        let Some(segment) = packet.ip().filter(|ip| ip.protocol == TCP).and_then(|ip| {
            let (source, destination) = (ip.source, ip.destination);
            segment(ip.payload, source, destination)
        }) else {
            continue;
        };
        let wanted = port.is_none_or(|p| segment.from.port() == p || segment.to.port() == p);
        if !wanted {
            continue;
        }
        let at = packet.at.saturating_sub(begun) as f64 / 1e9;
        let (from, to) = (segment.from.to_string(), segment.to.to_string());
        let flow = flows.entry((segment.from, segment.to)).or_default();
        sheet.set_envelope(Envelope { at, from, to });
        flow.take(&segment, at, port.is_some(), sheet);
    }
    if sheet.messages() == 0 {
        let what = format!("no RSSL session was found in {} TCP directions", flows.len());
        let hint = "a capture must hold the beginning of the session, or name its port with --port";
        return Err(anyhow!("{what}; {hint}"));
    }
    Ok(())
}

fn segment(tcp: &[u8], source: std::net::IpAddr, destination: std::net::IpAddr) -> Option<Segment<'_>> {
    let short = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    let opens = tcp.get(13)? & 0x02 != 0;
    Some(Segment {
        from: SocketAddr::new(source, short(0)?),
        to: SocketAddr::new(destination, short(2)?),
        sequence,
        opens,
        bytes: tcp.get(header..)?,
    })
}

impl Flow {
    fn take(&mut self, segment: &Segment<'_>, at: f64, any: bool, sheet: &mut Sheet<'_>) {
        if segment.opens {
            *self = Self { next: Some(segment.sequence.wrapping_add(1)), ..Self::default() };
            return;
        }
        if segment.bytes.is_empty() {
            return;
        }
        let next = *self.next.get_or_insert(segment.sequence);
        if !any && !self.rssl.has_begun() && !looks_like_a_handshake(segment.bytes) {
            // Not RSSL as far as can be told: what follows is not followed either.
            self.next = Some(segment.sequence.wrapping_add(segment.bytes.len() as u32));
            return;
        }
        let ahead = segment.sequence.wrapping_sub(next);
        if ahead >= HALF {
            // A repetition, perhaps with something new behind it.
            let known = next.wrapping_sub(segment.sequence) as usize;
            if let Some(new) = segment.bytes.get(known..).filter(|b| !b.is_empty()) {
                self.deliver(segment, new, at, sheet);
            }
        } else if ahead > 0 {
            self.waiting += segment.bytes.len();
            self.early.insert(segment.sequence, segment.bytes.to_vec());
            if self.waiting > BEHIND_A_HOLE {
                self.rssl.skip(ahead as usize, sheet);
                self.next = self.early.keys().copied().min_by_key(|key| key.wrapping_sub(next));
            }
        } else {
            self.deliver(segment, segment.bytes, at, sheet);
        }
        self.catch_up(segment, at, sheet);
    }

    /// Delivers what came early and follows now.
    fn catch_up(&mut self, segment: &Segment<'_>, at: f64, sheet: &mut Sheet<'_>) {
        while let Some(next) = self.next {
            let Some(&key) =
                self.early.keys().find(|&&key| key.wrapping_sub(next) == 0 || key.wrapping_sub(next) >= HALF)
            else {
                return;
            };
            let Some(bytes) = self.early.remove(&key) else { return };
            self.waiting -= bytes.len();
            if let Some(new) = bytes.get(next.wrapping_sub(key) as usize..).filter(|b| !b.is_empty()) {
                self.deliver(segment, new, at, sheet);
            }
        }
    }

    fn deliver(&mut self, segment: &Segment<'_>, bytes: &[u8], at: f64, sheet: &mut Sheet<'_>) {
        sheet.set_heading(format!("{at:.6}  {} -> {}", segment.from, segment.to));
        self.rssl.take(bytes, sheet);
        self.next = self.next.map(|next| next.wrapping_add(bytes.len() as u32));
    }
}

/// Whether these bytes, the first of a direction, are a connect request or its answer.
fn looks_like_a_handshake(bytes: &[u8]) -> bool {
    let Ok(Some(length)) = rssl::frame::length(bytes) else { return false };
    match bytes.get(..length) {
        Some(whole) => {
            rssl::handshake::ConnectRequest::decode(whole).is_ok()
                || [true, false].iter().any(|&key| rssl::handshake::Answer::decode(whole, key).is_ok())
        }
        // The first segment is shorter than the handshake: its length is all there is to go by.
        None => length <= HANDSHAKE_MAX,
    }
}
