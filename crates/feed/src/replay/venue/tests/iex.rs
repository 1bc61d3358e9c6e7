//! IEX: the recorded samples against a reader that shares no code, captures that were made for one fault each, and what the exchange says
//! of securities.

use std::collections::BTreeMap;

use capture::link;
use capture::write::Pcap;
use rwf::{DataType, FieldList, Primitive, SetScope};
use venue::iex::messages::{
    Auction, BuyLevel, Directory, EVENT_COMPLETE, EXTENDED_HOURS, Message, ODD_LOT, OfficialPrice, OperationalHalt,
    Quote, SellLevel, ShortSaleTest, SystemEvent, TradeBreak, TradeReport, TradingStatus,
};
use venue::iex::tp::{Header, Protocol};
use venue::nasdaq::Text;

use super::plain_iex::{Capture, Input, What};
use super::*;

fn shared(variable: &str, folder: &str, name: &str) -> Option<PathBuf> {
    let at = std::env::var_os(variable)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder), PathBuf::from);
    let file = at.join(name);
    if file.is_file() {
        return Some(file);
    }
    println!("no capture {}: set {variable} to test with it", file.display());
    None
}

fn data(name: &str) -> Option<PathBuf> {
    shared("QUOTEWAY_DATA", "data", &format!("iex/{name}"))
}

/// The states of a symbol's levels, and its trades, by the plain reader.
fn expected(path: &Path, symbol: &str) -> (Expected, Vec<(i64, i64)>) {
    let (mut all, mut plain, mut trades) = (Expected::default(), BTreeMap::new(), Vec::new());
    let mut capture = Capture::open(path).expect("a capture");
    all.push(None, None);
    while let Some(heard) = capture.next_input().expect("a capture that can be read") {
        let message = match heard {
            Input::Message(message) if message.symbol() == symbol => message,
            Input::Message(_) => continue,
            Input::Restart => {
                plain.clear();
                all.levels.clear();
                all.push(None, None);
                continue;
            }
            Input::Lost(_) => panic!("nothing is missing in this capture"),
        };
        match message.what {
            What::Level { buy, price, size, settled } => {
                let (side, key) = (if buy { 1 } else { 2 }, format!("{price}{}", if buy { 'B' } else { 'A' }));
                if size == 0 {
                    plain.remove(&(side, price));
                    all.levels.remove(&key);
                } else {
                    plain.insert((side, price), i64::from(size));
                    all.levels.set(&key, (side, price, i64::from(size), 0));
                }
                if settled {
                    let of =
                        |side: u16| plain.range((side, i64::MIN)..=(side, i64::MAX)).map(|(key, size)| (key.1, *size));
                    let (bid, ask) = (of(1).next_back(), of(2).next());
                    all.push(bid, ask);
                }
            }
            What::Quote { bid, bid_size, ask, ask_size } => {
                let side = |price, size| (price > 0 && size > 0).then_some((price, i64::from(size)));
                all.push(side(bid, bid_size), side(ask, ask_size));
            }
            What::Trade { price, size, eligible: true, .. } => trades.push((price, i64::from(size))),
            What::Trade { .. } | What::Break { .. } => {}
        }
    }
    (all, trades)
}

#[test]
fn a_consumer_of_the_recorded_levels_holds_the_book_of_every_settled_state() {
    let Some(path) = data("DEEP10.pcap.gz") else { return };
    let symbols = ["PZZA", "MSFT", "ZXIET", "AA-", "JPM-A", "XOXO"];
    let names = symbols.map(|symbol| format!("{symbol}.DEEP"));
    let mut replay = open(&path, config());
    assert_eq!(replay.file(), VenueFile::IexDeep);
    let seen = play(&mut replay, &names.each_ref().map(String::as_str), 4);
    let mut states = 0;
    for (symbol, name) in symbols.iter().zip(&names) {
        let (expected, _) = expected(&path, symbol);
        assert_eq!(expected.level_states, seen[name].level_states, "{name}");
        assert_eq!(expected.quotes, seen[name].quotes, "{name}");
        assert_eq!(seen[name].states.len(), 1, "{:?}", seen[name].states);
        // Two images at first, and two at each of the eleven beginnings.
        assert_eq!(seen[name].images, 24, "{name}");
        states += expected.level_states.0.len();
    }
    assert!(states > 10_000, "{states} states");
    assert!(replay.unread().expect("the sample's last packet is cut").contains("cut off at its end"));
    let remarks = replay.remarks().expect("the end");
    assert!(
        remarks.contains("beginnings within a session: 11; deletions of levels that are not there: 8"),
        "{remarks}"
    );
}

