//! The image of one item: a payload and the header members of its refreshes.

use super::content::rippling;
use super::{Ahead, ApplyError, Latest, Payload, Plans, Schema};
use crate::msg::{RefreshFlags, RefreshMsg, UpdateFlags, UpdateMsg};
use crate::wire::Writer;
use crate::{DataState, EncodeError, Qos, State, StateCode, StreamState};

/// Text of the state of an image that could not be kept up.
const UNSOUND: &str = "An update could not be applied to the held image: waiting for the provider's next refresh";

/// Highest part number that a refresh can have.
const MAX_PART_NUM: u16 = 0x7FFF;

/// The image of one item. See the [module](super) for what is applied how.
///
/// A refresh in several parts becomes the image when its last part is in; until then the old image stands, and updates
/// go into both.
#[derive(Debug, Default)]
pub struct Image {
    /// The payload of the last whole refresh, with every update since.
    whole: Option<Payload>,
    /// The parts so far of a refresh under way, in several parts.
    next: Option<Box<Payload>>,
    data: DataState,
    code: StateCode,
    qos: Option<Qos>,
    seq_num: Option<u32>,
    /// What few items have.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
struct Extra {
    text: Box<[u8]>,
    /// What the item demands, as its source has said last.
    perm_data: Option<Box<[u8]>>,
    /// What it demands as long as the payload of before stands, while the parts of a refresh arrive that says something else.
    before: Option<Demand>,
    added: Option<Added>,
}

/// What an item demanded of who gets its image: an expression, or nothing.
#[derive(Debug)]
struct Demand(Option<Box<[u8]>>);

/// Writes the permission expression that demands both of two; an empty one demands nothing.
pub type Combine = fn(&[u8], &[u8]) -> Vec<u8>;

/// What updates with permission data of their own have put into an image. It stays in there whatever the item demands later, until a
/// refresh replaces the payload; so does what it demands.
#[derive(Debug)]
struct Added {
    /// Of the whole payload, and of the parts of a refresh under way.
    whole: Option<Box<[u8]>>,
    next: Option<Box<[u8]>>,
    /// All of it, and what the item demands.
    with_item: Box<[u8]>,
    combine: Combine,
}

impl Extra {
    /// What the item demands of who gets the whole payload.
    fn of_whole(&self) -> Option<&[u8]> {
        self.before.as_ref().map_or(&self.perm_data, |before| &before.0).as_deref()
    }

    /// A refresh begins, or is there as a whole: what its source has said of the permissions before is said anew. The payload that stands
    /// until the last part demands what it did.
    fn begin(&mut self, stands: bool) {
        let said = self.perm_data.take();
        self.before = stands.then(|| self.before.take().unwrap_or(Demand(said)));
    }

    /// After one of the expressions has changed.
    fn settle(&mut self) {
        self.added = self.added.take().filter(|added| added.whole.is_some() || added.next.is_some());
        let item = self.before.as_ref().map_or(&self.perm_data, |before| &before.0);
        if let Some(added) = &mut self.added {
            let all = [item, &added.whole, &added.next].map(|one| one.as_deref().unwrap_or_default());
            added.with_item = all[1..].iter().fold(all[0].to_vec(), |both, one| (added.combine)(&both, one)).into();
        }
    }
}

impl Image {
    /// An image without payload. Its data is Ok as long as no message says otherwise.
    pub const fn new() -> Self {
        Self {
            whole: None,
            next: None,
            data: DataState::OK,
            code: StateCode::NONE,
            qos: None,
            seq_num: None,
            extra: None,
        }
    }

