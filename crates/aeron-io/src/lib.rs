//! A byte stream from one process to many on Aeron: a publication and its subscriptions through Aeron's C client, with a media driver of
//! this process or another one's.
//!
//! [`Settings`] say how the two sides meet; the channels follow from them. A [`Publication`] belongs to the thread that offers: it never
//! waits, and wants a [`turn`](Publication::turn) now and then. [`Subscriptions`] poll in a thread of their own, since Aeron has no
//! descriptor to sleep on: what comes is handed on through a ring, and a descriptor tells the owner. Both outlive the media driver: one that dies
//! ends the streams, and the next one that runs in its directory is taken.
//!
//! Without the feature `aeron` nothing of Aeron is built: both types have no values, and making one says what to build.
#![forbid(unsafe_code)]

mod settings;

#[cfg(not(feature = "aeron"))]
mod absent;
#[cfg(feature = "aeron")]
mod client;
#[cfg(feature = "aeron")]
mod driver;
#[cfg(feature = "aeron")]
mod idling;
#[cfg(feature = "aeron")]
mod intake;
#[cfg(feature = "aeron")]
mod publication;
#[cfg(feature = "aeron")]
mod subscriptions;

#[cfg(not(feature = "aeron"))]
pub use absent::{Publication, Subscriptions};
#[cfg(feature = "aeron")]
pub use publication::Publication;
#[cfg(feature = "aeron")]
pub use subscriptions::Subscriptions;

pub use settings::{DriverOf, FlowControl, Idle, Medium, Settings};

/// Whether Aeron is built in.
pub const IS_BUILT_IN: bool = cfg!(feature = "aeron");

/// Why an end of a stream cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AeronError {
    /// The program was built without it.
    #[error(
        "this program was built without Aeron: build it with --features aeron (cargo build --release -p quoteway --features aeron; needs cmake 3.30, a C compiler, libclang)"
    )]
    NotBuiltIn,
    /// A text that goes to the driver has a NUL in it.
    #[error("{0:?} has a NUL in it")]
    Nul(String),
    /// The operating system refuses a thread or a descriptor.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What became of an offered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Every subscriber gets it.
    Taken,
    /// Flow control holds it back: offer it again.
    Full,
    /// Nobody subscribes, or there is no media driver: it is gone.
    Unheard,
    /// The block is longer than a third of what the term buffers allow: it is gone.
    TooLong,
}

/// What a subscription brings, in order. Streams are numbered; a number is used again once its stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A publication is heard.
    Begin {
        /// The stream's number.
        stream: usize,
        /// Aeron's number of the publication's session.
        session: i32,
        /// Where it comes from: `address:port`, or `aeron:ipc`.
        from: &'a str,
    },
    /// A message.
    Message {
        /// The stream's number.
        stream: usize,
        /// The bytes of the block.
        bytes: &'a [u8],
    },
    /// No more comes of a publication.
    End {
        /// The stream's number.
        stream: usize,
        /// Why.
        why: &'a str,
    },
}

/// What was counted, of one end. The last four are the media driver's, of all its clients, as of a second ago at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that nobody subscribed to.
    pub unheard: u64,
    /// Times that the media driver was lost.
    pub drivers_lost: u64,
    /// Publications heard.
    pub images: u64,
    /// Of these, such that have ended.
    pub images_ended: u64,
    /// Times that the ring to the owner was full: Aeron's flow control held the publications back.
    pub held: u64,
    /// Messages dropped because that lasted longer than patience.
    pub dropped: u64,
    /// NAKs sent.
    pub naks_sent: u64,
    /// NAKs received.
    pub naks_received: u64,
    /// Datagrams sent again.
    pub retransmits: u64,
    /// Errors that the driver noted.
    pub errors: u64,
}
