//! Where messages of a stream go on to.

use super::portal::{Link, Portal};
use super::stream::{Down, Proxy, Serving};
use crate::action::Forward;
use crate::ids::StreamId;
use crate::merge::MergeSink;
use crate::wire::Frame;

/// Hands what a merge lets through to proxy sources and peers.
pub(super) struct Onward<'a, F> {
    pub(super) id: StreamId,
    pub(super) proxies: &'a [Proxy],
    pub(super) downs: &'a mut [Down],
    pub(super) portals: &'a mut [Portal],
    pub(super) queue_bytes_max: usize,
    pub(super) forward: &'a mut F,
}

impl<F: Forward> MergeSink for Onward<'_, F> {
    #[inline]
    fn message(&mut self, sqn: u32, message: &[u8]) {
        for proxy in self.proxies {
            if proxy.serving == Serving::Now {
                self.portals[proxy.portal.0 as usize].stats.messages_out += 1;
                self.forward.message(proxy.portal, self.id, sqn, message);
            }
        }
        for down in self.downs.iter_mut().filter(|down| down.subscribed) {
            let portal = &mut self.portals[down.portal.0 as usize];
            portal.stats.messages_out += 1;
            let Some(link) = portal.link() else { continue };
            if link.waiting() + message.len() > self.queue_bytes_max {
                drop_range(down, sqn, 1);
                link.has_dropped = true;
                portal.stats.dropped += 1;
                continue;
            }
            tell_dropped(down, link);
            link.put(down.label, message);
        }
    }

    fn lost(&mut self, first: u32, count: u32) {
        for proxy in self.proxies.iter().filter(|proxy| proxy.serving == Serving::Now) {
            self.forward.skip_to(proxy.portal, self.id, first.wrapping_add(count));
        }
        for down in self.downs.iter_mut().filter(|down| down.subscribed) {
            drop_range(down, first, count);
            let Some(link) = self.portals[down.portal.0 as usize].link() else { continue };
            if link.waiting() <= self.queue_bytes_max {
                tell_dropped(down, link);
            } else {
                link.has_dropped = true;
            }
        }
    }
}

/// Nothing was sent since the first number that found no room, so all since then belong to it.
fn drop_range(down: &mut Down, first: u32, count: u32) {
    let from = down.dropped.map_or(first, |(from, _)| from);
    down.dropped = Some((from, first.wrapping_add(count)));
}

/// Says which numbers will not come.
pub(super) fn tell_dropped(down: &mut Down, link: &mut Link) {
    if let Some((first, next)) = down.dropped.take() {
        Frame::Lost { label: down.label, first, count: next.wrapping_sub(first) }.encode(&mut link.out);
    }
}
