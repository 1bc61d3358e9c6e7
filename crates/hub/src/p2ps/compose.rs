//! Writing messages of the P2PS's own into the turn.

use super::P2ps;
use super::refusal::Refusal;
use super::turn::BodyId;
use rwf::msg::{Domain, MsgKey, StatusMsg};
use rwf::wire::Writer;
use rwf::{EncodeError, State};

/// Nothing that a P2PS writes is longer.
const LONGEST: usize = 64 << 20;

/// Appends what `write` writes to `out`, making room until it fits. `out` is unchanged on failure.
pub(crate) fn append(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let mut room = room.max(256);
    loop {
        out.resize(start + room, 0);
        let mut w = Writer::new(&mut out[start..]);
        match write(&mut w) {
            Ok(()) => {
                let written = w.position();
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::BufferFull) if room < LONGEST => room *= 2,
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
    }
}

impl P2ps {
    /// A body of this turn, written by `write`; `None` if it cannot be written.
    pub(super) fn body(
        &mut self,
        room: usize,
        write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Option<BodyId> {
        self.turn.arena_body(|arena| append(arena, room, write)).ok()
    }

    /// Delivers a message of its own to one client; false if it cannot be written.
    pub(super) fn send(
        &mut self,
        client: u32,
        stream: i32,
        write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> bool {
        let body = self.body(256, write);
        if let Some(body) = body {
            self.turn.deliver(body, client, stream);
        }
        body.is_some()
    }

    /// Delivers a status to one client.
    pub(super) fn send_status(&mut self, client: u32, stream: i32, domain: Domain, state: State<'_>) {
        self.send_status_with_key(client, stream, domain, state, None);
    }

    /// Delivers a status with a key to one client.
    pub(super) fn send_status_with_key(
        &mut self,
        client: u32,
        stream: i32,
        domain: Domain,
        state: State<'_>,
        key: Option<MsgKey<'_>>,
    ) {
        let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(domain, stream) };
        self.send(client, stream, |w| status.encode(w));
    }

    /// Tells a client why it does not get what it asked for.
    pub(super) fn refuse(&mut self, client: u32, stream: i32, domain: Domain, refusal: &Refusal<'_>) {
        self.counters.requests_refused += 1;
        let text = refusal.to_string();
        self.send_status(client, stream, domain, refusal.state(&text));
    }
}
