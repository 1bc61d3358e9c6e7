//! The types of messages.

/// The type of a message. Up to 63 they travel from Source Distributor to P2PS, from 64 the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// [`super::Event::Service`]
    Service = 1,
    /// [`super::Event::ServiceGone`]
    ServiceGone = 2,
    /// [`super::Event::ServiceStatus`]
    ServiceStatus = 3,
    /// [`super::Event::GroupStatus`]
    GroupStatus = 4,
    /// [`super::Event::ItemOpened`]
    ItemOpened = 5,
    /// [`super::Event::Refused`]
    Refused = 6,
    /// [`super::Event::Image`]
    Image = 7,
    /// [`super::Event::Update`]
    Update = 8,
    /// [`super::Event::ItemStatus`]
    ItemStatus = 9,
    /// [`super::Event::Ack`]
    Ack = 10,
    /// [`super::Event::Generic`]
    Generic = 11,
    /// [`super::Event::Dictionary`]
    Dictionary = 12,
    /// [`super::Event::Heartbeat`]
    Heartbeat = 13,
    /// [`super::Event::Missed`]
    Missed = 14,
    /// [`super::Event::CaughtUp`]
    CaughtUp = 15,
    /// [`super::Event::Resync`]
    Resync = 16,
    /// [`super::Event::Leaving`]
    Leaving = 17,
    /// [`super::Event::Answered`]
    Answered = 18,
    /// [`super::Event::Record`]
    Record = 19,
    /// [`super::Event::Servers`]
    Servers = 20,
    /// [`super::Request::Hello`]
    Hello = 64,
    /// [`super::Request::Open`]
    Open = 65,
    /// [`super::Request::Refresh`]
    Refresh = 66,
    /// [`super::Request::Reissue`]
    Reissue = 67,
    /// [`super::Request::Close`]
    Close = 68,
    /// [`super::Request::Post`]
    Post = 69,
    /// [`super::Request::Generic`]
    GenericUp = 70,
    /// [`super::Request::Heartbeat`]
    HeartbeatUp = 71,
    /// [`super::Request::Gap`]
    Gap = 72,
    /// [`super::Request::Bye`]
    Bye = 73,
    /// [`super::Request::Serve`]
    Serve = 74,
}

impl Kind {
    /// Whether a message that is lost to a P2PS is said again to it as it was: answers, which come but once. Others are about what can be said as it
    /// is by then.
    pub const fn is_repeated(self) -> bool {
        matches!(self, Self::Refused | Self::Ack | Self::Resync)
    }

    /// The kind with this number on the wire; `None` for a number that this version does not define.
    #[inline]
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Service,
            2 => Self::ServiceGone,
            3 => Self::ServiceStatus,
            4 => Self::GroupStatus,
            5 => Self::ItemOpened,
            6 => Self::Refused,
            7 => Self::Image,
            8 => Self::Update,
            9 => Self::ItemStatus,
            10 => Self::Ack,
            11 => Self::Generic,
            12 => Self::Dictionary,
            13 => Self::Heartbeat,
            14 => Self::Missed,
            15 => Self::CaughtUp,
            16 => Self::Resync,
            17 => Self::Leaving,
            18 => Self::Answered,
            19 => Self::Record,
            20 => Self::Servers,
            64 => Self::Hello,
            65 => Self::Open,
            66 => Self::Refresh,
            67 => Self::Reissue,
            68 => Self::Close,
            69 => Self::Post,
            70 => Self::GenericUp,
            71 => Self::HeartbeatUp,
            72 => Self::Gap,
            73 => Self::Bye,
            74 => Self::Serve,
            _ => return None,
        })
    }

    /// True for what a Source Distributor sends, false for what a P2PS sends.
    pub const fn is_event(self) -> bool {
        (self as u8) < 64
    }
}