#[test]
fn the_recorded_quotes_and_trades_are_the_plain_readers() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let mut replay = open(&path, config());
    assert_eq!(replay.file(), VenueFile::IexTops);
    let id = replay.find("SPY.IEX").expect("a symbol");
    assert!(!replay.offers(id, Model::ByPrice) && !replay.offers(id, Model::ByOrder), "this feed has no levels");
    assert!(replay.names().count() > 7_000, "every symbol is an item");
    for unknown in ["SPY.DEEP", "TOOLONGNAME.IEX", "NOSUCH.IEX", ".IEX", "SPY"] {
        assert!(replay.find(unknown).is_none(), "{unknown}");
    }
    let seen = play(&mut replay, &["SPY.IEX", "ZIEXT.IEX", "AAPL.IEX"], 4);
    for symbol in ["SPY", "ZIEXT", "AAPL"] {
        let (expected, trades) = expected(&path, symbol);
        let seen = &seen[&format!("{symbol}.IEX")];
        assert_eq!(expected.quotes, seen.quotes, "{symbol}");
        let eligible = seen.trades.iter().filter(|trade| trade.1 > 0).count();
        assert_eq!((eligible, &trades), (trades.len(), &seen.trades.iter().copied().filter(|t| t.1 > 0).collect()));
    }
    assert_eq!(replay.unread(), None);
}

