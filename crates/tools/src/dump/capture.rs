//! RSSL sessions out of a packet capture: TCP put together again, both directions in the order of the capture.

use super::sheet::{Envelope, Sheet};
use super::stream::Direction;
use anyhow::anyhow;
use capture::ip::{self, Segment};
use capture::{Fragments, Order, Piece, Reader};
use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

/// No handshake is longer.
const HANDSHAKE_MAX: usize = 1_024;

/// One direction of a TCP connection.
#[derive(Default)]
struct Flow {
    rssl: Direction,
    order: Order,
    /// Bytes that the capture does not have.
    missing: u64,
}

/// Shows the messages of all RSSL connections of a capture; with a port, of all connections of that port. What was not there
/// is a problem of the sheet.
///
/// # Errors
/// A text for the user: it is no capture, or no session is in it.
pub(super) fn show(input: impl Read, port: Option<u16>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut reader = Reader::new(input)?;
    let (mut flows, mut order) = (HashMap::<(SocketAddr, SocketAddr), Flow>::new(), Vec::new());
    let mut fragments = Fragments::default();
    let (mut begun, mut last, mut problems) = (None, 0.0, Vec::new());
    loop {
        let frame = match reader.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => {
                problems.push(error.to_string());
                break;
            }
        };
        let begun = *begun.get_or_insert(frame.nanos);
        last = frame.nanos.saturating_sub(begun) as f64 / 1e9;
        let Some(mut packet) = ip::of_frame(&frame) else { continue };
        let whole;
        if packet.is_fragment() {
            let Some(payload) = fragments.add(&packet) else { continue };
            whole = payload;
            packet = ip::Ip { offset: 0, more: false, payload: &whole, ..packet };
        }
        let Some(segment) = packet.tcp() else { continue };
        let ends = (segment.source, segment.destination);
        if port.is_none_or(|p| ends.0.port() == p || ends.1.port() == p) {
            let flow = flows.entry(ends).or_insert_with(|| {
                order.push(ends);
                // With a port, a direction is read whose beginning was not captured.
                let rssl = if port.is_some() { Direction::from_the_middle() } else { Direction::default() };
                Flow { rssl, ..Flow::default() }
            });
            sheet.set_envelope(Envelope { at: last, from: ends.0.to_string(), to: ends.1.to_string() });
            flow.take(&segment, last, port.is_some(), sheet);
        }
    }
    let mut missing = 0;
    for ends in &order {
        if let Some(flow) = flows.get_mut(ends) {
            sheet.set_envelope(Envelope { at: last, from: ends.0.to_string(), to: ends.1.to_string() });
            missing += flow.end(*ends, last, sheet);
        }
    }
    let left_out = reader.left_out();
    if sheet.messages() == 0 {
        problems.extend((!left_out.is_none()).then(|| left_out.to_string()));
        let what = format!("no RSSL session was found in {} TCP directions", flows.len());
        let hint = "a capture must hold the beginning of the session, or name its port with --port";
        problems.push(format!("{what}; {hint}"));
        return Err(anyhow!(problems.join("; ")));
    }
    let left_out = capture::LeftOut { short_frames: 0, ..left_out };
    problems.extend((!left_out.is_none()).then(|| left_out.to_string()));
    if missing > 0 {
        let short = reader.left_out().short_frames;
        let why =
            if short > 0 { format!("; {short} frames were captured in part (snap length)") } else { String::new() };
        problems.push(format!("{missing} bytes of the sessions are not in the capture, or in no frame{why}"));
    }
    for problem in problems {
        sheet.problem(problem);
    }
    Ok(())
}

impl Flow {
    fn take(&mut self, segment: &Segment<'_>, at: f64, any: bool, sheet: &mut Sheet<'_>) {
        let Self { rssl, order, missing } = self;
        if !any && !rssl.has_begun() && !segment.payload.is_empty() && !looks_like_a_handshake(segment.payload) {
            // Not RSSL as far as can be told: what follows is not followed either.
            order.pass(segment);
            return;
        }
        let ends = (segment.source, segment.destination);
        order.take(segment, &mut |piece| *missing += give(rssl, piece, ends, at, sheet));
    }

    /// Shows what still waits behind a hole, and whether the last frame is whole. Returns the bytes that the capture does not have.
    fn end(&mut self, ends: (SocketAddr, SocketAddr), at: f64, sheet: &mut Sheet<'_>) -> u64 {
        let Self { rssl, order, missing } = self;
        order.finish(&mut |piece| *missing += give(rssl, piece, ends, at, sheet));
        // Whoever stopped the capture did so while this side was sending: that is no fault of the file.
        let _ = rssl.end(sheet);
        *missing + rssl.unread() as u64
    }
}

/// Gives a piece of a direction to who reads it; returns how many bytes of it are missing.
fn give(rssl: &mut Direction, piece: Piece<'_>, ends: (SocketAddr, SocketAddr), at: f64, sheet: &mut Sheet<'_>) -> u64 {
    let heading = || format!("{at:.6}  {} -> {}", ends.0, ends.1);
    match piece {
        Piece::Opened => *rssl = Direction::default(),
        Piece::Bytes(bytes) => {
            if !rssl.has_begun() && accepts_or_asks(bytes) {
                *rssl = Direction::default();
            }
            sheet.set_heading(heading());
            rssl.take(bytes, sheet);
        }
        // Before the first byte, nobody knows whether anything was there.
        Piece::Hole(_) if !rssl.has_begun() => {}
        Piece::Hole(count) => {
            sheet.set_heading(heading());
            rssl.skip(count as usize, sheet);
            return count;
        }
    }
    0
}

/// Whether these bytes, the first of a direction, may be a connect request or its answer.
fn looks_like_a_handshake(bytes: &[u8]) -> bool {
    match rssl::frame::length(bytes) {
        Ok(Some(length)) if length <= bytes.len() => is_handshake(bytes),
        // The first segment is shorter than the handshake: its length is all there is to go by.
        Ok(Some(length)) => length <= HANDSHAKE_MAX,
        _ => false,
    }
}

fn is_handshake(bytes: &[u8]) -> bool {
    let whole = first_frame(bytes).unwrap_or_default();
    rssl::handshake::ConnectRequest::decode(whole).is_ok()
        || [true, false].iter().any(|&key| rssl::handshake::Answer::decode(whole, key).is_ok())
}

/// Of a handshake what nothing else looks like: a refusal is hardly more than its length.
fn accepts_or_asks(bytes: &[u8]) -> bool {
    let whole = first_frame(bytes).unwrap_or_default();
    let accepts =
        |key: &bool| matches!(rssl::handshake::Answer::decode(whole, *key), Ok(rssl::handshake::Answer::Ack(_)));
    rssl::handshake::ConnectRequest::decode(whole).is_ok() || [true, false].iter().any(accepts)
}

fn first_frame(bytes: &[u8]) -> Option<&[u8]> {
    rssl::frame::length(bytes).ok().flatten().and_then(|length| bytes.get(..length))
}
