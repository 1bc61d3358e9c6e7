//! What a turn has brought goes to the clients: composed once for each, sent, and what their sockets do not take is told to the P2PS.

use hub::p2ps::egress::FlowControl;
use hub::p2ps::{CloseReason, LoadState, Notice};
use net::tcp::{Close, ConnId};

use super::{Consumers, GATHERED_MAX, Wants, Way, client_on};
use rssl_io::RsslIo;

impl Consumers {
    /// Writes every client what the turn has brought for it: once, packed. `block` is the hub block that deliveries may
    /// point into.
    #[inline]
    pub fn flush(&mut self, now: u64, block: &[u8], io: &mut RsslIo) {
        // Most turns end with a look at what the last answer has brought, which is nothing.
        let has_work = !self.slow.is_empty() || self.marketfeed.has_left() || self.p2ps.has_output();
        if has_work || !block.is_empty() {
            self.deliver(now, block, io);
        }
    }

    fn deliver(&mut self, now: u64, block: &[u8], io: &mut RsslIo) {
        // Clients that have taken what waited get more in this turn.
        self.report_backlogs(io);
        self.json.follow(&self.p2ps);
        self.marketfeed.follow(&self.p2ps);
        let Self { p2ps, clients, slow, unflushed, limits, json, marketfeed, traces, latency, .. } = self;
        let timed = limits.flush_interval_ns.is_some();
        let gathered = self.gathering && !timed && limits.packing;
        p2ps.flush(block, |id, deliveries| {
            let Some(Some(client)) = clients.get_mut(id.0 as usize) else { return };
            for trace in &mut *traces {
                deliveries.clone().for_each(|(body, stream)| trace.record(now, (id, stream), Way::Out, body));
            }
            let conn = client.conn;
            latency.bring(conn, client.protocol);
            let backlog = if let Some(peer) = &mut client.json {
                // JSON clients are sent to at the turn's end, behind all others.
                if !std::mem::replace(&mut client.unflushed, true) {
                    json.await_sending(conn);
                }
                match json.deliver(now, (conn, peer), deliveries, GATHERED_MAX, io) {
                    Some(bytes) if bytes >= GATHERED_MAX => io.flush(conn),
                    _ => return,
                }
            } else if client.marketfeed != Wants::Nothing {
                let whom = (id, conn, client.marketfeed);
                marketfeed.deliver(now, whom, deliveries, io).and_then(|_| io.flush(conn))
            } else if timed || gathered {
                if !client.unflushed {
                    client.unflushed = true;
                    unflushed.push(conn);
                }
                let queued = io.queue(now, conn, |p| deliveries.for_each(|(body, stream)| p.push(body, Some(stream))));
                match queued {
                    Some(bytes) if gathered && bytes >= GATHERED_MAX => io.flush(conn),
                    // Gathered bytes are no backlog yet.
                    _ if gathered => return,
                    queued => queued,
                }
            } else if limits.packing {
                io.send(now, conn, |p| deliveries.for_each(|(body, stream)| p.push(body, Some(stream))))
            } else {
                io.send_unpacked(now, conn, deliveries)
            };
            if let Some(backlog) = backlog
                && (backlog > 0 || client.queued > 0)
            {
                slow.push((conn, backlog));
            }
        });
        self.json.end_flush();
        let Self { p2ps, marketfeed, .. } = self;
        marketfeed.end_flush(|client, stream| p2ps.has_item_on(client, stream));
        self.settle_latency();
        if timed && self.flush_at.is_none() && !self.unflushed.is_empty() {
            self.flush_at = self.limits.flush_interval_ns.map(|interval| now + interval);
        }
        self.report_backlogs(io);
        self.close_clients(io);
        for notice in self.p2ps.notices() {
            if let Notice::Load { state: LoadState::Overloaded, .. } = notice {
                tracing::warn!("{notice}");
            } else {
                tracing::info!("{notice}");
            }
        }
        crate::log::tell_faults();
    }

    /// Clients whose latency is followed, and for whom nothing composed waits, have got it.
    fn settle_latency(&mut self) {
        let Self { latency, clients, numbers, .. } = self;
        latency.settle(net::clock::now, |conn| {
            let client = numbers.of(conn).and_then(|id| clients.get(id.0 as usize)?.as_ref());
            client.map(|client| client.unflushed)
        });
    }

