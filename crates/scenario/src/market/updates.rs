//! Updates of the server, in their time.

use rwf::msg::Domain;

use super::{Market, is_left_out};
use crate::numbers::SECOND;
use crate::values::{change, domain_name, price, times};
use crate::words;

impl Market {
    /// When something is due next.
    pub fn due(&self) -> Option<u64> {
        let publishes = self.config.updates_a_second > 0.0 && !self.down && self.open_items(None) > 0;
        let update = publishes.then_some(self.next_update_ns);
        [update, self.later.front().map(|(at, ..)| *at)].into_iter().flatten().min()
    }

    /// Time has come so far.
    ///
    /// # Errors
    /// An update cannot be encoded.
    pub fn advance(&mut self, now: u64) -> Result<(), String> {
        while let Some((_, conn, message)) = self.later.pop_front_if(|(at, ..)| *at <= now) {
            self.send(conn, message);
        }
        let interval = (SECOND as f64 / self.config.updates_a_second.max(1e-3)) as u64;
        if self.config.updates_a_second <= 0.0 || self.down {
            self.next_update_ns = now + interval;
            return Ok(());
        }
        // A machine that stood still owes no more than a tenth of a second.
        self.next_update_ns = self.next_update_ns.max(now.saturating_sub(SECOND / 10));
        while self.next_update_ns <= now {
            self.next_update_ns += interval.max(1);
            self.update()?;
        }
        Ok(())
    }

    /// The next update, of the items in turn.
    fn update(&mut self) -> Result<(), String> {
        let all: Vec<(u32, i32)> = self
            .conns
            .iter()
            .flat_map(|(conn, known)| known.items.iter().map(move |(stream, item)| (*conn, *stream, known, item)))
            .filter(|(.., known, item)| item.open && item.streaming && !known.is_standby(item.service))
            .map(|(conn, stream, _, item)| (conn, stream, item))
            .map(|(conn, stream, _)| (conn, stream))
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        self.ticks += 1;
        let (conn, stream) = all[(self.ticks % all.len() as u64) as usize];
        let (seed, values, ticks) = (self.config.seed, self.content.values, self.ticks);
        let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
        let Some(item) = known.items.get_mut(&stream) else { return Ok(()) };
        item.seq = item.seq % 65_535 + 1;
        let price = price(seed, values, &item.name, ticks);
        let mut all = vec![format!("seq={}", item.seq), "type=Quote".to_owned()];
        all.push(format!("domain={}", domain_name(item.domain)));
        all.extend(change(item.domain, price, ticks));
        if item.domain == Domain::MARKET_PRICE {
            all.extend(times(ticks, self.content.clock_s));
        }
        all.retain(|word| !is_left_out(&self.content.left_out, word));
        let bytes = words::build("UPDATE", stream, &all, &known.ids)?;
        if self.gap > 0 {
            self.gap -= 1;
        } else if self.swaps > 0 && self.overtaken.is_none() {
            self.swaps -= 1;
            self.overtaken = Some((conn, bytes));
        } else {
            let again = (self.repeats > 0).then(|| bytes.clone());
            self.repeats = self.repeats.saturating_sub(1);
            self.send(conn, bytes);
            if let Some(bytes) = again {
                self.send(conn, bytes);
            }
            if let Some((conn, bytes)) = self.overtaken.take() {
                self.send(conn, bytes);
            }
        }
        Ok(())
    }
}