/// What a field shows: a number, a text, or that it is blank.
fn field(body: &[u8], id: i16) -> Option<String> {
    let list = FieldList::decode(body, &SetScope::default()).expect("a field list");
    let entry = list.entries().map(|entry| entry.expect("a field")).find(|entry| entry.fid == id)?;
    let kind = match id {
        fid::TRD_STATUS | fid::INST_PHASE | fid::SH_SAL_RES | fid::IMB_SIDE | fid::BOOK_STATE => DataType::ENUM,
        fid::HALT_REASN | fid::MKT_PHASE => DataType::RMTES_STRING,
        _ => DataType::REAL,
    };
    Some(match entry.value(kind) {
        Ok(Primitive::Real(real)) => format!("{}", real.to_f64()),
        Ok(Primitive::Enum(number)) => number.to_string(),
        Ok(Primitive::Rmtes(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "blank".to_owned(),
    })
}

fn fields(replay: &mut VenueReplay, name: &str, ids: &[i16]) -> Vec<String> {
    let id = replay.find(name).expect("an item");
    let mut image = Vec::new();
    replay.image(id, Model::Price, 0, &mut image);
    ids.iter().map(|id| field(&image, *id).unwrap_or_else(|| "none".to_owned())).collect()
}

/// The feed's day as the specification counts it, worked out by another decoder: no odd lots and no trades out of hours in the prices,
/// broken trades gone.
#[test]
fn the_day_is_made_of_the_trades_that_count() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let mut replay = open(&path, config());
    play(&mut replay, &["ZXIET.IEX"], 4);
    let ids = [fid::TRDPRC_1, fid::OPEN_PRC, fid::ACVOL_1];
    assert_eq!(fields(&mut replay, "ZXIET.IEX", &ids), ["29.95", "29.99", "68152"]);
    assert_eq!(fields(&mut replay, "ZEXIT.IEX", &ids), ["10.025", "10", "60251"]);
    assert_eq!(fields(&mut replay, "ZIEXT.IEX", &ids)[1..], ["20", "65789"]);
    assert_eq!(fields(&mut replay, "AAPL.IEX", &ids)[..2], ["148.92", "148.96"]);
    let unknown = [fid::HST_CLOSE, fid::YRHIGH_52, fid::NETCHNG_1];
    assert_eq!(fields(&mut replay, "AAPL.IEX", &unknown), ["none"; 3], "nobody knows yesterday");
    let status = [fid::TRD_STATUS, fid::INST_PHASE, fid::MKT_PHASE, fid::SH_SAL_RES];
    assert_eq!(fields(&mut replay, "AAPL.IEX", &status), ["1", "3", "CLOSED", "1"]);
}

/// A consumer's levels at the end of a capture made for one fault, and the state that it was left in.
fn at_the_end(name: &str) -> Option<(String, DataState)> {
    let path = shared("QUOTEWAY_CASES", "cases", &format!("2026-11/replay/{name}"))?;
    let mut replay = open(&path, config());
    assert_eq!(replay.names().collect::<Vec<_>>(), ["ZIEXT.DEEP"]);
    let seen = play(&mut replay, &["ZIEXT.DEEP"], 4);
    let seen = &seen["ZIEXT.DEEP"];
    let state = seen.states.last().expect("the first image's").0;
    let id = replay.find("ZIEXT.DEEP").expect("the item");
    assert_eq!(replay.data_state(id, Model::ByPrice), state);
    assert_eq!(seen.images, 2, "an image where nothing began anew");
    assert_eq!(replay.remarks().expect("the end").contains("gaps"), state == DataState::SUSPECT, "{name}");
    assert_eq!(replay.unread().is_some(), name.starts_with("snap"), "{:?}", replay.unread());
    Some((seen.levels.text(), state))
}

#[test]
fn the_book_at_the_end_of_a_feed_with_faults() {
    let whole = "100000B 100, 100100A 200, 100200A 400, 99800B 500, 99900B 300";
    for name in ["late-dup.pcap", "overlap.pcap", "members.pcap.gz"] {
        let Some((book, state)) = at_the_end(name) else { return };
        assert_eq!((book.as_str(), state), (whole, DataState::OK), "{name}");
    }
    for name in ["gap.pcap", "snap.pcap"] {
        assert_eq!(at_the_end(name).map(|(_, state)| state), Some(DataState::SUSPECT), "{name}");
    }
}

#[test]
fn time_is_scaled_and_the_end_begins_anew() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let pace = ReplaySpeed::Scaled(1_000_000.0);
    let mut replay = open(&path, VenueConfig { pace, repeat: true, pause: 2_000_000_000, ..config() });
    let id = replay.find("SPY.IEX").expect("a symbol");
    replay.watch(id, Model::Price, true);
    assert_eq!(replay.due(), Some(0));
    // Six minutes and forty seconds at a million times the speed are 0.4 ms.
    replay.advance(1_000_000, usize::MAX, &mut |_| {});
    let due = replay.due().expect("it is repeated");
    assert!((2_000_000_000..2_001_000_000).contains(&due), "{due}");
    let mut first = None;
    replay.advance(due, 1, &mut |event| first = first.or(Some(event.payload)));
    assert_eq!(first, Some(Payload::ImagePart { part: 0, more: false, data: DataState::OK }));
}

const SYMBOL: &str = "ZIEXT";
/// 2017-04-25 at 13:30 UTC.
const BEGIN: i64 = 1_493_127_000_000_000_000;

/// A capture of a feed: messages, each in a segment of its own and a second behind the one before.
fn capture(protocol: Protocol, messages: &[Message]) -> File {
    let mut bytes = Vec::new();
    let pcap = Pcap::begin(link::RAW, &mut bytes);
    for (n, message) in messages.iter().enumerate() {
        let mut body = vec![0, 0];
        message.encode(&mut body);
        let length = (body.len() as u16 - 2).to_le_bytes();
        body[..2].copy_from_slice(&length);
        let sent = BEGIN + n as i64 * 1_000_000_000;
        let header = Header {
            protocol,
            channel: 1,
            session: 3,
            length: body.len() as u16,
            count: 1,
            offset: n as i64 * 100,
            first: n as u64 + 1,
            sent,
        };
        let payload = [&header.write()[..], &body].concat();
        let udp = 8 + payload.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend((20 + udp).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 8, 17, 0, 0, 10, 0, 0, 1, 233, 215, 21, 4, 0x80, 0, 0x28, 0x8A]);
        packet.extend(udp.to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        pcap.frame(sent as u64, &packet, packet.len(), &mut bytes);
    }
    file("iex.pcap", &bytes)
}