    /// Takes a part of a refresh in, with its state, quality of service, sequence number and permission data. A part is
    /// the first one if no refresh is under way or its number is 0, the last one if it says `REFRESH_COMPLETE`.
    ///
    /// A refresh that says `DO_NOT_CACHE` leaves no payload: the source wants to be asked again.
    ///
    /// A refresh replaces the image whether or not it says `CLEAR_CACHE`: it is a picture of the whole item.
    ///
    /// # Errors
    /// The part cannot be applied. The state counts nevertheless, and a last part becomes the image, as
    /// [suspect](Image::is_suspect).
    pub fn refresh(&mut self, refresh: &RefreshMsg<'_>, schema: &Schema<'_>) -> Result<(), ApplyError> {
        self.set_state(&refresh.state);
        self.qos = refresh.qos.or(self.qos);
        self.seq_num = refresh.seq_num.or(self.seq_num);
        let first = self.next.is_none() || refresh.part_num == Some(0);
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let replaces = complete || refresh.flags.contains(RefreshFlags::DO_NOT_CACHE);
        if refresh.perm_data.is_some() {
            self.extra.get_or_insert_default();
        }
        if let Some(extra) = &mut self.extra {
            if let Some(added) = &mut extra.added {
                added.next = added.next.take().filter(|_| !first);
                if replaces {
                    added.whole = added.next.take();
                }
            }
            // Each refresh says anew what the item demands: one without permission data demands nothing.
            if first {
                extra.begin(!replaces && self.whole.is_some());
            }
            if let Some(perm_data) = refresh.perm_data {
                extra.perm_data = Some(perm_data.into());
            }
            if replaces {
                extra.before = None;
            }
            extra.settle();
        }
        if refresh.flags.contains(RefreshFlags::DO_NOT_CACHE) {
            (self.whole, self.next) = (None, None);
            return Ok(());
        }
        let begin = || Payload::new(refresh.container);
        if first && complete {
            self.next = None;
            return self.whole.insert(begin()).refresh(refresh.container, refresh.body, schema);
        }
        if first {
            self.next = None;
        }
        let next = self.next.get_or_insert_with(|| Box::new(begin()));
        let applied = next.refresh(refresh.container, refresh.body, schema);
        if complete {
            self.whole = self.next.take().map(|next| *next);
        }
        applied
    }

    /// Takes an update in: into the image, and into the parts of a refresh under way.
    ///
    /// # Errors
    /// The update cannot be applied to the image, which is [suspect](Image::is_suspect) until the next refresh.
    #[inline]
    pub fn update(&mut self, update: &UpdateMsg<'_>, schema: &Schema<'_>) -> Result<(), ApplyError> {
        self.update_next(update, schema);
        let Some(whole) = self.whole.as_mut().filter(|_| !update.flags.contains(UpdateFlags::DO_NOT_CACHE)) else {
            return Ok(());
        };
        if update.flags.contains(UpdateFlags::DO_NOT_RIPPLE) {
            return whole.update(update.container, update.body, &rippling(update, schema));
        }
        whole.update(update.container, update.body, schema)
    }

    /// As [`Image::update`] of an update message, for images of a cache: what updates of this make do to images of this layout is planned
    /// once for all of them.
    ///
    /// # Errors
    /// The message is malformed, or cannot be applied to the image, which is [suspect](Image::is_suspect) then until the next refresh.
    #[inline]
    pub fn update_planned(&mut self, message: &[u8], plans: &mut Plans) -> Result<(), ApplyError> {
        if let (Some(whole), None) = (&mut self.whole, &self.next)
            && whole.update_planned(message, plans, &mut self.seq_num)
        {
            return Ok(());
        }
        self.update(&UpdateMsg::decode(message)?, &plans.schema())
    }

    /// Notes the layout of a whole image for [`Image::update_planned`] while its bytes are near, as they are when a refresh has just come: its
    /// first update finds what is planned for others like it, and does not have to read the image.
    pub fn note_layout(&mut self, plans: &mut Plans) {
        if let Some(whole) = &mut self.whole {
            whole.note_layout(plans);
        }
    }

    /// Looks for what is planned for an update of this image: the first of two looks before [`Image::update_ahead`]. It reads the image's head, no entries.
    #[inline]
    pub fn ahead(&self, message: &[u8], plans: &Plans) -> Ahead {
        self.whole.as_ref().map_or(Ahead::default(), |whole| whole.ahead(message, plans))
    }

    /// Has the memory come near that the update reads and writes for which [`Image::ahead`] has looked: for many images one after the other, before updates of
    /// them are applied. The value means nothing; it is to be kept ([`std::hint::black_box`]) so that nobody leaves the look out.
    #[inline]
    pub fn touch(&self, ahead: Ahead, plans: &Plans) -> u8 {
        self.whole.as_ref().map_or(0, |whole| whole.touch(ahead, plans))
    }

    /// As [`Image::update_planned`], of a message for which [`Image::ahead`] has looked, whatever has come between.
    ///
    /// # Errors
    /// Those of [`Image::update_planned`].
    #[inline]
    pub fn update_ahead(&mut self, message: &[u8], plans: &mut Plans, ahead: Ahead) -> Result<(), ApplyError> {
        if let (Some(whole), None) = (&mut self.whole, &self.next)
            && whole.update_ahead(message, plans, &mut self.seq_num, ahead)
        {
            return Ok(());
        }
        self.update(&UpdateMsg::decode(message)?, &plans.schema())
    }

