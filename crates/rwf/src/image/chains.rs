//! Where the fields of a held list are that ripple to each other: to find them again with each update would take ten times as long as
//! the update.

use crate::dictionary::Dictionary;
use std::ops::Range;

/// What is known of the chains of fields in a held list, and of its layout.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// Where the chains are, if that is noted. Of no meaning while [`Chains::mark`] is 0.
    places: Option<Box<Places>>,
    /// Mark of the dictionary that this is of ([`Dictionary::chains_mark`], which is even); 0 if nobody has looked since a field was added.
    /// Without places: [`SOMEWHERE`] is set if something that is held ripples to something that is held, and is not noted, because there
    /// are too many places, or they lie too far behind; else nothing does.
    mark: u32,
    /// The number of the list's layout in [`Plans`](super::Plans); 0 if that is not known.
    ///
    /// INVARIANT: it is 0 as soon as a field comes, or a value has another length.
    layout: u32,
}

/// See [`Chains::mark`].
const SOMEWHERE: u32 = 1;

/// Most places that are noted, the ends of chains counted: those of bid, ask and last trade are 14.
const MAX_PLACES: usize = 20;
/// No place.
const END: u16 = u16::MAX;
/// Most fields of an update that ripple; one with more goes the long way.
const MAX_RIPPLING: usize = 8;
/// Lengths from here on are in the long form.
const LONG: u8 = 0xFE;
/// Bytes of a list whose values may ripple by noted places: these stay below [`END`], whatever lengths the values get by that.
const MAX_HELD: usize = END as usize / 2;

/// The places of chains.
#[derive(Debug)]
pub(super) struct Places {
    /// Where the entries of a chain begin in the list, in the chain's order, and [`END`] behind each.
    ///
    /// INVARIANT: chains that begin within another one are not here; each field that ripples to one that is held is here.
    places: [u16; MAX_PLACES],
}

impl Chains {
    /// Whether this is what a dictionary says.
    #[inline]
    pub(super) fn is_of(&self, dictionary: &Dictionary) -> bool {
        self.mark & !SOMEWHERE == dictionary.chains_mark()
    }

    /// Whether nothing that is held ripples to anything that is held.
    #[inline]
    pub(super) const fn is_nowhere(&self) -> bool {
        self.mark != 0 && self.mark & SOMEWHERE == 0 && self.places.is_none()
    }

    /// Where the chains are.
    #[inline]
    pub(super) fn noted(&self) -> Option<&Places> {
        self.places.as_deref()
    }

    /// The number of the list's layout; 0 if that is not known.
    #[inline]
    pub(super) const fn layout(&self) -> u32 {
        self.layout
    }

    /// The list is of the layout of this number.
    pub(super) const fn set_layout(&mut self, layout: u32) {
        self.layout = layout;
    }

    /// The chains are looked for anew; no field has come or changed. Memory for places that is there is used again.
    pub(super) fn replace(&mut self, Found { places, mark }: Found) {
        self.mark = mark;
        match (&mut self.places, places) {
            (Some(room), Some(places)) => **room = places,
            (room, places) => *room = places.map(Box::new),
        }
    }

    /// Nothing is known any more; the memory for places stays.
    pub(super) const fn forget(&mut self) {
        (self.mark, self.layout) = (0, 0);
    }

    /// The entry at `start` has become longer by so many bytes, or shorter.
    pub(super) fn moved(&mut self, start: usize, by: isize) {
        self.layout = 0;
        let Some(noted) = &mut self.places else { return };
        let behind = noted.places.iter_mut().filter(|place| **place != END && usize::from(**place) > start);
        let mut fits = true;
        for place in behind {
            let at = u16::try_from(usize::from(*place).saturating_add_signed(by)).unwrap_or(END);
            fits &= at != END;
            *place = at;
        }
        if !fits {
            self.places = None;
            self.mark |= SOMEWHERE;
        }
    }
}

/// What a look through a list has found, for [`Chains::replace`].
pub(super) struct Found {
    places: Option<Places>,
    mark: u32,
}

/// Takes chains in while a list is looked through.
pub(super) struct Noting {
    noted: Places,
    mark: u32,
    len: usize,
    fits: bool,
}

