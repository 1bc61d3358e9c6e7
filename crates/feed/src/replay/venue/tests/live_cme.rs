//! A channel of CME from the network, without sockets: what it wants, and what becomes of items.

use venue::cme::Schema;

use super::mdp::{Exchange, SCHEMA, block, group, message, packet, root};
use super::*;
use crate::InstrumentId;
use crate::replay::venue::live::{Clock, CmeConfig, CmeFeed, CmeWay, LiveItems as _};

const BEGIN: u64 = 1_700_000_000_000_000_000;

/// Statistics by a schema of our own: settlement prices and open interest, and limits.
fn schema() -> Schema {
    let more = "<sbe:message name=\"MDIncrementalRefreshSessionStatistics51\" id=\"51\" blockLength=\"9\">\
        <field name=\"TransactTime\" id=\"60\" type=\"uInt64\" offset=\"0\"/>\
        <field name=\"MatchEventIndicator\" id=\"5799\" type=\"Indicator\" offset=\"8\"/>\
        <group name=\"NoMDEntries\" id=\"268\" blockLength=\"21\" dimensionType=\"groupSize\">\
        <field name=\"MDEntryPx\" id=\"270\" type=\"PRICENULL7\" offset=\"0\"/>\
        <field name=\"MDEntrySize\" id=\"271\" type=\"Int32NULL\" offset=\"8\"/>\
        <field name=\"SecurityID\" id=\"48\" type=\"Int32\" offset=\"12\"/>\
        <field name=\"RptSeq\" id=\"83\" type=\"uInt32\" offset=\"16\"/>\
        <field name=\"MDEntryType\" id=\"269\" type=\"Kind\" offset=\"20\"/></group></sbe:message>\
        <sbe:message name=\"MDIncrementalRefreshLimitsBanding50\" id=\"50\" blockLength=\"9\">\
        <field name=\"TransactTime\" id=\"60\" type=\"uInt64\" offset=\"0\"/>\
        <field name=\"MatchEventIndicator\" id=\"5799\" type=\"Indicator\" offset=\"8\"/>\
        <group name=\"NoMDEntries\" id=\"268\" blockLength=\"24\" dimensionType=\"groupSize\">\
        <field name=\"HighLimitPrice\" id=\"1149\" type=\"PRICENULL7\" offset=\"0\"/>\
        <field name=\"LowLimitPrice\" id=\"1148\" type=\"PRICENULL7\" offset=\"8\"/>\
        <field name=\"SecurityID\" id=\"48\" type=\"Int32\" offset=\"16\"/>\
        <field name=\"RptSeq\" id=\"83\" type=\"uInt32\" offset=\"20\"/></group></sbe:message></sbe:messageSchema>";
    Schema::read(&SCHEMA.replace("</sbe:messageSchema>", more)).expect("a schema")
}

fn feed() -> CmeFeed {
    CmeFeed::new(schema(), &CmeConfig { suffix: None, symbology: None, has_orders: true })
}

fn clock(now: u64) -> Clock {
    Clock { now, wall: BEGIN + now }
}

fn states(feed: &CmeFeed) -> Vec<DataState> {
    feed.symbols().iter().map(|name| feed.data_state(feed.find(name).expect("an item"))).collect()
}

#[test]
fn nothing_is_taken_before_the_definitions_and_snapshots_are_wanted_until_all_is_whole() {
    let mut exchange = Exchange::new(3);
    (0..200).for_each(|_| exchange.event());
    let mut feed = feed();
    let (mut now, half) = (0, exchange.packets.len() / 2);
    let definitions = Exchange::definitions();
    for n in 60..half {
        now += 1_000_000;
        feed.packet(CmeWay::Line(0), &exchange.packets[n], clock(now));
        if let Some(definition) = definitions.get(n - 60).filter(|_| n < 62) {
            feed.packet(CmeWay::Definitions, definition, clock(now));
        }
    }
    assert!(!feed.is_ready() && feed.wants_definitions() && !feed.wants_snapshots(), "one definition has not come");
    feed.packet(CmeWay::Definitions, &definitions[2], clock(now));
    assert!(feed.is_ready() && !feed.wants_definitions() && feed.symbols() == ["ZV0", "ZV1", "ZV2"]);
    assert_eq!(states(&feed), [DataState::SUSPECT; 3]);
    feed.packet(CmeWay::Line(0), &exchange.packets[half], clock(now));
    assert!(feed.wants_snapshots());
    for n in half + 1..half + 20 {
        now += 1_000_000;
        feed.packet(CmeWay::Line((n % 2) as u8), &exchange.packets[n], clock(now));
        feed.packet(CmeWay::Line(0), &exchange.packets[n], clock(now));
    }
    for snapshot in exchange.snapshots(half + 18) {
        feed.packet(CmeWay::Snapshots, &snapshot, clock(now));
    }
    assert_eq!((states(&feed), feed.wants_snapshots()), (vec![DataState::OK; 3], false));
    // What no line brings is given up, and snapshots are wanted again.
    for n in half + 23..half + 26 {
        feed.packet(CmeWay::Line(0), &exchange.packets[n], clock(now));
    }
    while let Some(due) = feed.timer() {
        now = now.max(due);
        feed.on_timer(clock(now));
    }
    assert!(states(&feed).contains(&DataState::SUSPECT) && feed.wants_snapshots());
    for snapshot in exchange.snapshots(half + 26) {
        feed.packet(CmeWay::Snapshots, &snapshot, clock(now));
    }
    assert_eq!((states(&feed), feed.wants_snapshots()), (vec![DataState::OK; 3], false));
    let figures = feed.figures();
    assert_eq!((figures.stream.gaps, figures.stream.lost, figures.books, figures.bad), (1, 3, 3, vec![]));
}