    /// Closes the clients that the P2PS wants closed; what it had for them was written before.
    fn close_clients(&mut self, io: &mut RsslIo) {
        for (id, reason) in self.p2ps.closing() {
            let Some(Some(client)) = self.clients.get(id.0 as usize) else { continue };
            if matches!(reason, CloseReason::SlowConsumer { .. }) {
                tracing::warn!("client {} is cut off: {reason}", client.name);
                io.close(client.conn, &reason.to_string(), Close::Reset);
            } else {
                tracing::warn!("closing client {}: {reason}", client.name);
                io.close_drained(client.conn, &reason.to_string());
            }
        }
    }

    /// Tells the P2PS what waits for whom, and does what it decides.
    #[inline]
    fn report_backlogs(&mut self, io: &mut RsslIo) {
        if !self.slow.is_empty() || self.p2ps.has_flow_control() {
            self.act_on_backlogs(io);
        }
    }

    fn act_on_backlogs(&mut self, io: &mut RsslIo) {
        let Self { p2ps, clients, numbers, slow, .. } = self;
        for (conn, backlog) in slow.drain(..) {
            if let Some(id) = numbers.of(conn)
                && let Some(Some(client)) = clients.get_mut(id.0 as usize)
            {
                client.queued = backlog;
                p2ps.client_backlog(id, backlog);
            }
        }
        for (id, control) in p2ps.flow_control() {
            let Some(Some(client)) = clients.get_mut(id.0 as usize) else { continue };
            match control {
                FlowControl::PauseReading | FlowControl::ResumeReading => {
                    client.paused = control == FlowControl::PauseReading;
                    client.set_reading(io);
                }
                FlowControl::Slow { waiting } => tracing::warn!(
                    "client {} is slow: {waiting} bytes are waiting for it (outputThresholdBreach)",
                    client.name
                ),
                FlowControl::CaughtUp => tracing::info!("client {} has caught up (outputThresholdOK)", client.name),
                FlowControl::Conflated { waiting } => tracing::warn!(
                    "client {} is conflated just in time: {waiting} bytes are waiting for it (conflate_at)",
                    client.name
                ),
                FlowControl::TickByTick { saved } => tracing::info!(
                    "client {} gets its updates one by one again; {saved} were merged into others meanwhile",
                    client.name
                ),
            }
        }
    }

    pub(super) fn send_unflushed(&mut self, io: &mut RsslIo) {
        let unflushed = std::mem::take(&mut self.unflushed);
        self.unflushed = self.send_composed(unflushed, io);
    }

    /// Sends to JSON clients what was composed for them: to all, or in turns if they are many.
    pub(super) fn send_json(&mut self, now: u64, io: &mut RsslIo) {
        let mut awaited = Vec::new();
        let Self { json, clients, numbers, .. } = self;
        json.reply(now, io, |conn| {
            let client = client_on(conn, numbers, clients);
            if client.is_some_and(|client| !std::mem::replace(&mut client.unflushed, true)) {
                awaited.push(conn);
            }
        });
        for conn in awaited {
            json.await_sending(conn);
        }
        if json.has_unsent() {
            let mut next = std::mem::take(&mut self.sending);
            next.extend(self.json.next_unsent());
            self.sending = self.send_composed(next, io);
        }
    }

    /// Sends what was composed for these, and gives the empty list back.
    fn send_composed(&mut self, mut composed: Vec<ConnId>, io: &mut RsslIo) -> Vec<ConnId> {
        let Self { clients, numbers, slow, .. } = self;
        let there = composed.drain(..).filter(|conn| {
            let client = client_on(*conn, numbers, clients);
            client.is_some_and(|client| std::mem::take(&mut client.unflushed))
        });
        io.flush_all(there, |conn, backlog| slow.push((conn, backlog)));
        slow.retain(|&(conn, backlog)| {
            backlog > 0 || client_on(conn, numbers, clients).is_some_and(|client| client.queued > 0)
        });
        self.settle_latency();
        self.report_backlogs(io);
        self.close_clients(io);
        composed
    }
}
