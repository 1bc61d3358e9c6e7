//! Who used what, by day.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most rows of one day; more are counted, but not told apart.
const ROWS_MAX: usize = 1_000_000;

/// One row of the report of a day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageRow {
    /// The user.
    pub user: Arc<str>,
    /// The service.
    pub service: Arc<str>,
    /// The subservice, or `PE n` where the service has no map; empty for items without a lock.
    pub subservice: Box<str>,
}

/// What was used in a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Days since 1970-01-01, as the caller counts them.
    pub day: u32,
    /// How often items were opened.
    pub opens: BTreeMap<UsageRow, u64>,
    /// Opens beyond the rows there is room for.
    pub not_told_apart: u64,
}

impl Usage {
    pub(crate) fn count(&mut self, user: &Arc<str>, service: &Arc<str>, products: Vec<Box<str>>) {
        let products = if products.is_empty() { vec![Box::default()] } else { products };
        for subservice in products {
            let row = UsageRow { user: user.clone(), service: service.clone(), subservice };
            if let Some(count) = self.opens.get_mut(&row) {
                *count += 1;
            } else if self.opens.len() < ROWS_MAX {
                self.opens.insert(row, 1);
            } else {
                self.not_told_apart += 1;
            }
        }
    }
}
