//! Hot failover: rules one by one, against a naive model, and in worlds that lose datagrams and processes.

mod model;
mod rules;
mod tshark;
mod world;

use lbm::topic::Message;
use lbm::wire::Writer;
use lbm::wire::lbmc;
use lbm_failover::{Delivered, Difference, Encoded, Failover, FailoverSink, Lost, Mark, Number, Read, Way};

/// An event of a receiver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    Message { source: u32, way: Way, payload: Vec<u8> },
    Lost(Lost),
    Differs(Difference),
    Reset(Number),
}

#[derive(Debug, Default)]
struct Ear(Vec<News>);

impl FailoverSink for Ear {
    fn message(&mut self, delivered: Delivered<'_>) {
        let Delivered { source, way, message, .. } = delivered;
        self.0.push(News::Message { source, way, payload: message.payload.to_vec() });
    }
    fn lost(&mut self, lost: Lost) {
        self.0.push(News::Lost(lost));
    }
    fn differs(&mut self, difference: Difference) {
        self.0.push(News::Differs(difference));
    }
    fn reset(&mut self, _source: u32, next: Number) {
        self.0.push(News::Reset(next));
    }
}

impl Ear {
    /// The numbers of first copies since the last call.
    fn firsts(&mut self) -> Vec<u64> {
        let all = std::mem::take(&mut self.0);
        let first = |told: &News| match told {
            News::Message { way: Way::First(mark), .. } => Some(mark.number.value()),
            _ => None,
        };
        all.iter().filter_map(first).collect()
    }
}

/// Hands a receiver the message that a source would have sent.
fn hear(
    failover: &mut Failover,
    now: u64,
    (source, sqn): (u32, u32),
    mark: Option<Mark>,
    payload: &[u8],
    ear: &mut Ear,
) {
    let mut bytes = vec![0; payload.len() + 64];
    let mut w = Writer::new(&mut bytes);
    let encoded = mark.map(Encoded::of);
    let headers = encoded.as_ref().map(Encoded::headers);
    let headers = headers.as_ref().map_or(&[][..], |headers| headers.as_slice());
    lbmc::encode(&mut w, lbmc::Kind::Message, 7, sqn, headers, lbmc::NEXT_DATA, payload).expect("room");
    let (message, _) = lbmc::Message::decode(w.written()).expect("a message");
    let payload = message.content().expect("a payload").payload;
    let message = Message { sqn, payload, properties: 0, kind: message.kind, headers: message.headers() };
    failover.message(now, source, &Read::of(&message.headers), &message, ear);
    failover.check_invariants();
}
