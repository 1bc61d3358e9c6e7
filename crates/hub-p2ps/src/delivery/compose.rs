//! Messages of the P2PS's own on their way to a client.

use super::deliveries::BodyId;
use crate::P2ps;
use crate::clients::refusal::{Refusal, RefusalState};
use crate::clients::symbol_lists::RIC;
use crate::ids::{ClientId, ServiceId, StreamId};
use rwf::msg::{Domain, MsgKey, StatusMsg};
use rwf::wire::Writer;
use rwf::{EncodeError, State};

/// The key of an item that a list has opened.
pub(super) fn listed_key((service, name): &(ServiceId, Vec<u8>)) -> MsgKey<'_> {
    MsgKey { service_id: Some(service.0), name_type: Some(RIC), name: Some(name), ..MsgKey::EMPTY }
}

impl P2ps {
    /// A body of this turn, written by `write`; `None`, counted, if it cannot be written.
    pub(crate) fn body(
        &mut self,
        room: usize,
        write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Option<BodyId> {
        let body = self.output.write_body(room, write);
        self.counters.messages_unwritable += u64::from(body.is_err());
        body.ok()
    }

    /// Delivers a message of its own to one client; one that cannot be written is counted.
    pub(crate) fn send(
        &mut self,
        client: ClientId,
        stream: StreamId,
        write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) {
        if let Some(body) = self.body(256, write) {
            self.output.turn.deliver(body, client, stream);
        }
    }

    /// Delivers a status to one client.
    pub(crate) fn send_status(&mut self, client: ClientId, stream: StreamId, domain: Domain, state: State<'_>) {
        let listed = self.clients.listed_on(client, stream);
        let key = listed.as_ref().map(listed_key);
        let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(domain, stream.0) };
        self.send(client, stream, |w| status.encode(w));
    }

    /// Tells a client why it does not get what it asked for.
    pub(crate) fn refuse(&mut self, client: ClientId, stream: StreamId, domain: Domain, refusal: &Refusal<'_>) {
        self.counters.requests_refused += 1;
        let text = refusal.to_string();
        self.send_status(client, stream, domain, refusal.state(&text));
    }

    /// The same, of a refusal that is in words already.
    pub(crate) fn refuse_with_state(
        &mut self,
        client: ClientId,
        stream: StreamId,
        domain: Domain,
        told: &RefusalState,
    ) {
        self.counters.requests_refused += 1;
        self.send_status(client, stream, domain, told.state());
    }
}
