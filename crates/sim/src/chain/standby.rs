//! Consumers that make their server their standby one, and their active one again.

use super::consumer::{Consumer, DIRECTORY, LOGIN, Standby};
use super::random::Random;
use super::watch::Kind;
use rwf::rdm::directory::{Action, ConsumerStatus, ServiceStatus};
use rwf::rdm::login::{ConnectionStatus, WarmStandby};
use std::collections::BTreeMap;

impl Consumer {
    /// The server is something else to this consumer from now on, for all services or for one.
    pub(super) fn change_standby(&mut self, random: &mut Random) -> bool {
        let services: Vec<u16> = self.listed.keys().copied().collect();
        match random.pick(&services).filter(|_| self.filter.is_some() && random.chance(50)) {
            Some(id) => self.say_of_service(id, random),
            None => self.say_of_all(random.chance(50)),
        }
        self.follow_standby();
        true
    }

    fn say_of_all(&mut self, stands_by: bool) {
        self.standby = Standby { everywhere: stands_by, services: BTreeMap::new() };
        let warm_standby = Some(WarmStandby { added: true, mode: stands_by.into() });
        self.send(|w| ConnectionStatus { stream_id: LOGIN, warm_standby }.encode(w));
    }

    fn say_of_service(&mut self, id: u16, random: &mut Random) {
        let service = self.listed[&id].service;
        let (action, stands_by) = match random.below(5) {
            0 => (Action::Delete, None),
            1 | 2 => (Action::Add, Some(true)),
            _ => (Action::Update, Some(false)),
        };
        match stands_by {
            Some(stands_by) => drop(self.standby.services.insert(service, stands_by)),
            None => drop(self.standby.services.remove(&service)),
        }
        let warm_standby = stands_by.map(u64::from);
        let status = ServiceStatus { service_id: id, action, mirroring: None, warm_standby };
        self.send(|w| ConsumerStatus { stream_id: DIRECTORY, services: vec![status] }.encode(w));
    }

    /// Messages that its streams miss, and those that come to them unasked.
    fn follow_standby(&mut self) {
        let (now, turn) = (self.now, self.turn);
        (self.behind, self.is_swept) = (true, true);
        for watch in self.watches.values_mut().filter(|watch| watch.ended.is_none() && watch.kind != Kind::Snapshot) {
            let was_silent = watch.is_silent();
            let stood_by = std::mem::replace(&mut watch.stands_by, self.standby.is_for(watch.item.service));
            if stood_by != watch.stands_by {
                watch.miss();
                watch.opened = turn;
                // An image follows if one is due: what has had none waits for its first.
                watch.unasked |= was_silent && !watch.is_silent();
                watch.asked_at(now);
            }
        }
    }

    /// The server is the active one for everything, so that all is to be current in the end.
    pub(super) fn make_active(&mut self) {
        if self.warm {
            self.say_of_all(false);
            self.follow_standby();
        }
    }
}
