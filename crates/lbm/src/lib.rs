//! Topic messaging over reliable multicast, in options, behaviour and bytes like 29West LBM (Ultra Messaging), as state machines
//! without I/O: bytes and `now` (monotonic nanoseconds) go in, bytes and events come out. There is no socket, clock or thread here;
//! stock Wireshark reads the packets.
//!
//! From the bottom to the top:
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | packets: LBMC messages, LBT-RM, LBT-RU, LBMR |
//! | [`transport`] | numbered datagrams: window, NAKs, retransmission, rate limits; LBT-RM, LBT-RU, TCP, IPC |
//! | [`topic`] | sources and receivers: numbering, order, fragments, late join, recovery, requests |
//! | [`resolver`] | who offers which topic: multicast, or through a resolver daemon |
//! | [`publisher`], [`subscriber`] | the same put together: what a driver deals with |
//! | [`options`] | every option under its LBM name, from files and from code |
//!
//! The crate `lbm-io` is the driver: sockets, shared memory and a turn around all this.
//!
//! A driver sends what `output` and `on_timer` give it, hands in what it receives, and calls `on_timer` when `timeout` is reached:
//!
//! ```
//! use lbm::publisher::Publisher;
//! use lbm::subscriber::{SubscribeConfig, Subscriber};
//! use lbm::topic::{Message, SourceConfig, TopicSink};
//! use lbm::transport::{EndReason, Lbtrm, SenderConfig};
//! use lbm::wire::lbmr::{Advert, Transport};
//! use lbm::wire::lbmr_option::TopicOptions;
//!
//! struct Print(Vec<String>);
//! impl TopicSink for Print {
//!     fn message(&mut self, _receiver: u32, message: Message<'_>) {
//!         self.0.push(String::from_utf8_lossy(message.payload).into_owned());
//!     }
//!     fn lost(&mut self, _receiver: u32, sqn: u32) { self.0.push(format!("lost {sqn}")); }
//!     fn burst_lost(&mut self, _receiver: u32, first: u32, count: u32) { self.0.push(format!("lost {count} from {first}")); }
//!     fn end(&mut self, _receiver: u32, reason: EndReason) { self.0.push(format!("end: {reason:?}")); }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (source, group) = ([10, 1, 1, 10].into(), [224, 10, 10, 10].into());
//! let session = Lbtrm { unicast_port: 14390, session_id: 0x5e55_1d01, group_size: 3 };
//! let mut publisher = Publisher::new(session, SenderConfig::default(), 0x1000_0001);
//! let topic = publisher.add(SourceConfig::default());
//!
//! // What a `Resolver` would have found.
//! let transport = Transport::Lbtrm { source, group, session_id: 0x5e55_1d01, destination_port: 14400, unicast_port: 14390 };
//! let advert = Advert { name: b"md.equities.ibm", ttl: 60, topic, options: TopicOptions::default(), transport };
//! let mut subscriber = Subscriber::new(1);
//! let mut sink = Print(Vec::new());
//! subscriber.subscribe(0, &advert, 1, &SubscribeConfig::default(), &mut sink);
//!
//! publisher.send(1, topic, b"IBM bid 142.10", false)?;
//! publisher.send(1, topic, b"IBM ask 142.12", true)?;
//! let mut sent = 0;
//! for train in publisher.output(1).trains(65_000, 64) {
//!     for datagram in train.datagrams() {
//!         subscriber.receive(2, source, (group, 14400), datagram, &mut sink)?;
//!     }
//!     sent += train.datagrams;
//! }
//! publisher.sender().sent(1, sent);
//! assert_eq!(sink.0, ["IBM bid 142.10", "IBM ask 142.12"]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod fault;
pub mod options;
pub mod publisher;
mod random;
pub mod resolver;
pub mod subscriber;
pub mod topic;
pub mod transport;
pub mod wire;
