//! What is known of an item beside where it stands, in two bytes.

use super::{Kind, Past, Sharing, Trouble};
use std::fmt;

/// What an item is and what is noted of it, in bits: there are millions of items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    /// The item's watchers were told that it is suspect, and no good image came since.
    pub(super) const SUSPECT: u16 = 1;
    /// Clients may know it by another group than its present one.
    pub(super) const REGROUPED: u16 = 1 << 1;
    /// The item is in the queue of images to ask for.
    pub(super) const REFRESH_QUEUED: u16 = 1 << 2;
    /// The item shows more than was asked for upstream: no image fits before the answer to the reissue that asks for more.
    pub(super) const AWAITS_WIDER: u16 = 1 << 3;
    /// Watchers may want another priority than was asked for; it is looked at once, at the end of the turn.
    pub(super) const DEMANDS_CHANGED: u16 = 1 << 4;
    /// One image and no updates: see [`Kind::snapshot`].
    pub(super) const SNAPSHOT: u16 = 1 << 5;
    /// Two bits each: [`Sharing`], [`Trouble`], [`Past`].
    const SHARING_SHIFT: u32 = 6;
    const TROUBLE_SHIFT: u32 = 8;
    const PAST_SHIFT: u32 = 10;

    pub(super) const fn new(kind: Kind) -> Self {
        let sharing = match kind.sharing {
            Sharing::Shared => 0,
            Sharing::Private => 1,
            Sharing::Qualified => 2,
        };
        Self(sharing << Self::SHARING_SHIFT | if kind.snapshot { Self::SNAPSHOT } else { 0 })
    }

    #[inline]
    pub(super) const fn has(self, mark: u16) -> bool {
        self.0 & mark != 0
    }

    /// Notes whether something is so; tells whether it was.
    #[inline]
    pub(super) const fn set(&mut self, mark: u16, is_so: bool) -> bool {
        let before = self.has(mark);
        self.0 = if is_so { self.0 | mark } else { self.0 & !mark };
        before
    }

    const fn pair(self, shift: u32) -> u16 {
        self.0 >> shift & 3
    }

    const fn set_pair(&mut self, shift: u32, value: u16) {
        self.0 = self.0 & !(3 << shift) | value << shift;
    }

    #[inline]
    pub(super) const fn kind(self) -> Kind {
        let sharing = match self.pair(Self::SHARING_SHIFT) {
            0 => Sharing::Shared,
            1 => Sharing::Private,
            _ => Sharing::Qualified,
        };
        Kind { sharing, snapshot: self.has(Self::SNAPSHOT) }
    }

    pub(super) const fn trouble(self) -> Trouble {
        match self.pair(Self::TROUBLE_SHIFT) {
            0 => Trouble::None,
            1 => Trouble::Unanswered,
            _ => Trouble::Lost,
        }
    }

    pub(super) const fn set_trouble(&mut self, trouble: Trouble) {
        let value = match trouble {
            Trouble::None => 0,
            Trouble::Unanswered => 1,
            Trouble::Lost => 2,
        };
        self.set_pair(Self::TROUBLE_SHIFT, value);
    }

    pub(super) const fn past(self) -> Past {
        match self.pair(Self::PAST_SHIFT) {
            0 => Past::New,
            1 => Past::Imaged,
            2 => Past::Lost,
            _ => Past::LostImaged,
        }
    }

    pub(super) const fn set_past(&mut self, past: Past) {
        let value = match past {
            Past::New => 0,
            Past::Imaged => 1,
            Past::Lost => 2,
            Past::LostImaged => 3,
        };
        self.set_pair(Self::PAST_SHIFT, value);
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SUSPECT, "suspect"),
            (Self::REGROUPED, "regrouped"),
            (Self::REFRESH_QUEUED, "refresh queued"),
            (Self::AWAITS_WIDER, "awaits wider"),
            (Self::DEMANDS_CHANGED, "demands changed"),
        ];
        write!(f, "{:?}, {:?}, trouble {:?}", self.kind(), self.past(), self.trouble())?;
        names.iter().filter(|(mark, _)| self.has(*mark)).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}