    /// Updates may be kept beside this image from now on ([`Plans::keep`]), if it is one of which plans know the layout, and no other is on its way. Before it is read
    /// or changed, [`Image::take_in`] is due.
    #[inline]
    pub fn open(&self, latest: &mut Latest, plans: &Plans) {
        latest.close();
        if let (Some(whole), None) = (&self.whole, &self.next) {
            whole.open(latest, plans);
        }
    }

    /// Takes in what is kept beside this image, if there is anything.
    ///
    /// # Errors
    /// An update that was kept cannot be applied to the image, which is [suspect](Image::is_suspect) then until the next refresh. What has a plan, as all that is kept
    /// has, can be applied: this would be a fault of the plan.
    #[inline]
    pub fn take_in(&mut self, latest: &mut Latest, plans: &mut Plans) -> Result<(), ApplyError> {
        match &mut self.whole {
            Some(whole) if latest.is_due() => whole.take_in(latest, plans, &mut self.seq_num),
            _ => Ok(()),
        }
    }

    /// Takes an update in that means nothing to the image, only to the refresh under way: the image is of an earlier life
    /// of its source. The refresh is [suspect](Image::is_suspect) when it is whole if the update cannot be applied.
    #[inline]
    pub fn update_next(&mut self, update: &UpdateMsg<'_>, schema: &Schema<'_>) {
        self.seq_num = update.seq_num.or(self.seq_num);
        if let Some(next) = self.next.as_mut().filter(|_| !update.flags.contains(UpdateFlags::DO_NOT_CACHE)) {
            // The payload remembers that something is missing; an image that nobody has seen is not worth a report.
            let _ = next.update(update.container, update.body, &rippling(update, schema));
        }
    }

    /// The refresh under way will not be completed: its parts are forgotten, the image before it stands.
    pub fn abandon_refresh(&mut self) {
        self.next = None;
        if let Some(extra) = &mut self.extra {
            if let Some(Demand(before)) = extra.before.take() {
                extra.perm_data = before;
            }
            if let Some(added) = &mut extra.added {
                added.next = None;
            }
            extra.settle();
        }
    }

    /// Whether a refresh in several parts is under way.
    pub const fn is_refreshing(&self) -> bool {
        self.next.is_some()
    }

    /// Whether a whole refresh has come.
    pub const fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The payload of the last whole refresh, with every update since.
    pub const fn payload(&self) -> Option<&Payload> {
        self.whole.as_ref()
    }

    /// Takes over the state that a message gave; the stream's state is not kept, an image is of an open stream.
    pub fn set_state(&mut self, state: &State<'_>) {
        if state.data != DataState::NO_CHANGE {
            self.data = state.data;
        }
        self.code = state.code;
        let text = self.extra.as_ref().map_or(&[][..], |extra| &extra.text);
        if *text != *state.text {
            self.extra.get_or_insert_default().text = state.text.into();
        }
    }

    /// Takes over what the item demands, as a message of its source gave it. What was added by [`Image::add_perm_data`] is demanded besides.
    pub fn set_perm_data(&mut self, perm_data: &[u8]) {
        let is_known = |extra: &Extra| extra.before.is_none() && extra.perm_data.as_deref() == Some(perm_data);
        if !self.extra.as_deref().is_some_and(is_known) {
            let extra = self.extra.get_or_insert_default();
            extra.perm_data = Some(perm_data.into());
            // The lock is of the item, whichever payload stands.
            extra.before = extra.before.is_some().then(|| Demand(extra.perm_data.clone()));
            extra.settle();
        }
    }

    /// What the item itself demands, without what updates have added.
    pub fn item_perm_data(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.of_whole()
    }

    /// An update with permission data of its own was taken in: who gets the image has to satisfy that, too, until a refresh has replaced
    /// the payload, whatever the item demands meanwhile.
    pub fn add_perm_data(&mut self, perm_data: &[u8], combine: Combine) {
        let is_refreshing = self.next.is_some();
        let extra = self.extra.get_or_insert_default();
        let added =
            extra.added.get_or_insert_with(|| Added { whole: None, next: None, with_item: Box::default(), combine });
        let with = |known: &mut Option<Box<[u8]>>| {
            *known = Some(combine(known.as_deref().unwrap_or_default(), perm_data).into());
        };
        with(&mut added.whole);
        if is_refreshing {
            with(&mut added.next);
        }
        extra.settle();
    }

