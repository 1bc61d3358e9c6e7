//! What a P2PS has to hear again after messages of the stream were lost to it.

use crate::SourceDistributor;
use crate::ids::{Handle, Slot};
use crate::stream::{ALL, Event, Kind, Message, flags};
use rwf::{DataState, State, StateCode, StreamState};

/// The subjects of lost messages.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Services that said something, of themselves or of all their items or groups, and whether they said it of items.
    services: Vec<(u16, bool)>,
    /// Items of which something was said.
    handles: Vec<Handle>,
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
        let handle = Handle(handle);
        match kind {
            Kind::Service => self.services.push((service, false)),
            Kind::ServiceGone | Kind::ServiceStatus | Kind::GroupStatus => self.services.push((service, true)),
            Kind::Image | Kind::Answered | Kind::Update | Kind::ItemStatus | Kind::Generic => self.handles.push(handle),
            Kind::ItemOpened => {
                self.answers.push((kind, handle.0, arg, Vec::new()));
                self.handles.push(handle);
            }
            _ if kind.is_repeated() => self.answers.push((kind, handle.0, arg, body.to_vec())),
            Kind::Dictionary => self.dictionaries = true,
            _ => {}
        }
    }
}

impl SourceDistributor {
    /// Says again what can be said again, and names the items of which it cannot.
    pub(super) fn tell_again(&mut self, slot: Slot, id: u16, missed: Missed) {
        for &(service, _) in &missed.services {
            if self.providers.service(service).is_some_and(|known| known.advertised) {
                self.publish_service(service, id);
            } else {
                self.hub.event(&Event::ServiceGone { service });
            }
        }
        if missed.dictionaries {
            self.publish_dictionaries(id);
        }
        for (kind, handle, arg, body) in &missed.answers {
            self.hub.repeat(*kind, id, *handle, *arg, body);
        }
        let mut handles = missed.handles;
        if missed.services.iter().any(|(_, of_items)| *of_items) {
            let said = |service: u16| missed.services.contains(&(service, true));
            handles.extend(self.open_at(slot, |item| said(item.service())));
        }
        handles.sort_unstable();
        handles.dedup();
        for handle in handles {
            // The lost message may have been of an item that is gone, or of one that others have open.
            if self.items.get(handle).is_some_and(|item| item.interest().contains(slot)) {
                self.hub.event(&Event::Missed { target: id, handle: handle.0 });
            }
        }
    }

    /// The P2PS asks for an image of an item that is over: it has not heard of the end, or that is on its way.
    pub(crate) fn repeat_end(&mut self, handle: Handle, slot: Slot) {
        let item = &self.items[handle];
        assert!(item.is_ended() && item.interest().contains(slot));
        let stream = if item.is_private() { StreamState::CLOSED } else { StreamState::CLOSED_RECOVER };
        let state = State::new(stream, DataState::SUSPECT, StateCode::NONE, "Item has ended, and is asked for again");
        let target = self.links.number(slot);
        self.publish_status(handle, target, flags::CLOSED, state);
    }
}
