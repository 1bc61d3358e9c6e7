//! Servers of a warm-standby pair: what the client says that they are to it.

use rwf::msg::GenericMsg;

use super::{Conn, Market};
use crate::standby::{StandbyPart, parts};

impl Conn {
    pub(super) fn is_standby(&self, service: u16) -> bool {
        let part = self.parts.get(&Some(service)).or_else(|| self.parts.get(&None));
        part == Some(&StandbyPart::Standby)
    }
}

impl Market {
    /// Whether a client has said that the server is that to it.
    pub fn has_part(&self, part: StandbyPart) -> bool {
        self.conns.values().any(|conn| conn.parts.values().any(|told| *told == part))
    }

    /// A client says what the server is to it. A server that was the standby sends images when it is the active one: no updates have gone since the
    /// last ones.
    pub(super) fn told(&mut self, conn: u32, generic: &GenericMsg<'_>) -> Result<(), String> {
        for (service, part) in parts(generic) {
            let Some(known) = self.conns.get_mut(&conn) else { return Ok(()) };
            let before = known.parts.insert(service, part);
            if (before, part) != (Some(StandbyPart::Standby), StandbyPart::Active) {
                continue;
            }
            let is_of = |item: &super::Item| item.open && item.streaming && service.is_none_or(|id| id == item.service);
            let streams = known.items.iter().filter(|(_, item)| is_of(item)).map(|(stream, _)| *stream);
            for stream in streams.collect::<Vec<_>>() {
                for message in self.image(conn, stream, "unsolicited")? {
                    self.send(conn, message);
                }
            }
        }
        Ok(())
    }
}