/// The value of a real field of an image.
#[allow(clippy::option_option, reason = "absent, blank, or a value")]
fn of_image(feed: &CmeFeed, id: InstrumentId, fid: i16, decimals: u8) -> Option<Option<i64>> {
    let mut body = Vec::new();
    assert!(!feed.image(id, Model::Price, 0, &mut body));
    real_of(&body, fid, decimals)
}

#[test]
fn settlements_open_interest_limits_and_states_of_groups_become_fields() {
    let mut feed = feed();
    for definition in Exchange::definitions() {
        feed.packet(CmeWay::Definitions, &definition, clock(0));
    }
    let root = |time: u64| root(time, true);
    let entry = |price: i64, size: i32, report: u32, kind: u8| {
        let fields: [(usize, &[u8]); 5] = [
            (0, &price.to_le_bytes()),
            (8, &size.to_le_bytes()),
            (12, &101i32.to_le_bytes()),
            (16, &report.to_le_bytes()),
            (20, &[kind]),
        ];
        block(21, &fields)
    };
    let statistics = group(&[entry(47_512_500, 0, 1, b'6'), entry(i64::MAX, 1_234, 2, b'C')], false, 21);
    let limits = block(
        24,
        &[
            (0, &50_000_000i64.to_le_bytes()),
            (8, &i64::MAX.to_le_bytes()),
            (16, &101i32.to_le_bytes()),
            (20, &3u32.to_le_bytes()),
        ],
    );
    let of_group =
        block(21, &[(0, &7u64.to_le_bytes()), (8, b"ZV    "), (14, &i32::MAX.to_le_bytes()), (18, &[0x80, 2, 0])]);
    let id = feed.find("ZV0").expect("an item");
    feed.watch(id, Model::Price, true);
    assert_eq!(
        (of_image(&feed, id, 70, 9), of_image(&feed, id, 75, 9)),
        (None, None),
        "what was not told is not there"
    );
    let messages = [
        message(51, &root(7), &statistics),
        message(50, &root(7), &group(&[limits], false, 24)),
        message(30, &of_group, &[]),
    ];
    feed.packet(CmeWay::Line(0), &packet(1, BEGIN, &messages), clock(1));
    assert_eq!(of_image(&feed, id, 70, 9), Some(Some(4_751_250_000)));
    assert_eq!((of_image(&feed, id, 75, 9), of_image(&feed, id, 76, 9)), (Some(Some(5_000_000_000)), Some(None)));
    assert_eq!(of_image(&feed, id, 64, 0), Some(Some(1_234)));
    let (mut told, mut status) = (0, Vec::new());
    feed.flush(&mut |event| {
        told += 1;
        status.extend(real_of(event.body, 70, 9));
    });
    assert!(told >= 3 && status.last() == Some(&Some(4_751_250_000)), "{told} {status:?}");
    for name in ["ZV0", "ZV1", "ZV2"] {
        let mut body = Vec::new();
        feed.image(feed.find(name).expect("an item"), Model::Price, 0, &mut body);
        let list = rwf::FieldList::decode(&body, &rwf::SetScope::default()).expect("a field list");
        let trading = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == 6614);
        assert_eq!(trading.map(|field| field.data.to_vec()), Some(vec![2]), "{name} is halted with its group");
    }
    assert_eq!(feed.figures().bad, vec![]);
}
