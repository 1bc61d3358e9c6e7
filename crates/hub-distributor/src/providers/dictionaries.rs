//! Dictionaries that interactive providers offer: fetched once a session, kept for P2PSs that come later.

use super::downloads::{DICTIONARIES, Download, FIRST_STREAM};
use crate::ids::Origin;
use crate::stream::{ALL, Event};
use crate::timers::Timer;
use crate::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use rwf::dictionary::Verbosity;
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg};
use rwf::peek;
use rwf::rdm::dictionary::Request;
use rwf::rdm::directory::{Part, Service as Entry};

/// A whole dictionary of one service.
#[derive(Debug)]
struct Stored {
    service: u16,
    which: usize,
    parts: Vec<Box<[u8]>>,
}

/// The dictionaries that are there.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    stored: Vec<Stored>,
}

impl Dictionaries {
    fn bytes(&self) -> usize {
        self.stored.iter().flat_map(|stored| &stored.parts).map(|part| part.len()).sum()
    }

    /// Whether these parts say what one that is stored says already, whoever sent it.
    fn has(&self, which: usize, parts: &[Box<[u8]>]) -> bool {
        let same = |stored: &Stored| {
            stored.which == which
                && stored.parts.len() == parts.len()
                && stored.parts.iter().zip(parts).all(|(a, b)| peek::body(a) == peek::body(b))
        };
        self.stored.iter().any(same)
    }
}

impl SourceDistributor {
    /// Asks for the dictionaries that a service of this session provides and that the session was not asked for.
    pub(crate) fn request_dictionaries(
        &mut self,
        id: SessionId,
        service: u16,
        entry: &Entry,
        out: &mut dyn ProviderSink,
    ) {
        // Dictionaries are named in the service's information alone, and asked for where that is wanted.
        let Some(info) = entry.info.as_ref().and_then(Part::value).filter(|_| self.config.download_dictionaries) else {
            return;
        };
        for (which, name) in DICTIONARIES.iter().enumerate() {
            let offered = info.dictionaries_provided.iter().any(|provided| provided == name);
            let session = &mut self.providers.sessions[id];
            if !offered || matches!(session.origin, Origin::NonInteractive) || !session.downloads.begin(which, service)
            {
                continue;
            }
            let late = Timer::Dictionaries(id, session.serial);
            self.timers.set(self.now.saturating_add(self.config.dictionary_timeout), late);
            let request = Request {
                stream_id: FIRST_STREAM + which as i32,
                streaming: true,
                service_id: Some(entry.id),
                name: (*name).to_owned(),
                verbosity: Verbosity::NORMAL,
            };
            self.send(id, out, |w| request.encode(w));
        }
    }

    /// Takes a provider's message on a dictionary stream.
    pub(crate) fn dictionary_message(&mut self, id: SessionId, msg: &[u8]) -> Result<(), CloseReason> {
        let result = self.take_dictionary(id, msg);
        if !self.providers.sessions[id].downloads.is_awaited() {
            self.dictionaries_waited(id);
        }
        result
    }

    /// The services of a session wait no longer for its dictionaries.
    pub(crate) fn dictionaries_waited(&mut self, id: SessionId) {
        let session = &mut self.providers.sessions[id];
        if !session.downloads.end_wait() {
            return;
        }
        let services: Vec<u16> = session.offers.iter().map(|offer| offer.service).collect();
        for service in services {
            self.advertise(service);
        }
    }

    fn take_dictionary(&mut self, id: SessionId, msg: &[u8]) -> Result<(), CloseReason> {
        match Msg::decode(msg)? {
            Msg::Refresh(refresh) if refresh.domain == Domain::DICTIONARY => self.take_part(id, &refresh, msg),
            Msg::Status(status) => {
                if status.state.is_some_and(|state| state.stream.is_final()) {
                    *self.providers.sessions[id].downloads.on_stream(status.stream_id) = Download::Over;
                }
            }
            _ => self.counters.dropped_dictionaries += 1,
        }
        Ok(())
    }

    /// A part of a dictionary.
    fn take_part(&mut self, id: SessionId, refresh: &RefreshMsg<'_>, msg: &[u8]) {
        let room = self.config.max_dictionary_bytes.saturating_sub(self.providers.dictionaries.bytes());
        let session = &mut self.providers.sessions[id];
        let service = session.offers.iter().next().map_or(0, |offer| offer.service);
        let state = session.downloads.on_stream(refresh.stream_id);
        if refresh.state.stream.is_final() {
            *state = Download::Over;
            return;
        }
        if matches!(state, Download::Over) {
            // The provider's dictionary has changed: it sends the new one unasked.
            *state = Download::Running(service, Vec::new());
        }
        let Download::Running(service, parts) = state else {
            self.counters.dropped_dictionaries += 1;
            return;
        };
        if refresh.flags.contains(RefreshFlags::CLEAR_CACHE) {
            parts.clear();
        }
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if size + msg.len() > room {
            self.counters.dropped_dictionaries += 1;
            *state = Download::Over;
            return;
        }
        parts.push(msg.into());
        if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            let (service, parts) = (*service, std::mem::take(parts));
            *state = Download::Over;
            self.store_dictionary(service, (refresh.stream_id - FIRST_STREAM) as usize, parts);
        }
    }

    fn store_dictionary(&mut self, service: u16, which: usize, parts: Vec<Box<[u8]>>) {
        if self.providers.dictionaries.has(which, &parts) {
            return;
        }
        for rwf in &parts {
            self.hub.event(&Event::Dictionary { target: ALL, service, rwf });
        }
        self.providers.dictionaries.stored.retain(|stored| (stored.service, stored.which) != (service, which));
        self.providers.dictionaries.stored.push(Stored { service, which, parts });
    }

    /// Everything there is, for a P2PS that has just come.
    pub(crate) fn publish_dictionaries(&mut self, target: u16) {
        for stored in &self.providers.dictionaries.stored {
            for rwf in &stored.parts {
                self.hub.event(&Event::Dictionary { target, service: stored.service, rwf });
            }
        }
    }
}
