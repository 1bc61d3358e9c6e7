//! Reliable multicast without a network: every fourth datagram is lost on its way, the receiver asks for it, the source
//! sends it again, and the application sees each message once and in order.
//! `cargo run -p quoteway-lbm --example recovery`

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use lbm::publisher::Publisher;
use lbm::subscriber::{SubscribeConfig, Subscriber};
use lbm::topic::{Message, SourceConfig, TopicSink};
use lbm::transport::{EndReason, Lbtrm, SenderConfig};
use lbm::wire::lbmr::{Advert, Transport};
use lbm::wire::lbmr_option::TopicOptions;
use std::error::Error;
use std::net::Ipv4Addr;

const MILLISECOND: u64 = 1_000_000;
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 10);
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 10);

struct Print;

impl TopicSink for Print {
    fn message(&mut self, _receiver: u32, message: Message<'_>) {
        println!("    message {} {}", message.sqn, String::from_utf8_lossy(message.payload));
    }
    fn lost(&mut self, _receiver: u32, sqn: u32) {
        println!("    lost for good: {sqn}");
    }
    fn burst_lost(&mut self, _receiver: u32, first: u32, count: u32) {
        println!("    lost for good: {count} from {first}");
    }
    fn end(&mut self, _receiver: u32, reason: EndReason) {
        println!("    the source is gone: {reason:?}");
    }
}

/// Takes what the source has to send: retransmissions, then new datagrams.
fn sent(publisher: &mut Publisher<Lbtrm>, now: u64) -> Vec<Vec<u8>> {
    let output = publisher.output(now);
    let control: Vec<_> = output.control().map(<[u8]>::to_vec).collect();
    let again: Vec<_> = output.retransmissions().map(<[u8]>::to_vec).collect();
    let fresh: Vec<_> =
        output.trains(65_000, 64).flat_map(|train| train.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect();
    let sender = publisher.sender();
    sender.sent_control(control.len());
    sender.sent_retransmissions(now, again.len());
    sender.sent(now, fresh.len() as u32);
    [control, again, fresh].concat()
}

fn main() -> Result<(), Box<dyn Error>> {
    let session = Lbtrm { unicast_port: 14_390, session_id: 0x5e55_1d01, group_size: 3 };
    let mut publisher = Publisher::new(session, SenderConfig::default(), 0x1000_0001);
    let topic = publisher.add(SourceConfig::default());

    // What a `Resolver` would have found.
    let transport = Transport::Lbtrm {
        source: SOURCE,
        group: GROUP,
        session_id: session.session_id,
        destination_port: 14_400,
        unicast_port: session.unicast_port,
    };
    let advert = Advert { name: b"md.equities.ibm", ttl: 60, topic, options: TopicOptions::default(), transport };
    let mut subscriber = Subscriber::new(1);
    subscriber.subscribe(0, &advert, 1, &SubscribeConfig::default(), &mut Print);

    let mut datagrams = 0;
    for step in 1..=600 {
        let now = step * MILLISECOND;
        if step <= 10 {
            publisher.send(now, topic, format!("IBM bid 142.{step:02}").as_bytes(), true)?;
        }
        publisher.on_timer(now);
        for datagram in sent(&mut publisher, now) {
            datagrams += 1;
            if datagrams % 4 == 0 {
                println!("{step} ms: a datagram of {} bytes is lost", datagram.len());
            } else {
                subscriber.receive(now, SOURCE, (GROUP, 14_400), &datagram, &mut Print)?;
            }
        }
        let mut naks = Vec::new();
        subscriber.on_timer(now, &mut Print, |_, _, nak| naks.push(nak.to_vec()), |_| ());
        for nak in naks {
            println!("{step} ms: the receiver asks for what is missing");
            publisher.receive(now, 1, &nak);
        }
    }
    Ok(())
}