    /// The permission expression of the image: what the item demands, and what updates have added.
    pub fn perm_data(&self) -> Option<&[u8]> {
        let extra = self.extra.as_ref()?;
        extra.added.as_ref().map_or(extra.of_whole(), |added| Some(&added.with_item))
    }

    /// The last sequence number seen.
    pub const fn seq_num(&self) -> Option<u32> {
        self.seq_num
    }

    /// The quality of service of the last refresh that named one.
    pub const fn qos(&self) -> Option<Qos> {
        self.qos
    }

    /// True if the data is Suspect: the source said so, or something could not be applied.
    pub fn is_suspect(&self) -> bool {
        self.data == DataState::SUSPECT || !self.is_sound()
    }

    fn is_sound(&self) -> bool {
        self.whole.as_ref().is_none_or(Payload::is_sound)
    }

    /// The state that a refresh of the image has.
    pub fn state(&self) -> State<'_> {
        if !self.is_sound() {
            return State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::GAP_DETECTED, UNSOUND);
        }
        let text = self.extra.as_ref().map_or(&[][..], |extra| &extra.text);
        State { stream: StreamState::OPEN, data: self.data, code: self.code, text }
    }

    /// The image as a refresh of parts with up to about `limit` bytes of payload each; at least one entry is in each.
    ///
    /// Of `header` counts what the image does not know: domain, stream, key, group, who posted, and flags such as
    /// `SOLICITED` and `PRIVATE_STREAM`.
    pub const fn parts<'a>(&'a self, header: RefreshMsg<'a>, limit: usize) -> Parts<'a> {
        Parts { image: self, header, limit, row: Some(0), number: 0 }
    }

    /// Writes the image from row `from` on as one refresh, up to about `limit` bytes of payload: the first row of the
    /// next part, or `None` if this was the last one. [`Image::parts`] counts rows and parts by itself.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] without a whole image.
    pub fn write<'a>(
        &'a self,
        mut refresh: RefreshMsg<'a>,
        from: usize,
        limit: usize,
        w: &mut Writer<'_>,
    ) -> Result<Option<usize>, EncodeError> {
        /// Offset of the flags in a message.
        const FLAGS: usize = 8;
        let start = w.position();
        let Some(whole) = &self.whole else { return Err(EncodeError::Unrepresentable("image that is not whole")) };
        refresh.container = whole.container();
        // The image is the whole truth: whatever a consumer has of a refresh that was broken off is void.
        refresh.flags.set(RefreshFlags::CLEAR_CACHE, from == 0);
        refresh.flags.set(RefreshFlags::REFRESH_COMPLETE, false);
        refresh.qos = self.qos;
        refresh.seq_num = self.seq_num;
        refresh.perm_data = self.perm_data();
        refresh.state = self.state();
        refresh.encode_header(w)?;
        let next = whole.write_part(from, limit, w)?;
        if next.is_none() {
            refresh.flags |= RefreshFlags::REFRESH_COMPLETE;
            // The flag is one of the low seven bits: it does not change how many bytes the flags take.
            let two_bytes = refresh.wire_flags().0 >= 0x80;
            w.patch_u8(start + FLAGS + usize::from(two_bytes), refresh.wire_flags().0 as u8);
        }
        Ok(next)
    }
}

/// Which part of an image was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole image in one.
    Only,
    /// The first of several.
    First,
    /// One between the first and the last.
    Middle,
    /// The last of several.
    Last,
}

impl Part {
    /// Whether nothing follows.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Only | Self::Last)
    }

    /// Whether nothing came before.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::Only | Self::First)
    }
}

/// An image on its way out, part by part. Made by [`Image::parts`].
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    image: &'a Image,
    header: RefreshMsg<'a>,
    limit: usize,
    /// First row of the next part; `None` after the last.
    row: Option<usize>,
    number: u16,
}