fn played(protocol: Protocol, messages: &[Message]) -> (VenueReplay, Seen) {
    let file = capture(protocol, messages);
    let mut replay = open(&file.path, config());
    let name = format!("{SYMBOL}{}", replay.file().suffix());
    let mut seen = play(&mut replay, &[&name], 4);
    (replay, seen.remove(&name).expect("the item"))
}

fn symbol() -> Text<8> {
    Text::new(SYMBOL)
}

#[test]
fn what_the_exchange_says_of_securities_and_market_is_told() {
    let time = BEGIN;
    let status = |flags, reason: &str| {
        Message::TradingStatus(TradingStatus { flags, time, symbol: symbol(), reason: Text::new(reason) })
    };
    let halt = |flags| Message::OperationalHalt(OperationalHalt { flags, time, symbol: symbol() });
    let shorts = |flags, detail| Message::ShortSaleTest(ShortSaleTest { flags, time, symbol: symbol(), detail });
    let ids = [fid::TRD_STATUS, fid::INST_PHASE, fid::HALT_REASN, fid::SH_SAL_RES];
    for (messages, expected) in [
        (vec![status(b'H', "T1")], ["2", "0", "T1", "none"]),
        (vec![status(b'O', "IPO1"), shorts(0, b' ')], ["4", "2", "IPO1", "1"]),
        (vec![status(b'P', ""), shorts(1, b'A')], ["2", "0", "blank", "4"]),
        (vec![status(b'T', ""), shorts(1, b'C')], ["1", "3", "blank", "3"]),
        // Halted by IEX alone, and then as before.
        (vec![status(b'T', ""), halt(b'O')], ["2", "0", "operational halt", "none"]),
        (vec![status(b'T', ""), halt(b'O'), halt(b'N')], ["1", "3", "blank", "none"]),
    ] {
        let (mut replay, _) = played(Protocol::Deep, &messages);
        assert_eq!(fields(&mut replay, "ZIEXT.DEEP", &ids), expected, "{messages:?}");
    }
    let directory = Directory { flags: 0, time, symbol: symbol(), lot: 100, previous_close: 200_500, luld_tier: 1 };
    let official = |flags, price| Message::OfficialPrice(OfficialPrice { flags, time, symbol: symbol(), price });
    let auction = Auction {
        flags: b'C',
        time,
        symbol: symbol(),
        paired: 5_000,
        reference: 200_000,
        indicative: 201_000,
        imbalance: 700,
        side: b'S',
        extension: 0,
        scheduled: 1_493_150_400,
        clearing: 0,
        collar: 0,
        lower: 0,
        upper: 0,
    };
    let messages = [
        Message::SystemEvent(SystemEvent { flags: b'O', time }),
        Message::Directory(directory),
        Message::SystemEvent(SystemEvent { flags: b'R', time }),
        official(b'Q', 200_100),
        official(b'M', 202_000),
        Message::Auction(auction),
    ];
    let (mut replay, _) = played(Protocol::Deep, &messages);
    let ids = [
        fid::LOT_SIZE,
        fid::ADJUST_CLS,
        fid::MKT_PHASE,
        fid::OFF_OPEN,
        fid::OFF_CLOSE,
        fid::THEO_PRC,
        fid::THEO_VOL,
        fid::IMB_SH,
        fid::IMB_SIDE,
        fid::REF_PRICE,
    ];
    let expected = ["100", "20.05", "REGULAR", "20.01", "20.2", "20.1", "5000", "700", "3", "20"];
    assert_eq!(fields(&mut replay, "ZIEXT.DEEP", &ids), expected);
}

