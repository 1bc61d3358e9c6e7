//! Events of venues on the web, and requests to them.

/// Decimals of a book's prices and sizes, which are whole numbers of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Decimals of prices.
    pub price: u8,
    /// Decimals of sizes.
    pub size: u8,
}

/// The fate of a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Prices and sizes count in these decimals from here on. Told before the first of them; never coarser than before.
    Scale(Scale),
    /// It is not the exchange's, or may not be: why.
    Suspect(Doubt),
    /// It is the exchange's.
    Good,
    /// The exchange refuses the product, in its words.
    Refused(String),
}

/// Why a book is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its checksum is another one.
    Checksum,
    /// The connection is gone.
    Connection,
    /// A message about it cannot be read.
    Unreadable,
    /// Its messages are numbered, and some are missing.
    Missing,
    /// A message names a level or an order that is not there.
    Unknown,
    /// More came than is held while its beginning was awaited.
    Overflow,
    /// Its best bid is above its best ask, which the venue's rules exclude.
    Crossed,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Checksum => "its checksum is another one",
            Self::Connection => "the connection to the exchange is lost",
            Self::Unreadable => "a message about it cannot be read",
            Self::Missing => "messages about it are missing",
            Self::Unknown => "a message names what is not in its book",
            Self::Overflow => "more came than is held while its beginning was awaited",
            Self::Crossed => "its best bid is above its best ask, which cannot be there",
        })
    }
}

/// What is to be done, once each, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A text to be sent.
    Say(String),
    /// A path with its query to be got from the venue's HTTP server; the body is for [`WebVenue::answer`](super::WebVenue::answer).
    Fetch(String),
    /// The connection is silent: a new one.
    Reconnect,
}

/// Doubts by kind: input that cannot be meant so; none stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// No JSON, or none of the exchange's.
    pub text: u64,
    /// A price, size or time that is none.
    pub value: u64,
    /// A level or an order was deleted that is not there.
    pub unknown_level: u64,
    /// Checksums that were wrong.
    pub checksum: u64,
    /// Changes of a product without a snapshot.
    pub early: u64,
    /// Numbers that did not follow the one before.
    pub gaps: u64,
    /// Books whose best bid was above the best ask, at venues that exclude it.
    pub crossed: u64,
    /// Texts and products of which there are too many to be held.
    pub too_many: u64,
}

impl Bad {
    /// All kinds with their names for people.
    pub fn kinds(&self) -> [(&'static str, u64); 8] {
        [
            ("texts that are none of the exchange's", self.text),
            ("prices, sizes and times that are none", self.value),
            ("levels and orders that are not there", self.unknown_level),
            ("wrong checksums", self.checksum),
            ("changes before a snapshot", self.early),
            ("gaps", self.gaps),
            ("crossed books that cannot be", self.crossed),
            ("texts and products that are too many", self.too_many),
        ]
    }
}
