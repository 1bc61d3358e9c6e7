//! The side of a play that is not under test: the server in front of consumers and publishers, or the consumer in front of a provider.

use rwf::msg::Msg;

use crate::consumer::Consumer;
use crate::file::Judges;
use crate::market::{Act, Market, MarketConfig};
use crate::numbers::ServiceIds;
use crate::standby::StandbyPart;

/// What the process under test talks to.
#[derive(Debug)]
pub(crate) enum Side {
    Server(Box<Market>),
    Consumer(Box<Consumer>),
}

/// Calls the same method of either side.
macro_rules! either {
    ($side:expr, $name:ident => $call:expr) => {
        match $side {
            Side::Server($name) => $call,
            Side::Consumer($name) => $call,
        }
    };
}

impl Side {
    pub(crate) fn new(judges: Judges, config: MarketConfig) -> Self {
        match judges {
            Judges::Provider => Self::Consumer(Box::new(Consumer::new(config.seed))),
            Judges::Consumer | Judges::Publisher => Self::Server(Box::new(Market::new(config))),
        }
    }

    /// The server, for steps that are about one.
    pub(crate) fn server(&mut self) -> Result<&mut Market, String> {
        match self {
            Self::Server(server) => Ok(server),
            Self::Consumer(_) => Err("there is no server in front of a provider".to_owned()),
        }
    }

    /// The consumer, for steps that are about one.
    pub(crate) fn consumer(&mut self) -> Result<&mut Consumer, String> {
        match self {
            Self::Consumer(consumer) => Ok(consumer),
            Self::Server(_) => Err("there is a consumer only in front of a provider".to_owned()),
        }
    }

    pub(crate) fn take(&mut self) -> Option<Act> {
        either!(self, side => side.take())
    }

    pub(crate) fn connections(&self) -> usize {
        either!(self, side => side.connections())
    }

    pub(crate) fn has_login(&self) -> bool {
        either!(self, side => side.has_login())
    }

    pub(crate) fn has_directory(&self) -> bool {
        match self {
            Self::Consumer(consumer) => consumer.has_directory(),
            Self::Server(server) => server.has_directory(),
        }
    }

    pub(crate) fn has_part(&self, part: StandbyPart) -> bool {
        match self {
            Self::Server(server) => server.has_part(part),
            Self::Consumer(_) => false,
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        match self {
            Self::Consumer(consumer) => consumer.is_answered(),
            Self::Server(_) => false,
        }
    }

    pub(crate) fn open_items(&self, domain: Option<&str>) -> usize {
        either!(self, side => side.open_items(domain))
    }

    pub(crate) fn posts_seen(&self) -> u64 {
        match self {
            Self::Server(server) => server.posts_seen(),
            Self::Consumer(_) => 0,
        }
    }

    pub(crate) fn first(&self) -> Option<&str> {
        either!(self, side => side.first())
    }

    pub(crate) fn ids(&self, conn: u32) -> Option<&ServiceIds> {
        either!(self, side => side.ids(conn))
    }

    pub(crate) fn item(&self, conn: u32, stream: i32) -> Option<&str> {
        either!(self, side => side.item(conn, stream))
    }

    pub(crate) fn wall_s(&self, now: u64) -> u64 {
        match self {
            Self::Server(server) => server.wall_s(now),
            Self::Consumer(_) => 0,
        }
    }

    pub(crate) fn connected(&mut self, conn: u32) -> Result<(), String> {
        either!(self, side => side.connected(conn))
    }

    pub(crate) fn closed(&mut self, now: u64, conn: u32) {
        match self {
            Self::Server(server) => server.closed(conn),
            Self::Consumer(consumer) => consumer.closed(now, conn),
        }
    }

    /// A connection could not be made.
    pub(crate) fn refused(&mut self, now: u64) {
        if let Self::Consumer(consumer) = self {
            consumer.refused(now);
        }
    }

    pub(crate) fn message(&mut self, now: u64, conn: u32, msg: &Msg<'_>) -> Result<(), String> {
        match self {
            Self::Server(server) => server.message(now, conn, msg),
            Self::Consumer(consumer) => consumer.message(conn, msg),
        }
    }

    pub(crate) fn due(&self) -> Option<u64> {
        either!(self, side => side.due())
    }

    pub(crate) fn advance(&mut self, now: u64) -> Result<(), String> {
        match self {
            Self::Server(server) => server.advance(now),
            Self::Consumer(consumer) => {
                consumer.advance(now);
                Ok(())
            }
        }
    }
}
