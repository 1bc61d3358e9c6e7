//! Images that are kept up while a recording is written or read.

use crate::record::Kind;
use rwf::image::{Image, Plans, Schema};
use rwf::msg::{Domain, Msg, RefreshMsg, UpdateFlags};
use rwf::wire::Writer;

/// Payload in a part of an image, bytes.
const PART: usize = 30_000;
/// Room for a message, bytes.
const MESSAGE_ROOM: usize = 128_000;
/// The lock of no version: it denies.
const NOBODY: [u8; 1] = [0];

/// An item's image, and whether it is what its source has.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) image: Image,
    /// The item is open: it has had a refresh, and no state that ends it.
    pub(crate) is_open: bool,
    /// A gap came after its last refresh.
    pub(crate) is_in_gap: bool,
    /// The image was changed since the last checkpoint.
    pub(crate) is_changed: bool,
}

/// Buffers to keep images up, once for all of them.
pub(crate) struct Keeping {
    plans: Plans,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeping").finish_non_exhaustive()
    }
}

impl Keeping {
    pub(crate) fn new() -> Self {
        Self { plans: Plans::new(None) }
    }

    /// Takes a message in. An image that cannot be kept up says so itself: it is suspect.
    pub(crate) fn apply(&mut self, held: &mut Held, kind: Kind, body: &[u8]) {
        match kind {
            Kind::Update if held.is_open => self.update(held, body),
            Kind::Refresh | Kind::Status => message(held, body),
            Kind::PermissionData if held.is_open => held.image.set_perm_data(body),
            _ => return,
        }
        held.is_changed = true;
    }

    fn update(&mut self, held: &mut Held, body: &[u8]) {
        // Permission data of updates is rare: the message is looked at only for it.
        if rwf::peek::flags(body).is_some_and(|flags| flags & UpdateFlags::HAS_PERM_DATA.0 != 0)
            && let Ok(Msg::Update(update)) = Msg::decode(body)
            && let Some(lock) = update.perm_data.filter(|_| !update.flags.contains(UpdateFlags::DO_NOT_CACHE))
        {
            held.image.add_perm_data(lock, both_locks);
        }
        let _ = held.image.update_planned(body, &mut self.plans);
    }
}

fn message(held: &mut Held, body: &[u8]) {
    let Ok(msg) = Msg::decode(body) else { return };
    if msg.state().is_some_and(|state| state.stream.is_final()) {
        *held = Held::default();
        return;
    }
    match msg {
        Msg::Refresh(refresh) => {
            let _ = held.image.refresh(&refresh, &Schema::NONE);
            held.is_open = true;
            held.is_in_gap &= held.image.is_refreshing();
        }
        Msg::Status(status) if held.is_open => {
            if let Some(state) = &status.state {
                held.image.set_state(state);
            }
            if let Some(perm_data) = status.perm_data {
                held.image.set_perm_data(perm_data);
            }
        }
        _ => {}
    }
}

/// The image as refreshes without a stream; empty if it is not whole or no message can carry it. `room` is for messages on their way, and kept from image to
/// image: clearing so much for each of many would take longer than all else.
pub(crate) fn parts(image: &Image, domain: u8, room: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    if !image.is_whole() {
        return all;
    }
    room.resize(MESSAGE_ROOM, 0);
    let mut parts = image.parts(RefreshMsg::new(Domain(domain), 0), PART);
    while !parts.is_done() {
        let mut writer = Writer::new(room);
        if parts.write(&mut writer).is_err() {
            // A row that no message can carry: the next refresh of the source brings the item back.
            return Vec::new();
        }
        all.push(writer.written().to_vec());
    }
    all
}

/// The lock of an image in which two that differ are. A recording does not know what locks mean: where it would have to combine them,
/// nobody gets the image, until the next.
fn both_locks(one: &[u8], other: &[u8]) -> Vec<u8> {
    match (one, other) {
        (only, []) | ([], only) => only.to_vec(),
        (one, other) if one == other => one.to_vec(),
        _ => NOBODY.to_vec(),
    }
}
