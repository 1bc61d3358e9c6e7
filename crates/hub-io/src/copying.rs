//! The images that are given to a Source Distributor that starts: a part each [`PART_INTERVAL_NS`], at a pace, and no more than the peer takes.

use hub::distributor::Record;
use hub::stream::{BlockWriter, Event};
use net::tcp::{Close, ConnId, SendOutcome};

use super::frames::Welcome;
use super::publisher::{DRAIN, Link, Progress, Publisher, State};

/// From one part to the next, nanoseconds.
const PART_INTERVAL_NS: u64 = 10_000_000;
/// Images of a part where there is no pace.
const PART: usize = 1_000;
/// Bytes that may wait for the peer before it is given more.
const QUEUED: usize = 1 << 20;
/// The number that a Source Distributor gets, which is no P2PS's.
const NO_NUMBER: u16 = u16::MAX;

impl Publisher {
    /// Lets a Source Distributor have a copy that has greeted.
    pub(crate) fn begin_copy(&mut self, conn: ConnId) {
        let Self { tcp, links, cipher, out, incarnation, .. } = self;
        let Some(Some(link)) = links.get_mut(conn.slot()) else { return };
        out.clear();
        Welcome::Joined { incarnation: *incarnation, number: NO_NUMBER, position: 0 }.write(out);
        link.wire.send(out, (tcp, conn, cipher));
        tracing::info!("a Source Distributor that starts ({}) is given the images that are held here", link.peer);
        let writer = BlockWriter::new(*incarnation);
        link.state = State::Copying(Progress { writer, from: 0, next: 0, images: 0 });
    }

    /// When [`Self::give_copies`] wants to be called.
    pub(crate) fn copies_due(&self) -> Option<u64> {
        let due = |link: &Link| match &link.state {
            State::Copying(progress) => Some(progress.next),
            _ => None,
        };
        self.links.iter().flatten().filter_map(due).min()
    }

    /// Gives the next part to those that want a copy. `images` gives so many from a place on, and says where the next ones are.
    pub fn give_copies(
        &mut self,
        now: u64,
        mut images: impl FnMut(u32, usize, &mut dyn FnMut(Record<'_>)) -> Option<u32>,
    ) {
        let most = match self.copy_pace {
            0 => PART,
            pace => (u64::from(pace) * PART_INTERVAL_NS / 1_000_000_000).max(1) as usize,
        };
        let mut done = Vec::new();
        let Self { tcp, links, cipher, counters, .. } = self;
        for Link { conn, peer, wire, state, .. } in links.iter_mut().flatten() {
            let State::Copying(progress) = state else { continue };
            if progress.next > now {
                continue;
            }
            progress.next = now + PART_INTERVAL_NS;
            if tcp.queued(*conn) > QUEUED {
                continue;
            }
            let Progress { writer, images: given, .. } = progress;
            let next = images(progress.from, most, &mut |Record { service, key, parts, age }| {
                writer.event(&Event::Record { service, key, age, parts });
                *given += 1;
                counters.images_copied += 1;
            });
            if let Some(next) = next {
                progress.from = next;
            } else {
                writer.event(&Event::Leaving { why: "that is all" });
                done.push(*conn);
                counters.copies_given += 1;
                tracing::info!("{peer} has been given {given} images");
            }
            if let Some(block) = writer.block() {
                // A peer that is gone is forgotten when its end is reported.
                let _: SendOutcome = wire.send(block, (tcp, *conn, cipher));
                writer.clear();
            }
        }
        for conn in done {
            self.links[conn.slot()] = None;
            self.tcp.close(conn, Close::Drain(DRAIN));
        }
    }
}
