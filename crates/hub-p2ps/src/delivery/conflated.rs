//! Updates that are conflated by time, on their way to the watchers.
//!
//! A stream that is conflated by time is a view of its item. What waits for a view goes out when its interval has ended, and ahead of
//! whatever else its watchers get: an image, a state, an update that is kept, a generic message.

use super::deliveries::BodyId;
use super::output::Output;
use crate::P2ps;
use crate::conflation::merge::Merged;
use crate::conflation::{Added, FIRST};
use crate::egress::Merging;
use crate::filter::bodies::Left;
use crate::ids::ItemId;
use crate::items::watchers::Watcher;
use rwf::msg::RefreshMsg;
use rwf::peek;

impl P2ps {
    /// An update of a view with an interval.
    pub(super) fn conflate(&mut self, view: ItemId, interval: u16, body: BodyId) {
        let interval =
            self.output.item_rules.interval(self.items.root(view), interval, self.output.turn.arena_bytes(body));
        if interval == 0 {
            self.release_view(view);
            return self.fan_update(view, body);
        }
        let Output { turn, conflation, rules, .. } = &mut self.output;
        let ripples = rules.ripples(self.clients.dictionary());
        match conflation.add(view, interval, turn.arena_bytes(body), self.now, ripples) {
            Added::Waits => {}
            Added::Follows(before) => self.deliver_merged(view, &before),
            Added::Passes(before) => {
                if let Some(before) = before {
                    self.deliver_merged(view, &before);
                }
                self.fan_update(view, body);
            }
        }
    }

    /// What an item's name and image say of its interval is noted.
    pub(super) fn note_interval(&mut self, id: ItemId, refresh: &RefreshMsg<'_>) {
        let Self { items, sources, output: Output { item_rules, .. }, config, .. } = self;
        let item = items.get(id);
        // An item of a service that is gone is on its way to its end.
        let Some(service) = sources.services().get(item.service()) else { return };
        let conflation = config.conflation.of(&service.name);
        if conflation.interval > 0 {
            let key = items.key(id);
            let image = (refresh.container, refresh.body);
            item_rules.note(id, conflation.interval, &conflation.exceptions, key.name.unwrap_or_default(), image);
        }
    }

    fn deliver_merged(&mut self, view: ItemId, merged: &Merged) {
        let Self { items, counters, clients, output, now, .. } = self;
        let Output { turn, rules, scratch, .. } = output;
        let merging = Merging { now: *now, ripples: rules.ripples(clients.dictionary()) };
        let open = items.watchers(view).open();
        let written = merged.write(FIRST, *now, &mut scratch.room, |msg| {
            if let Some(body) = turn.message_body(msg, None) {
                turn.fan_update((view, body), &[], open, merging, |watcher| clients.may_conflate(watcher));
                counters.updates_out += open.len() as u64;
            }
        });
        counters.messages_unwritable += u64::from(written.is_err());
        let saved = merged.came(FIRST).saturating_sub(u32::from(written.unwrap_or(0)));
        counters.updates_conflated += u64::from(saved) * open.len() as u64;
    }

    /// Sends what waits for views of an item.
    pub(crate) fn release_conflated(&mut self, id: ItemId) {
        if self.output.conflation.is_empty() {
            return;
        }
        for view in self.items.views_of(id).to_vec() {
            self.release_view(view);
        }
    }

    /// Sends what waits for a view.
    pub(crate) fn release_view(&mut self, view: ItemId) {
        if let Some(merged) = self.output.conflation.take(view) {
            self.deliver_merged(view, &merged);
        }
    }

    /// A watcher of a view goes on with a part of it, without an image: what waits for the view goes out to it as that part shows it.
    pub(crate) fn hand_over(&mut self, watcher: Watcher, from: ItemId, to: ItemId) {
        let Self { items, counters, output, now, .. } = self;
        let Output { turn, conflation, scratch, .. } = output;
        // Nothing waits for the view, or there is no view to go on with.
        let (Some(merged), Some(spec)) = (conflation.get(from), items.spec_of(to)) else { return };
        let written = merged.write(FIRST, *now, &mut scratch.room, |msg| {
            let Ok(header) = peek::header(msg) else {
                hub_items::fault!("a merged update of {from:?} that cannot be read");
                return;
            };
            let (head, data) = msg.split_at(header.body_offset);
            let body = turn.arena_body(|arena| {
                arena.extend_from_slice(head);
                match spec.append(header.class, header.container, data, arena) {
                    Left::Part => {}
                    Left::Whole | Left::Unreadable => arena.extend_from_slice(data),
                    Left::Nothing => return Err(()),
                }
                Ok(())
            });
            if let Ok(body) = body {
                turn.deliver(body, watcher.client, watcher.stream);
                counters.updates_out += 1;
            }
        });
        counters.messages_unwritable += u64::from(written.is_err());
    }

    /// Sends what waits for all views.
    pub(crate) fn release_every(&mut self) {
        while let Some((view, merged)) = self.output.conflation.take_due(u64::MAX) {
            self.deliver_merged(view, &merged);
        }
    }

    /// Sends the views that are due.
    pub(crate) fn release_due(&mut self) {
        while let Some((view, merged)) = self.output.conflation.take_due(self.now) {
            self.deliver_merged(view, &merged);
        }
    }
}
