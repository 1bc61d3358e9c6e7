//! The image of an item as it is told: as the refresh that a WebSocket client gets, and of a page as its rows.

use marketfeed::page::{Layout, RecordPage};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut};
use rwf::msg::Msg;
use rwf::page::{Page as Grid, PageSize, SIDE_MAX};
use rwf::{DataType, FieldList, SetScope};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The image of an item that is cached.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct CachedImage {
    /// The provider would send the same now; else the image is of before a loss.
    pub(super) current: bool,
    /// As a refresh that a WebSocket client gets.
    pub(super) refresh: Value,
    /// Fields that the dictionary does not have: they are not in the refresh.
    pub(super) fields_left_out: u64,
    /// Of a page (an ANSI page, or a record with `ROW64_` or `ROW80_` fields) the texts of its rows, without empty ones at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<Vec<String>>,
}

impl CachedImage {
    /// Of a refresh; `None` for one that cannot be told.
    pub(super) fn of(refresh: &[u8], current: bool, dictionary: &Dictionary) -> Option<Self> {
        let (mut text, left_out) = (String::new(), LeftOut::default());
        Converter::new(dictionary).counting(&left_out).message(refresh, &mut text).ok()?;
        let (rows, fields_left_out) = (page_rows(refresh), left_out.fields());
        Some(Self { current, refresh: serde_json::from_str(&text).ok()?, fields_left_out, rows })
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
