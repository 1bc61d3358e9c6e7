//! What is told of one item: its watchers, states and image.

use std::sync::Arc;

use hub::p2ps::ItemChange;
use rwf::dictionary::Dictionary;
use schemars::JsonSchema;
use serde::Serialize;

use super::facts::{Filter, Item, PAGE, items};
use super::images::CachedImage;
use crate::agents::history;
use crate::agents::monitor::Thread;

/// The application id that the page has for permissions: what a login without one has.
const APPLICATION_ID: u32 = 256;
/// Items that one question for a name looks at, of which hardly one is read.
const NAMES_LOOKED_AT: u32 = 50_000;

/// A client that watches an item.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Watcher {
    /// The client's number.
    pub(super) client: String,
    /// The client's stream id.
    pub(super) stream: i32,
}

/// An item with those who watch it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct ItemDetail {
    /// The item.
    pub(super) item: Item,
    /// Up to 1,000 of its watchers.
    pub(super) watchers: Vec<Watcher>,
    /// Where it comes from: the number of the Source Distributor, as the P2PS counts them.
    pub(super) source: Option<u32>,
    /// Why it is blocked, if it is.
    pub(super) blocked: Option<String>,
    /// The last statuses to its watchers, oldest first.
    pub(super) changes: Vec<Change>,
    /// The item's image, where this P2PS caches it, and the page's user may see it. Who was shown it is in the audit.
    pub(super) image: Option<CachedImage>,
    /// Why an image that there is, is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_denied: Option<String>,
}

/// A state that the watchers of an item were told.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Change {
    /// So many seconds ago.
    pub(super) ago_s: f64,
    /// Of the stream, as `OPEN` or `CLOSED`.
    pub(super) stream: String,
    /// Of the data: `OK`, `SUSPECT` or `NO_CHANGE`.
    pub(super) data: String,
    /// The code, as `NONE` or `NOT_ENTITLED`.
    pub(super) code: String,
    /// Why, as it was told.
    pub(super) text: String,
}

/// A refresh, whether it is current, and what it is read with.
type Image = (Vec<u8>, bool, Arc<Dictionary>);

/// A thread's findings about an item. The rest is done elsewhere.
pub(super) struct FoundItem {
    detail: ItemDetail,
    image: Option<Image>,
}

impl FoundItem {
    pub(super) fn new(detail: ItemDetail, image: Option<Image>) -> Self {
        Self { detail, image }
    }

    /// Bytes of its image.
    pub(super) fn image_bytes(&self) -> usize {
        self.image.as_ref().map_or(0, |(refresh, ..)| refresh.len())
    }

    /// The same without its image, and why.
    pub(super) fn without_image(self, why: &str) -> Self {
        let image_denied = self.image.as_ref().map(|_| why.to_owned());
        Self { detail: ItemDetail { image_denied, ..self.detail }, image: None }
    }

    /// The item, and the numbers of the clients that watch it.
    pub(super) fn item_and_watchers(self) -> (Item, Vec<String>) {
        (self.detail.item, self.detail.watchers.into_iter().map(|watcher| watcher.client).collect())
    }

    pub(super) fn told(self) -> ItemDetail {
        let told = |(refresh, current, dictionary): Image| CachedImage::of(&refresh, current, &dictionary);
        ItemDetail { image: self.image.and_then(told), ..self.detail }
    }
}

/// One item of a thread with its watchers.
pub(super) fn item(thread: &mut Thread<'_>, number: usize, item: u32) -> Option<FoundItem> {
    let filter = Filter { limit: 1, after: Some((number, item)), ..Filter::default() };
    let (mut found, _) = items(thread, number, &filter);
    let found = found.pop().filter(|found| found.id == format!("{number}.{item}"))?;
    let p2ps = &thread.consumers.as_ref()?.p2ps;
    let watchers = p2ps.item_watchers(item, PAGE).into_iter();
    let watchers = watchers.map(|(client, stream)| Watcher { client: format!("{number}.{}", client.0), stream });
    let service = p2ps.service_overview().find(|service| service.name == found.service).map(|service| service.id);
    let change = |change: &ItemChange| Change {
        ago_s: thread.now.saturating_sub(change.at) as f64 / 1e9,
        stream: change.stream.to_string(),
        data: change.data.to_string(),
        code: change.code.to_string(),
        text: change.text.clone(),
    };
    let changes = service.into_iter().flat_map(|id| p2ps.item_history(id, found.name.as_bytes())).map(change);
    let why = p2ps.why_blocked(&found.service, found.name.as_bytes());
    let detail = ItemDetail {
        source: p2ps.item_source(item),
        blocked: why.map(str::to_owned),
        changes: changes.collect(),
        watchers: watchers.collect(),
        item: found,
        image: None,
        image_denied: None,
    };
    // The page, and so all that it shows, has the rights of one user, whoever looks.
    let shown = p2ps.may_be_shown(item, (history::USER, history::POSITION, APPLICATION_ID));
    let p2ps = &mut thread.consumers.as_mut()?.p2ps;
    let image = p2ps.item_image(item).map(|(refresh, current)| (refresh, current, p2ps.dictionary().clone()));
    Some(match (image, shown) {
        (Some(_), Err(why)) => FoundItem::new(ItemDetail { image_denied: Some(why), ..detail }, None),
        (image, _) => FoundItem::new(detail, image),
    })
}

/// The items of a thread with this name, of those from number `from` on that one question looks at: one a domain and quality, and private
/// ones; and where to go on.
pub(super) fn items_named(
    thread: &mut Thread<'_>,
    number: usize,
    (service, name): (&str, &str),
    from: u32,
) -> (Vec<FoundItem>, Option<u32>) {
    let Some(consumers) = &thread.consumers else { return (Vec::new(), None) };
    let (numbers, next) = consumers.p2ps.items_of(service, name.as_bytes(), from, NAMES_LOOKED_AT);
    (numbers.into_iter().take(PAGE).filter_map(|found| item(thread, number, found)).collect(), next)
}
