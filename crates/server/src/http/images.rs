//! The image of an item as it is told: as the refresh that a WebSocket client gets, and of a page as its rows.

use std::sync::Arc;

use marketfeed::page::{Layout, RecordPage};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut};
use rwf::msg::Msg;
use rwf::page::{Page as Grid, PageSize, SIDE_MAX};
use rwf::{DataType, FieldList, SetScope};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::facts::ItemDetail;

/// The image of an item that is cached.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CachedImage {
    /// The provider would send the same now; else the image is of before a loss.
    pub current: bool,
    /// As a refresh that a WebSocket client gets.
    pub refresh: Value,
    /// Fields that the dictionary does not have: they are not in the refresh.
    pub fields_left_out: u64,
    /// Of a page (an ANSI page, or a record with `ROW64_` or `ROW80_` fields) the texts of its rows, without empty ones at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<String>>,
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

    pub(super) fn told(self) -> ItemDetail {
        let told = |(refresh, current, dictionary): Image| {
            let (mut text, left_out) = (String::new(), LeftOut::default());
            Converter::new(&dictionary).counting(&left_out).message(&refresh, &mut text).ok()?;
            let (rows, fields_left_out) = (page_rows(&refresh), left_out.fields());
            Some(CachedImage { current, refresh: serde_json::from_str(&text).ok()?, fields_left_out, rows })
        };
        ItemDetail { image: self.image.and_then(told), ..self.detail }
    }
}

/// The rows of a refresh that is a page.
fn page_rows(refresh: &[u8]) -> Option<Vec<String>> {
    let Ok(Msg::Refresh(refresh)) = Msg::decode(refresh) else { return None };
    match refresh.container {
        DataType::ANSI_PAGE => {
            // An image puts each row at its place: the largest page shows one of any size.
            let mut page = Grid::new(PageSize::new(SIDE_MAX, SIDE_MAX));
            page.refresh(refresh.body);
            Some(page.texts())
        }
        DataType::FIELD_LIST => {
            let list = FieldList::decode(refresh.body, &SetScope::NONE).ok()?;
            let mut record = None;
            for entry in list.entries().map_while(Result::ok) {
                let Some((layout, _)) = Layout::of(entry.fid) else { continue };
                let record = record.get_or_insert_with(|| RecordPage::new(layout));
                // A row that cannot be read stays blank.
                let _ = record.apply(entry.fid, entry.data);
            }
            record.map(|record: RecordPage| record.page().texts())
        }
        _ => None,
    }
}
