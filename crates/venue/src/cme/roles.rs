//! What the templates of a schema are for, by the names of messages and fields: FIX's, as CME's schema has them.

use std::collections::HashMap;

use super::schema::{Block, Field, Group, Schema, Template};

/// What every message of an event has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub time: Option<Field>,
    /// Bits; the highest ends the event.
    pub indicator: Option<Field>,
}

/// An entry of a book by price, or a trade, or a statistic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub group: usize,
    pub security: Field,
    pub report: Field,
    pub action: Option<Field>,
    pub kind: Option<Field>,
    pub price: Option<Field>,
    pub size: Option<Field>,
    pub orders: Option<Field>,
    pub level: Option<Field>,
    pub aggressor: Option<Field>,
    pub trade: Option<Field>,
    pub high_limit: Option<Field>,
    pub low_limit: Option<Field>,
}

/// An entry of a book by order.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderEntry {
    pub group: usize,
    pub order: Field,
    pub priority: Option<Field>,
    /// Displayed, or executed.
    pub size: Option<Field>,
    pub action: Option<Field>,
    /// Number of the entry by price that it belongs to, from 1.
    pub reference: Option<Field>,
    pub security: Option<Field>,
    pub price: Option<Field>,
    pub kind: Option<Field>,
}

/// The root of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotRoot {
    pub processed: Field,
    pub security: Field,
    pub report: Option<Field>,
    pub chunks: Option<Field>,
    pub chunk: Option<Field>,
}

/// The root of a definition, and where it tells of depths.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefinitionFields {
    pub security: Field,
    pub symbol: Option<Field>,
    pub group: Option<Field>,
    pub total: Option<Field>,
    /// Group, type of feed, depth.
    pub depths: Option<(usize, Field, Field)>,
}

/// A message about the state of an instrument or a group of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusFields {
    pub security: Option<Field>,
    pub group: Option<Field>,
    pub status: Option<Field>,
    pub reason: Option<Field>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Book {
        entry: Entry,
        order: Option<OrderEntry>,
    },
    Orders(OrderEntry),
    Trade {
        entry: Entry,
        order: Option<OrderEntry>,
    },
    /// Counts in the reports of its instruments, and is no book.
    Statistic(Entry),
    Snapshot {
        root: SnapshotRoot,
        level: LevelEntry,
    },
    OrderSnapshot {
        root: SnapshotRoot,
        order: OrderEntry,
    },
    Definition(DefinitionFields),
    Status(StatusFields),
    Reset,
    Other,
}

/// A level of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelEntry {
    pub group: usize,
    pub kind: Field,
    pub price: Field,
    pub size: Option<Field>,
    pub orders: Option<Field>,
    pub level: Option<Field>,
}

/// Roles by number of template.
#[derive(Debug)]
pub(super) struct Roles {
    by_template: HashMap<u16, (Root, Role)>,
}

impl Roles {
    pub(super) fn of(schema: &Schema) -> Self {
        let by_template = schema.templates().map(|(number, template)| {
            let root = Root {
                time: template.root.field("TransactTime"),
                indicator: template.root.field("MatchEventIndicator"),
            };
            (number, (root, role_of(template).unwrap_or(Role::Other)))
        });
        Self { by_template: by_template.collect() }
    }

    pub(super) fn get(&self, template: u16) -> Option<(Root, Role)> {
        self.by_template.get(&template).copied()
    }
}

/// `None`: it lacks what such a message has to have.
fn role_of(template: &Template) -> Option<Role> {
    let name = template.name.as_str();
    Some(match name {
        "ChannelReset" => Role::Reset,
        "SecurityStatus" => Role::Status(StatusFields {
            security: template.root.field("SecurityID"),
            group: template.root.field("SecurityGroup"),
            status: template.root.field("SecurityTradingStatus"),
            reason: template.root.field("HaltReason"),
        }),
        _ if name.starts_with("MDInstrumentDefinition") => Role::Definition(definition(template)?),
        _ if name.starts_with("SnapshotFullRefreshOrderBook") => {
            Role::OrderSnapshot { root: snapshot(&template.root)?, order: order(template)? }
        }
        _ if name.starts_with("SnapshotFullRefresh") => {
            Role::Snapshot { root: snapshot(&template.root)?, level: level(template)? }
        }
        _ if name.starts_with("MDIncrementalRefreshOrderBook") => Role::Orders(order(template)?),
        _ if name.starts_with("MDIncrementalRefreshBook") => {
            Role::Book { entry: entry(template)?, order: order(template) }
        }
        _ if name.starts_with("MDIncrementalRefreshTradeSummary") => {
            Role::Trade { entry: entry(template)?, order: order(template) }
        }
        _ => Role::Statistic(entry(template)?),
    })
}

fn with<'a>(template: &'a Template, names: &[&str]) -> Option<(usize, &'a Group)> {
    template.groups.iter().enumerate().find(|(_, group)| names.iter().all(|name| group.block.field(name).is_some()))
}

fn entry(template: &Template) -> Option<Entry> {
    let (group, found) = with(template, &["SecurityID", "RptSeq"])?;
    let field = |name: &str| found.block.field(name);
    Some(Entry {
        group,
        security: field("SecurityID")?,
        report: field("RptSeq")?,
        action: field("MDUpdateAction"),
        kind: field("MDEntryType"),
        price: field("MDEntryPx"),
        size: field("MDEntrySize"),
        orders: field("NumberOfOrders"),
        level: field("MDPriceLevel"),
        aggressor: field("AggressorSide"),
        trade: field("MDTradeEntryID"),
        high_limit: field("HighLimitPrice"),
        low_limit: field("LowLimitPrice"),
    })
}

fn order(template: &Template) -> Option<OrderEntry> {
    let (group, found) = with(template, &["OrderID"])?;
    let field = |name: &str| found.block.field(name);
    Some(OrderEntry {
        group,
        order: field("OrderID")?,
        priority: field("MDOrderPriority"),
        size: field("MDDisplayQty").or_else(|| field("LastQty")),
        action: field("OrderUpdateAction").or_else(|| field("MDUpdateAction")),
        reference: field("ReferenceID"),
        security: field("SecurityID"),
        price: field("MDEntryPx"),
        kind: field("MDEntryType"),
    })
}

fn level(template: &Template) -> Option<LevelEntry> {
    let (group, found) = with(template, &["MDEntryType", "MDEntryPx"])?;
    let field = |name: &str| found.block.field(name);
    Some(LevelEntry {
        group,
        kind: field("MDEntryType")?,
        price: field("MDEntryPx")?,
        size: field("MDEntrySize"),
        orders: field("NumberOfOrders"),
        level: field("MDPriceLevel"),
    })
}

fn snapshot(root: &Block) -> Option<SnapshotRoot> {
    Some(SnapshotRoot {
        processed: root.field("LastMsgSeqNumProcessed")?,
        security: root.field("SecurityID")?,
        report: root.field("RptSeq"),
        chunks: root.field("NoChunks"),
        chunk: root.field("CurrentChunk"),
    })
}

fn definition(template: &Template) -> Option<DefinitionFields> {
    let root = &template.root;
    let depths = with(template, &["MDFeedType", "MarketDepth"])
        .and_then(|(group, found)| Some((group, found.block.field("MDFeedType")?, found.block.field("MarketDepth")?)));
    Some(DefinitionFields {
        security: root.field("SecurityID")?,
        symbol: root.field("Symbol"),
        group: root.field("SecurityGroup"),
        total: root.field("TotNumReports"),
        depths,
    })
}
