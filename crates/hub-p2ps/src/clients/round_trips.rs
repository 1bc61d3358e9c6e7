//! Round trips over login streams: the server sends its ticks, a client that has offered it sends them back.
//!
//! Only clients whose login says `RoundTripLatency` 2 are measured. One measurement of a client is under way at a time; one that is not
//! answered before the next is due is given up, and its answer counts for nothing.

use super::Clients;
use crate::P2ps;
use crate::ids::{ClientId, StreamId};
use rwf::msg::GenericMsg;
use rwf::rdm::login::RoundTrip;
use std::collections::BTreeSet;

/// `RoundTripLatency` of a login that may be measured (RDM usage guide 3.2.2).
const MAY_BE_MEASURED: u64 = 2;

/// What is known of the round trip to a client that may be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    /// When the next ticks go out.
    due: u64,
    /// Ticks that are not back yet.
    under_way: Option<u64>,
    /// The last round trip, microseconds.
    latency: Option<u64>,
}

impl Measurement {
    /// The last round trip, microseconds.
    pub(crate) fn latency(self) -> Option<u64> {
        self.latency
    }
}

/// When each client is measured next.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    due: BTreeSet<(u64, ClientId)>,
}

impl RoundTrips {
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.due.first().map(|&(at, _)| at)
    }
}

impl Clients {
    /// A client has logged out, or is gone.
    pub(super) fn end_round_trips(&mut self, client: ClientId, measurement: Option<Measurement>) {
        if let Some(Measurement { due, .. }) = measurement {
            let known = self.round_trips.due.remove(&(due, client));
            debug_assert!(known, "{client:?} is not due at {due}");
        }
    }

    /// `RoundTripLatency` of the refresh for a client's login.
    pub(super) fn round_trips_granted(&self, client: ClientId) -> Option<u64> {
        let login = self.get(client)?.login.as_ref()?;
        login.round_trip.map(|_| MAY_BE_MEASURED)
    }

    /// The measurement of a client that has just logged in; `None` if it is not measured.
    pub(super) fn begin_round_trips(
        &mut self,
        now: u64,
        interval: u64,
        client: ClientId,
        offered: Option<u64>,
    ) -> Option<Measurement> {
        if interval == 0 || offered != Some(MAY_BE_MEASURED) {
            return None;
        }
        let due = now.saturating_add(interval);
        let fresh = self.round_trips.due.insert((due, client));
        debug_assert!(fresh, "{client:?} is measured already");
        Some(Measurement { due, under_way: None, latency: None })
    }
}

impl P2ps {
    /// The server's clock as clients see it, microseconds: JSON clients read numbers as doubles, which hold these exactly.
    fn ticks(&self) -> u64 {
        self.now / 1_000
    }

    /// Sends ticks to the clients whose time it is.
    pub(crate) fn measure_round_trips(&mut self) {
        while let Some(&(at, client)) = self.clients.round_trips.due.first()
            && at <= self.now
        {
            self.clients.round_trips.due.remove(&(at, client));
            let (ticks, due) = (self.ticks(), self.now.saturating_add(self.config.round_trip_interval));
            let login = self.clients.get_mut(client).and_then(|known| known.login.as_mut());
            let Some((stream, measurement)) =
                login.and_then(|login| login.round_trip.as_mut().map(|measurement| (login.stream, measurement)))
            else {
                hub_items::fault!("{client:?} is measured and not logged in");
                continue;
            };
            let given_up = measurement.under_way.replace(ticks).is_some();
            measurement.due = due;
            let latency = measurement.latency;
            self.clients.round_trips.due.insert((due, client));
            self.counters.round_trips_unanswered += u64::from(given_up);
            let sent = RoundTrip { stream_id: stream.0, from_provider: true, ticks, latency, retransmissions: None };
            self.send(client, stream, |w| sent.encode(w));
        }
    }

    /// A generic message of a client on its login stream: true if it is the answer that is waited for.
    pub(super) fn round_trip_answered(&mut self, client: ClientId, generic: &GenericMsg<'_>) -> bool {
        let now = self.ticks();
        let login = self.clients.get_mut(client).and_then(|known| known.login.as_mut());
        // A generic message of another stream is passed on.
        let Some(login) = login.filter(|login| login.stream == StreamId(generic.stream_id)) else { return false };
        // A login that is not measured was sent nothing that it could answer.
        let Some(measurement) = login.round_trip.as_mut() else { return false };
        // A message that cannot be read is no answer: the client is not to be closed for it.
        let Ok(Some(answer)) = RoundTrip::decode(generic) else { return false };
        if measurement.under_way != Some(answer.ticks) {
            return false;
        }
        measurement.under_way = None;
        measurement.latency = Some(now.saturating_sub(answer.ticks));
        self.counters.round_trips += 1;
        true
    }
}
