//! Hot failover: several sources send the same messages of a topic, each under the number that the application gives it, by whichever
//! transports; a receiver delivers every number once, from the source whose copy came first. A source that dies leaves no gap as long as
//! another one lives. A state machine: messages and `now` (monotonic nanoseconds) go in, deliveries come out.
//!
//! | module | what it is |
//! |---|---|
//! | [`mark`] | the number and its flags in a message's extension headers |
//! | [`receiver`] | the copies of all sources of one topic, made one stream |
//! | [`content`] | the same for publishers that number nothing: copies are told by what is in them |
//!
//! ```
//! use lbm::topic::Message;
//! use lbm::wire::lbmc;
//! use lbm_failover::mark::{Encoded, Mark, Number, Read};
//! use lbm_failover::receiver::{Config, Delivered, Failover, FailoverSink};
//!
//! #[derive(Default)]
//! struct Got(Vec<(u32, Vec<u8>)>);
//! impl FailoverSink for Got {
//!     fn message(&mut self, delivered: Delivered<'_>) {
//!         self.0.push((delivered.source, delivered.message.payload.to_vec()));
//!     }
//! }
//!
//! let mut failover = Failover::new(Config::default());
//! let mut got = Got::default();
//! for source in [1, 2] {
//!     failover.begin(0, source);
//! }
//! // Both sources send 0 to 2; the second one is behind, and then alone.
//! for (source, number) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)] {
//!     let encoded = Encoded::of(Mark::new(Number::Bits32(number)));
//!     let mut bytes = [0; 64];
//!     let mut w = lbm::wire::Writer::new(&mut bytes);
//!     lbmc::encode(&mut w, lbmc::Kind::Message, 7, number, encoded.headers().as_slice(), lbmc::NEXT_DATA, b"tick")?;
//!     let (message, _) = lbmc::Message::decode(w.written())?;
//!     let payload = message.content()?.payload;
//!     let message = Message { sqn: message.sqn, payload, properties: 0, kind: message.kind, headers: message.headers() };
//!     failover.message(0, source, &Read::of(&message.headers), &message, &mut got);
//! }
//! let sources: Vec<u32> = got.0.iter().map(|(source, _)| *source).collect();
//! assert_eq!(sources, [1, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod content;
pub mod mark;
pub mod receiver;

mod held;
mod recent;
mod spans;
mod trail;

pub use mark::{Encoded, Mark, Number, Read};
pub use receiver::{Config, Delivered, Difference, Failover, FailoverSink, Lost, Order, Stats, Way};
