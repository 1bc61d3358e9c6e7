//! Images held for non-interactive providers: what an item would send if it were asked.
//!
//! An image is the payload of the last refresh with every update since applied to it, and the header members that a
//! refresh needs beside it. Payloads are kept in the form in which they are sent, set definitions resolved (a value in
//! set form means nothing without its set). See `content` for the containers.

mod content;
mod lists;
mod rows;
#[cfg(test)]
mod tests;

use super::items::NO_IMAGE;
use content::Content;
use rwf::msg::{MsgKey, RefreshFlags, RefreshMsg};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, SetScope, State, StateCode, StreamState};

/// Why a payload could not be applied. The image is not current then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The payload is malformed.
    Malformed,
    /// An update of a container that has no rules for updates, or of another type than the image's.
    NotUpdatable,
    /// Too large, or nested too deeply.
    TooLarge,
}

impl From<rwf::DecodeError> for Misfit {
    fn from(_: rwf::DecodeError) -> Self {
        Self::Malformed
    }
}

impl From<EncodeError> for Misfit {
    fn from(_: EncodeError) -> Self {
        Self::TooLarge
    }
}

/// The image of one item.
#[derive(Debug)]
pub(super) struct Image {
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

#[derive(Debug)]
struct Payload {
    content: Content,
    container: DataType,
    /// Everything that came could be applied.
    sound: bool,
}

impl Payload {
    fn apply(&mut self, container: DataType, body: &[u8], refresh: bool) -> Result<(), Misfit> {
        let nothing = container == DataType::NO_DATA || (body.is_empty() && !refresh);
        let result = if nothing {
            Ok(())
        } else if container == self.container {
            self.content.apply(container, body, &SetScope::NONE, refresh, 0)
        } else {
            Err(Misfit::NotUpdatable)
        };
        self.sound &= result.is_ok();
        result
    }
}

#[derive(Debug, Default)]
struct Extra {
    text: Box<[u8]>,
    perm_data: Option<Box<[u8]>>,
}

const UNSOUND: &str = "An update could not be applied to the held image: waiting for the provider's next refresh";

impl Image {
    fn new() -> Self {
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

    /// Takes a part of a refresh in. The last one makes the parts the image; until then the old one stands.
    pub(super) fn refresh(&mut self, refresh: &RefreshMsg<'_>, first: bool, complete: bool) -> Result<(), Misfit> {
        self.set_state(&refresh.state);
        self.qos = refresh.qos.or(self.qos);
        self.seq_num = refresh.seq_num.or(self.seq_num);
        if let Some(perm_data) = refresh.perm_data {
            self.set_perm_data(perm_data);
        }
        let begin = || Payload { content: Content::Empty, container: refresh.container, sound: true };
        if first && complete {
            self.next = None;
            return self.whole.insert(begin()).apply(refresh.container, refresh.body, true);
        }
        if first {
            self.next = None;
        }
        let next = self.next.get_or_insert_with(|| Box::new(begin()));
        let applied = next.apply(refresh.container, refresh.body, true);
        if complete {
            self.whole = self.next.take().map(|next| *next);
        }
        applied
    }

    /// Takes an update in: into the image, and into the parts of the next one. An image that was `lost` is of another life
    /// of its provider, whose updates mean nothing to it.
    pub(super) fn update(
        &mut self,
        container: DataType,
        body: &[u8],
        seq_num: Option<u32>,
        lost: bool,
    ) -> Result<(), Misfit> {
        self.seq_num = seq_num.or(self.seq_num);
        if let Some(next) = &mut self.next {
            let _ = next.apply(container, body, false);
        }
        self.whole.as_mut().filter(|_| !lost).map_or(Ok(()), |whole| whole.apply(container, body, false))
    }

    /// The refresh under way will not be completed.
    pub(super) fn abandon_set(&mut self) {
        self.next = None;
    }

    /// Whether a whole refresh has come.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The state that a message of the provider gave.
    pub(super) fn set_state(&mut self, state: &State<'_>) {
        if state.data != DataState::NO_CHANGE {
            self.data = state.data;
        }
        self.code = state.code;
        let text = self.extra.as_ref().map_or(&[][..], |extra| &extra.text);
        if *text != *state.text {
            self.extra.get_or_insert_default().text = state.text.into();
        }
    }

    pub(super) fn set_perm_data(&mut self, perm_data: &[u8]) {
        self.extra.get_or_insert_default().perm_data = Some(perm_data.into());
    }

    /// Data state as it stands; an image that could not be kept up is Suspect whatever the provider said.
    pub(super) fn is_suspect(&self) -> bool {
        self.data == DataState::SUSPECT || !self.is_sound()
    }

    fn is_sound(&self) -> bool {
        self.whole.as_ref().is_none_or(|whole| whole.sound)
    }

    /// Writes the image from row `from` on as one refresh, up to about `limit` bytes of payload. The next part's first
    /// row, or `None` if this was the last part.
    pub(super) fn write<'a>(
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
        refresh.container = whole.container;
        // It is the whole truth: whatever a consumer has of a set that was broken off is void.
        refresh.flags.set(RefreshFlags::CLEAR_CACHE, from == 0);
        refresh.qos = self.qos;
        refresh.seq_num = self.seq_num;
        let extra = self.extra.as_deref();
        refresh.perm_data = extra.and_then(|extra| extra.perm_data.as_deref());
        let text = extra.map_or(&[][..], |extra| &extra.text);
        refresh.state = if whole.sound {
            State { stream: StreamState::OPEN, data: self.data, code: self.code, text }
        } else {
            State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::GAP_DETECTED, UNSOUND)
        };
        refresh.encode_header(w)?;
        let next = whole.content.write_part(from, limit, w)?;
        if next.is_none() {
            // SOLICITED is set, so the low byte of the flags is where it is whether they take one byte or two.
            refresh.flags |= RefreshFlags::REFRESH_COMPLETE;
            let two_bytes = refresh.wire_flags().0 >= 0x80;
            let low = refresh.wire_flags().0 as u8;
            w.patch_u8(start + FLAGS + usize::from(two_bytes), low);
        }
        Ok(next)
    }
}

/// The header of the refreshes that an image is sent in.
pub(super) fn header(
    domain: rwf::msg::Domain,
    stream_id: i32,
    key: MsgKey<'_>,
    part_num: Option<u16>,
) -> RefreshMsg<'_> {
    RefreshMsg { flags: RefreshFlags::SOLICITED, key: Some(key), part_num, ..RefreshMsg::new(domain, stream_id) }
}

/// All images, by index.
#[derive(Debug, Default)]
pub(super) struct Cache {
    images: Vec<Option<Box<Image>>>,
    free: Vec<u32>,
}

impl Cache {
    /// A place for an image without content.
    pub(super) fn add(&mut self) -> u32 {
        let image = Some(Box::new(Image::new()));
        if let Some(index) = self.free.pop() {
            self.images[index as usize] = image;
            return index;
        }
        self.images.push(image);
        (self.images.len() - 1) as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<&Image> {
        self.images.get(index as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Image> {
        self.images.get_mut(index as usize)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, index: u32) {
        if index != NO_IMAGE && self.images.get_mut(index as usize).is_some_and(|image| image.take().is_some()) {
            self.free.push(index);
        }
    }
}
