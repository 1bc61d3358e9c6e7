//! Source-side filtering of LBT-RU: each client gets the session's datagrams under their numbers, with the messages alone of topics that it
//! has asked for. A datagram without any is its header.

use std::collections::HashMap;

use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::lbmc::{self, Message};
use lbm::wire::lbtru::DATA_HEADER;
use lbm::wire::{Writer, distance};

/// See the module.
pub(super) struct Wishes {
    init: FilterInit,
    /// By the client's own id: topics, and from which datagram on. A topic that was not wanted before has no part of an earlier one, also if
    /// that is sent again: its receiver would take what is left out between for lost.
    by_client: HashMap<u32, HashMap<u32, u32>>,
    /// A client has come, and has not been told where to ask.
    pub(super) is_untold: bool,
    /// Datagrams as the present client gets them, back to back.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Wishes {
    pub(super) fn new(init: FilterInit) -> Self {
        Self { init, by_client: HashMap::new(), is_untold: true, bytes: Vec::new(), lengths: Vec::new() }
    }

    /// Tells clients where to ask. It goes to all of them: each asks under the id that it has given itself.
    pub(super) fn announcement(&self) -> Vec<u8> {
        let mut bytes = [0; 32];
        let mut w = Writer::new(&mut bytes);
        let body = self.init.body();
        let written = lbmc::encode_control(&mut w, &[FilterInit::header(&body)]);
        debug_assert!(written.is_ok(), "the buffer has room");
        w.written().to_vec()
    }

    /// A client wants a topic, from the datagram of this number on, or no more.
    pub(super) fn request(&mut self, request: &FilterRequest, from: u32) {
        let topics = self.by_client.entry(request.client).or_default();
        if request.include {
            // Said again, it is no new wish.
            topics.entry(request.topic).or_insert(from);
        } else {
            topics.remove(&request.topic);
        }
    }

    /// Forgets clients that are no more.
    pub(super) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.by_client.retain(|client, _| is_there(*client));
    }

    /// Makes of datagrams what a client gets of them. False: they are as they were. A client without an id cannot ask, and gets everything.
    pub(super) fn cut<'a>(&mut self, client: Option<u32>, datagrams: impl Iterator<Item = &'a [u8]>) -> bool {
        self.bytes.clear();
        self.lengths.clear();
        let Some(client) = client else { return false };
        let nothing = HashMap::new();
        let wanted = self.by_client.get(&client).unwrap_or(&nothing);
        let mut is_cut = false;
        for datagram in datagrams {
            let start = self.bytes.len();
            is_cut |= cut(datagram, wanted, &mut self.bytes);
            self.lengths.push(self.bytes.len() - start);
        }
        is_cut
    }

    /// The datagrams of [`Wishes::cut`].
    pub(super) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |length| {
            let (datagram, behind) = rest.split_at(*length);
            rest = behind;
            datagram
        })
    }
}

/// Appends a datagram with what is wanted of it. Whether something is left out.
fn cut(datagram: &[u8], wanted: &HashMap<u32, u32>, out: &mut Vec<u8>) -> bool {
    // All datagrams of a session have a header.
    let Some((header, mut rest)) = datagram.split_at_checked(DATA_HEADER) else { return false };
    let sqn = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    out.extend_from_slice(header);
    let mut is_cut = false;
    while let Ok((message, length)) = Message::decode(rest) {
        let (bytes, behind) = rest.split_at(length);
        let is_wanted = || wanted.get(&message.topic).is_some_and(|from| distance(*from, sqn) >= 0);
        if message.kind.has_topic() && !is_wanted() {
            is_cut = true;
        } else {
            out.extend_from_slice(bytes);
        }
        rest = behind;
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn datagram(sqn: u32, topics: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; DATA_HEADER];
        bytes[4..8].copy_from_slice(&sqn.to_be_bytes());
        for topic in topics {
            bytes.extend_from_slice(&lbmc::data_header(lbmc::DATA_HEADER as u16 + 3, *topic, 9));
            bytes.extend_from_slice(b"abc");
        }
        bytes
    }

    #[test]
    fn each_client_gets_its_topics_from_its_wish_on() {
        let init = FilterInit { transport: 1, client: 0, port: 2, address: Ipv4Addr::LOCALHOST, by_receiver: false };
        let mut wishes = Wishes::new(init);
        let wish = |client, topic, include| FilterRequest { include, transport: 1, topic, client };
        wishes.request(&wish(7, 1, true), u32::MAX);
        wishes.request(&wish(7, 2, true), 1);
        // Said again later, it holds from where it did.
        wishes.request(&wish(7, 1, true), 100);
        let sent = [datagram(u32::MAX, &[1, 2, 3]), datagram(0, &[2]), datagram(1, &[2, 1])];
        let get = |wishes: &mut Wishes, client| {
            let is_cut = wishes.cut(client, sent.iter().map(Vec::as_slice));
            (is_cut, wishes.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        let (is_cut, got) = get(&mut wishes, Some(7));
        assert!(is_cut);
        assert_eq!(got, [datagram(u32::MAX, &[1]), datagram(0, &[]), datagram(1, &[2, 1])]);
        let (is_cut, got) = get(&mut wishes, Some(8));
        assert!(is_cut && got.iter().all(|datagram| datagram.len() == DATA_HEADER), "who has not asked gets nothing");
        assert!(!get(&mut wishes, None).0, "who cannot ask gets all");
        wishes.request(&wish(7, 1, false), 5);
        assert_eq!(get(&mut wishes, Some(7)).1[2], datagram(1, &[2]));
        wishes.keep(|client| client != 7);
        assert_eq!(get(&mut wishes, Some(7)).1[2], datagram(1, &[]));
    }
}