impl Parts<'_> {
    /// Whether all parts have been written.
    pub const fn is_done(&self) -> bool {
        self.row.is_none()
    }

    /// Writes the next part as a whole refresh message. Parts are numbered only if there are several.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]: nothing has been written, the part can be asked for again with a larger buffer.
    /// [`EncodeError::Unrepresentable`] without a whole image, or after the last part.
    pub fn write(&mut self, w: &mut Writer<'_>) -> Result<Part, EncodeError> {
        let start = w.position();
        let done = self.write_at(w);
        if done.is_err() {
            w.rollback(start);
        }
        done
    }

    fn write_at(&mut self, w: &mut Writer<'_>) -> Result<Part, EncodeError> {
        let Some(row) = self.row else { return Err(EncodeError::Unrepresentable("part after the last one")) };
        let start = w.position();
        let first = row == 0;
        self.header.part_num = (!first).then_some(self.number);
        let mut next = self.image.write(self.header.clone(), row, self.limit, w)?;
        if first && next.is_some() {
            // Only now is it known to be the first of several.
            w.rollback(start);
            self.header.part_num = Some(0);
            next = self.image.write(self.header.clone(), row, self.limit, w)?;
        }
        self.row = next;
        self.number = (self.number + 1).min(MAX_PART_NUM);
        Ok(match (first, next.is_none()) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::msg::Domain;

    fn both(one: &[u8], other: &[u8]) -> Vec<u8> {
        [one, other].concat()
    }

    fn refresh(image: &mut Image, part_num: Option<u16>, flags: RefreshFlags, perm_data: Option<&[u8]>) {
        let refresh = RefreshMsg {
            flags,
            part_num,
            perm_data,
            container: DataType::FIELD_LIST,
            body: &[8, 0, 0],
            ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
        };
        image.refresh(&refresh, &Schema::NONE).expect("an empty list");
    }

    #[test]
    fn what_updates_have_added_to_permission_data_goes_with_what_they_have_added_to_the_image() {
        let (mut image, whole) = (Image::new(), RefreshFlags::REFRESH_COMPLETE);
        refresh(&mut image, None, whole, Some(b"i"));
        image.add_perm_data(b"a", both);
        image.set_perm_data(b"j");
        assert_eq!(image.perm_data(), Some(&b"ja"[..]));
        refresh(&mut image, Some(0), RefreshFlags::NONE, None);
        assert_eq!(image.perm_data(), Some(&b"ja"[..]), "the old payload is there until the last part");
        image.add_perm_data(b"b", both);
        assert_eq!(image.perm_data(), Some(&b"jabb"[..]), "in the old payload and in the parts of the new one");
        refresh(&mut image, Some(1), whole, None);
        assert_eq!(image.perm_data(), Some(&b"b"[..]));
        refresh(&mut image, Some(0), RefreshFlags::NONE, Some(b"k"));
        image.add_perm_data(b"c", both);
        image.abandon_refresh();
        assert_eq!(image.perm_data(), Some(&b"bc"[..]), "the lock of parts that are forgotten is, too");
        refresh(&mut image, None, whole, None);
        assert_eq!(image.perm_data(), None);
    }

    #[test]
    fn a_refresh_that_is_broken_off_leaves_the_lock_with_the_payload_that_it_locks() {
        let (mut image, whole, part) = (Image::new(), RefreshFlags::REFRESH_COMPLETE, RefreshFlags::NONE);
        refresh(&mut image, None, whole, Some(b"i"));
        refresh(&mut image, Some(0), part, None);
        assert_eq!(image.perm_data(), Some(&b"i"[..]));
        image.abandon_refresh();
        assert_eq!(image.perm_data(), Some(&b"i"[..]), "without permission data the parts would have opened it");
        refresh(&mut image, Some(0), part, Some(b"j"));
        refresh(&mut image, Some(0), part, Some(b"k"));
        assert_eq!(image.perm_data(), Some(&b"i"[..]), "another set begins");
        image.set_perm_data(b"s");
        assert_eq!(image.perm_data(), Some(&b"s"[..]), "a status is of the item");
        image.abandon_refresh();
        assert_eq!((image.perm_data(), image.item_perm_data()), (Some(&b"s"[..]), Some(&b"s"[..])));
        refresh(&mut image, Some(0), part, Some(b"l"));
        refresh(&mut image, Some(1), part, Some(b"m"));
        refresh(&mut image, Some(2), whole, None);
        assert_eq!(image.perm_data(), Some(&b"m"[..]), "as the last part that says anything has it");
        refresh(&mut image, Some(0), part, None);
        refresh(&mut image, Some(1), whole, None);
        assert_eq!(image.perm_data(), None);
    }
}