impl Noting {
    pub(super) const fn new(dictionary: &Dictionary) -> Self {
        Self { noted: Places { places: [END; MAX_PLACES] }, mark: dictionary.chains_mark(), len: 0, fits: true }
    }

    /// A chain, by where its entries begin.
    pub(super) fn chain(&mut self, places: impl ExactSizeIterator<Item = usize>) {
        if self.len + places.len() >= MAX_PLACES {
            self.fits = false;
            return;
        }
        for place in places {
            let place = u16::try_from(place).unwrap_or(END);
            self.fits &= place != END;
            self.noted.places[self.len] = place;
            self.len += 1;
        }
        // The end of the chain is there already.
        self.len += 1;
    }

    /// Places cannot be noted.
    pub(super) const fn give_up(&mut self) {
        self.fits = false;
    }

    /// True if an entry that begins there is in a chain.
    pub(super) fn has(&self, place: usize) -> bool {
        self.noted.places.iter().any(|&noted| noted != END && usize::from(noted) == place)
    }

    pub(super) const fn end(self) -> Found {
        match (self.fits, self.len) {
            (false, _) => Found { places: None, mark: self.mark | SOMEWHERE },
            (true, 0) => Found { places: None, mark: self.mark },
            (true, _) => Found { places: Some(self.noted), mark: self.mark },
        }
    }
}

/// Chains, each by where its places begin and end in those that are noted.
pub(super) struct Begun {
    chains: [Range<usize>; MAX_RIPPLING],
    count: usize,
}

impl Begun {
    pub(super) fn chains(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.chains[..self.count].iter().cloned()
    }
}

impl Places {
    /// Where an entry begins.
    #[inline]
    pub(super) fn at(&self, number: usize) -> usize {
        usize::from(self.places[number])
    }

    /// The chains that begin with fields that an update has, whose standard entries these are, in the order of the update. `None` if it is
    /// not so simple: long values, a long list, a field in the middle of a chain, an update that is malformed.
    pub(super) fn begun_by(&self, held: &[u8], update: &[u8], count: u16, dictionary: &Dictionary) -> Option<Begun> {
        let mut begun = Begun { chains: [const { 0..0 }; MAX_RIPPLING], count: 0 };
        let mut rest = update;
        for _ in 0..count {
            let [hi, lo, length @ 0..LONG, behind @ ..] = rest else { return None };
            rest = behind.get(usize::from(*length)..)?;
            if !dictionary.ripples(i16::from_be_bytes([*hi, *lo])) {
                continue;
            }
            match self.chain_of([*hi, *lo], held) {
                Of::Nothing => {}
                Of::Chain(chain) if begun.count < MAX_RIPPLING && self.is_simple(&chain, held) => {
                    begun.chains[begun.count] = chain;
                    begun.count += 1;
                }
                Of::Chain(_) | Of::Middle => return None,
            }
        }
        Some(begun)
    }

    /// Whether the values of a chain may change places: all are short, and no place moves out of reach.
    fn is_simple(&self, chain: &Range<usize>, held: &[u8]) -> bool {
        let is_short = |place: &u16| held.get(usize::from(*place) + 2).is_some_and(|&length| length < LONG);
        held.len() < MAX_HELD && self.places[chain.clone()].iter().all(is_short)
    }

    /// The chain that begins with a field.
    #[inline]
    fn chain_of(&self, fid: [u8; 2], held: &[u8]) -> Of {
        let is = |place: &u16| held.get(usize::from(*place)..).is_some_and(|entry| entry.starts_with(&fid));
        let mut start = 0;
        for chain in self.places.split(|&place| place == END).take_while(|chain| !chain.is_empty()) {
            let end = start + chain.len();
            match chain.iter().position(is) {
                Some(0) => return Of::Chain(start..end),
                Some(at) if at + 1 < chain.len() => return Of::Middle,
                _ => start = end + 1,
            }
        }
        Of::Nothing
    }
}

/// What chain a field is of.
enum Of {
    Nothing,
    /// The chain begins with the field.
    Chain(Range<usize>),
    /// The chain goes through the field.
    Middle,
}
