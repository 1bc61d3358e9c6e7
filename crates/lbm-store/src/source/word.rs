//! The word of a source on itself: to receivers which stores it has, to stores which incarnation it is.

use super::{Phase, Source};
use crate::wire::{INITIAL_KNOWN, Ume, control};

impl Source {
    /// The word for receivers: the source's stores. `out` gets a control message, for the transport or as an answer; nothing while
    /// the source is not ready.
    pub fn info(&self, out: &mut Vec<u8>) {
        if self.phase != Phase::Ready {
            return;
        }
        let epochs = self.epochs.written();
        let low = self.epochs.first().unwrap_or(0);
        let info =
            Ume::Info { flags: INITIAL_KNOWN, epoch: self.epochs.latest(), low, high: self.next.wrapping_sub(1) };
        let mut headers =
            vec![info, Ume::TopicIndex(self.identity.topic_index), Ume::Epochs { is_new: false, pairs: &epochs }];
        self.push_stores(&mut headers);
        control(out, &headers);
    }

    fn push_stores(&self, headers: &mut Vec<Ume<'_>>) {
        let mut groups: Vec<u8> = self.stores.iter().map(|s| s.address.group).collect();
        groups.dedup();
        for group in groups {
            let of = self.stores.iter().enumerate().filter(|(_, s)| s.address.group == group);
            headers.push(Ume::StoreGroup { group, size: of.clone().count() as u16 });
            // Stores that have not answered have no registration id by which a receiver could name the source.
            headers.extend(of.filter(|(_, s)| s.reg_id != 0).map(|(index, s)| Ume::Store {
                group,
                port: s.address.at.port(),
                index: index as u16,
                address: *s.address.at.ip(),
                reg_id: s.reg_id,
            }));
        }
    }

    /// Tells a store which incarnation this is, and what it can ask for; and which other stores there are, if it is to stand in for the source.
    pub(super) fn tell(&mut self, store: usize, alive: bool) {
        // A store that is none of the source's is told nothing.
        let Some(entry) = self.stores.get_mut(store) else { return };
        entry.told = true;
        let (transport, topic, reg_id) = (self.identity.transport, self.identity.topic_index, entry.reg_id);
        let epochs = self.epochs.written();
        let info = Ume::Info {
            flags: INITIAL_KNOWN,
            epoch: self.epochs.latest(),
            low: self.flight.base(),
            high: self.next.wrapping_sub(1),
        };
        let mut headers = vec![info, Ume::TopicIndex(topic), Ume::Epochs { is_new: false, pairs: &epochs }];
        if self.config.proxy {
            self.push_stores(&mut headers);
        }
        let mut said = Vec::new();
        if alive {
            control(&mut said, &[Ume::Keepalive { flags: 0x40, kind: 2, transport, topic, reg_id }]);
        }
        control(&mut said, &headers);
        self.out.to(store as u64).extend_from_slice(&said);
    }
}
