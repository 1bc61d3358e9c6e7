//! What a P2PS has to hear again after messages of the stream were lost to it.

use super::SourceDistributor;
use super::items::Bits;
use super::peers::Slots;
use crate::stream::{ALL, Event, Kind, Message, NO_GROUP, flags};
use rwf::msg::{Domain, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState};

/// What lost messages were about.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Services that said something, of themselves or of all their items or groups, and whether they said it of items.
    services: Vec<(u16, bool)>,
    /// Items of which something was said.
    handles: Vec<u32>,
    /// Answers to this P2PS alone, to be repeated: they come but once.
    answers: Vec<(Kind, u32, u32, Vec<u8>)>,
    dictionaries: bool,
}

impl Missed {
    /// Reads the messages that a P2PS has lost.
    pub(super) fn read<'a>(messages: impl Iterator<Item = Message<'a>>, id: u16) -> Self {
        let mut missed = Self::default();
        for message in messages.filter(|message| message.target == ALL || message.target == id) {
            missed.note(&message);
        }
        missed.services.sort_unstable();
        missed.services.dedup();
        missed.handles.sort_unstable();
        missed.handles.dedup();
        missed
    }

    fn note(&mut self, message: &Message<'_>) {
        let &Message { kind, handle, arg, body, .. } = message;
        let service = u16::try_from(arg).unwrap_or_default();
        match kind {
            Kind::Service => self.services.push((service, false)),
            Kind::ServiceGone | Kind::ServiceStatus | Kind::GroupStatus => self.services.push((service, true)),
            Kind::Image | Kind::Answered | Kind::Update | Kind::ItemStatus | Kind::Generic => self.handles.push(handle),
            Kind::ItemOpened => {
                self.answers.push((kind, handle, arg, Vec::new()));
                self.handles.push(handle);
            }
            Kind::Refused | Kind::Ack | Kind::Resync => {
                self.answers.push((kind, handle, arg, body.to_vec()));
            }
            Kind::Dictionary => self.dictionaries = true,
            _ => {}
        }
    }
}

impl SourceDistributor {
    /// Says again what can be said again, and names the items of which it cannot.
    pub(super) fn tell_again(&mut self, slot: u8, id: u16, missed: Missed) {
        for &(service, _) in &missed.services {
            if self.services.get(service).is_some_and(|known| known.advertised) {
                self.publish_service(service, id);
            } else {
                self.hub.event(&Event::ServiceGone { service });
            }
        }
        if missed.dictionaries {
            self.publish_dictionaries(id);
        }
        for (kind, handle, arg, body) in &missed.answers {
            self.hub.message_with(*kind, 0, id, *handle, *arg, |out| out.extend_from_slice(body));
        }
        let mut handles = missed.handles;
        if missed.services.iter().any(|(_, of_items)| *of_items) {
            let said = |service: u16| missed.services.contains(&(service, true));
            let all = self.items.handles();
            handles.extend(all.filter(|&handle| self.items.get(handle).is_some_and(|item| said(item.service))));
        }
        handles.sort_unstable();
        handles.dedup();
        let bit = (1 as Slots) << slot;
        for handle in handles {
            if self.items.get(handle).is_some_and(|item| item.interest & bit != 0) {
                self.hub.event(&Event::Missed { target: id, handle });
            }
        }
    }

    /// The P2PS asks for an image of an item that is over: it has not heard of the end, or that is on its way.
    pub(super) fn repeat_end(&mut self, handle: u32, slot: u8) {
        let (Some(item), Some(target)) = (self.items.get(handle), self.peers.id(slot)) else { return };
        let stream = if item.has(Bits::PRIVATE) { StreamState::CLOSED } else { StreamState::CLOSED_RECOVER };
        let state = State::new(stream, DataState::SUSPECT, StateCode::NONE, "Item has ended, and is asked for again");
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(item.domain()), 0) };
        let Ok(rwf) = self.scratch.write(|w| status.encode(w)) else { return };
        self.hub.event(&Event::ItemStatus { target, handle, group: NO_GROUP, flags: flags::CLOSED, rwf });
    }
}
