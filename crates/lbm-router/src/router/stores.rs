//! Stores of persistent sources: which they are is known in each domain, and receivers go there themselves.

use lbm::fault::named;

use super::portal::Portal;
use super::stream::Serving;
use super::tables::{Router, endpoint_told};
use crate::action::Action;
use crate::ids::{PortalId, StreamId};
use crate::wire::{Frame, STORES_MAX};

impl Router {
    /// The source of a number has said which stores it has: an encoded LBMC control message. What it said before is forgotten.
    pub fn source_stores(&mut self, portal: PortalId, number: u32, word: &[u8]) {
        // A source that was not taken has no stores here.
        let Some(id) = endpoint_told(&mut self.portals, portal, &mut self.stats)
            .and_then(|endpoint| endpoint.streams.get(&number).copied())
        else {
            return;
        };
        if word.is_empty() || word.len() > STORES_MAX {
            self.stats.stores_refused += 1;
        } else {
            self.set_stores(id, word);
        }
    }

    /// The word of a stream's source on its stores. `None`: none has come.
    pub fn stores(&self, stream: StreamId) -> Option<&[u8]> {
        let stream = self.streams.get(stream.0 as usize)?.as_deref()?;
        (!stream.stores.is_empty()).then_some(&*stream.stores)
    }

    /// Tells the word on; one that is known goes no further, so that copies by several paths come to an end.
    pub(super) fn set_stores(&mut self, id: u32, word: &[u8]) {
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        if *stream.stores == *word {
            return;
        }
        stream.stores = word.into();
        let told: Vec<(PortalId, u32)> = stream.downs.iter().map(|down| (down.portal, down.label)).collect();
        let serving = stream.proxies.iter().filter(|proxy| proxy.serving == Serving::Now);
        let proxies: Vec<PortalId> = serving.map(|proxy| proxy.portal).collect();
        let stream = StreamId(id);
        self.actions.extend(proxies.into_iter().map(|portal| Action::TellStores { portal, stream }));
        for (portal, label) in told {
            // A peer whose connection is over is told of all sources by the next one.
            if let Some(link) = self.portal(portal).and_then(Portal::link) {
                Frame::Stores { label, word }.encode(&mut link.out);
            }
        }
    }
}