#[test]
fn trades_count_by_their_conditions_and_broken_ones_not_at_all() {
    let time = BEGIN;
    let trade =
        |flags, price, size, id| Message::TradeReport(TradeReport { flags, time, symbol: symbol(), size, price, id });
    let broken =
        |price, size, id| Message::TradeBreak(TradeBreak { flags: 0, time, symbol: symbol(), size, price, id });
    let ids = [fid::TRDPRC_1, fid::OPEN_PRC, fid::HIGH_1, fid::LOW_1, fid::ACVOL_1, fid::NUM_MOVES, fid::IRGPRC];
    let all = [
        trade(EXTENDED_HOURS, 90_000, 100, 1),
        trade(0, 100_000, 200, 2),
        trade(0x80, 110_000, 300, 3),
        trade(ODD_LOT, 120_000, 7, 4),
    ];
    let (mut replay, seen) = played(Protocol::Tops, &all);
    assert_eq!(fields(&mut replay, "ZIEXT.IEX", &ids), ["11", "10", "11", "10", "607", "4", "12"]);
    assert_eq!(seen.corrections, 0);
    let with_breaks = [&all[..], &[broken(110_000, 300, 3), broken(120_000, 7, 4), broken(1, 1, 99)]].concat();
    let (mut replay, seen) = played(Protocol::Tops, &with_breaks);
    assert_eq!(fields(&mut replay, "ZIEXT.IEX", &ids), ["10", "10", "10", "10", "300", "2", "9"]);
    assert_eq!(seen.corrections, 2, "a break of a trade that is not there changes nothing");
    assert!(replay.remarks().expect("the end").contains("breaks of trades that are not there: 1"));
}

#[test]
fn books_are_told_when_events_are_complete_and_with_the_messages_own_times() {
    let buy = |flags, time, price, size| Message::BuyLevel(BuyLevel { flags, time, symbol: symbol(), size, price });
    let sell = |flags, time, price, size| Message::SellLevel(SellLevel { flags, time, symbol: symbol(), size, price });
    let (late, early) = (BEGIN + 3_600_000_000_000, BEGIN + 7_000_000);
    let (mut replay, seen) = played(
        Protocol::Deep,
        &[buy(EVENT_COMPLETE, late, 100_000, 100), sell(0, early, 99_000, 5), sell(EVENT_COMPLETE, early, 101_000, 6)],
    );
    let crossed = [Some(100_000), Some(100), Some(99_000), Some(5)];
    assert_eq!(seen.quotes, [[None; 4], [Some(100_000), Some(100), None, None], crossed]);
    assert_eq!(seen.level_states.0.len(), 3);
    assert_eq!(fields(&mut replay, "ZIEXT.DEEP", &[fid::BOOK_STATE]), ["3"], "crossed, as it is");
    let id = replay.find("ZIEXT.DEEP").expect("the item");
    let mut image = Vec::new();
    replay.image(id, Model::ByPrice, 0, &mut image);
    let map = rwf::Map::decode(&image, &SetScope::default()).expect("a map");
    let times = map.entries().map(|entry| {
        let entry = entry.expect("a level");
        let list = FieldList::decode(entry.data, &SetScope::default()).expect("fields");
        let time = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == fid::LV_TIM_MS);
        match time.expect("a time").value(DataType::UINT) {
            Ok(Primitive::UInt(millis)) => (String::from_utf8_lossy(entry.key).into_owned(), millis),
            other => panic!("{other:?}"),
        }
    });
    let begin = 13 * 3_600_000 + 30 * 60_000;
    let expected = [("100000B", begin + 3_600_000), ("99000A", begin + 7), ("101000A", begin + 7)];
    assert_eq!(times.collect::<Vec<_>>(), expected.map(|(key, time)| (key.to_owned(), time)));
}

#[test]
fn quotes_without_a_side_are_blank() {
    let quote = |bid, bid_size, ask, ask_size| {
        Message::Quote(Quote { flags: 0x40, time: BEGIN, symbol: symbol(), bid_size, bid, ask, ask_size })
    };
    let (_, seen) = played(Protocol::Tops, &[quote(100, 1, 200, 2), quote(0, 0, 200, 2), quote(0, 0, 0, 0)]);
    let both = [Some(100), Some(1), Some(200), Some(2)];
    assert_eq!(seen.quotes, [[None; 4], both, [None, None, Some(200), Some(2)], [None; 4]]);
}
