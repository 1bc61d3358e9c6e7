//! Messages of TotalView-ITCH 5.0, and what they do to a day.

use std::collections::BTreeMap;

use market::{BookId, Refused, Side};
use proptest::prelude::*;
use venue::TradeKind;
use venue::nasdaq::itch::{Message, Unreadable};
use venue::nasdaq::mold::{self, MoldPacket};
use venue::nasdaq::{Bad, DayFile, TotalView};

use crate::day::{Day, Settings};
use crate::naive::{Naive, Standing};
use crate::watch::{Seen, Watch};

/// Types and lengths as the specification has them.
const SPECIFIED: [(u8, usize); 23] = [
    (b'S', 12),
    (b'R', 39),
    (b'H', 25),
    (b'Y', 20),
    (b'L', 26),
    (b'V', 35),
    (b'W', 12),
    (b'K', 28),
    (b'J', 35),
    (b'h', 21),
    (b'A', 36),
    (b'F', 40),
    (b'E', 31),
    (b'C', 36),
    (b'X', 23),
    (b'D', 19),
    (b'U', 35),
    (b'P', 44),
    (b'Q', 40),
    (b'B', 19),
    (b'I', 50),
    (b'N', 20),
    (b'O', 48),
];

pub(crate) fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// A message whose bytes all differ, of locate 7.
fn bytes_of(code: u8, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length as u8).map(|n| n.wrapping_add(0x40)).collect();
    bytes[0] = code;
    bytes[1..3].copy_from_slice(&[0, 7]);
    if matches!(code, b'A' | b'F') {
        bytes[19] = b'S';
    }
    bytes
}

#[test]
fn every_message_of_the_specification_has_its_length_and_goes_there_and_back() {
    let mut known = Message::LENGTHS.to_vec();
    known.sort_unstable();
    let mut specified = SPECIFIED.to_vec();
    specified.sort_unstable();
    assert_eq!(known, specified);
    for (code, length) in SPECIFIED {
        let bytes = bytes_of(code, length);
        let message = Message::decode(&bytes).expect("a message");
        assert_eq!((message.code(), message.head()), (code, (7, 0x0000_4546_4748_494A)));
        assert_eq!(encoded(&message), bytes, "type {}: every byte belongs to a field", char::from(code));
        // A later version may be longer: it is read as far as it is known.
        let longer = [&bytes[..], b"new"].concat();
        assert_eq!(Message::decode(&longer), Ok(message));
        for cut in 1..length {
            assert_eq!(Message::decode(&bytes[..cut]), Err(Unreadable::Short { code, length: cut }));
        }
    }
    for code in (0..=255).filter(|code| SPECIFIED.iter().all(|(known, _)| known != code)) {
        assert_eq!(Message::decode(&[code; 60]), Err(Unreadable::Type(code)));
    }
    assert_eq!(Message::decode(b""), Err(Unreadable::Empty));
}

#[test]
fn fields_lie_where_the_specification_puts_them() {
    let at = |code, length, field: &str, from: usize, to: usize| {
        let bytes = bytes_of(code, length);
        let value = bytes[from..to].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let message = format!("{:?}", Message::decode(&bytes).expect("a message"));
        assert!(message.contains(&format!("{field}: {value}")), "{field} of {}: {message}", char::from(code));
    };
    for (code, length, field, from, to) in [
        (b'A', 36, "order", 11, 19),
        (b'A', 36, "shares", 20, 24),
        (b'A', 36, "price", 32, 36),
        (b'E', 31, "order", 11, 19),
        (b'E', 31, "shares", 19, 23),
        (b'E', 31, "match_number", 23, 31),
        (b'C', 36, "printable", 31, 32),
        (b'C', 36, "price", 32, 36),
        (b'X', 23, "shares", 19, 23),
        (b'U', 35, "old", 11, 19),
        (b'U', 35, "new", 19, 27),
        (b'U', 35, "shares", 27, 31),
        (b'U', 35, "price", 31, 35),
        (b'P', 44, "shares", 20, 24),
        (b'P', 44, "price", 32, 36),
        (b'P', 44, "match_number", 36, 44),
        (b'Q', 40, "shares", 11, 19),
        (b'Q', 40, "price", 27, 31),
        (b'Q', 40, "match_number", 31, 39),
        (b'Q', 40, "cross", 39, 40),
        (b'B', 19, "match_number", 11, 19),
        (b'I', 50, "paired", 11, 19),
        (b'I', 50, "imbalance", 19, 27),
        (b'I', 50, "direction", 27, 28),
        (b'I', 50, "far", 36, 40),
        (b'I', 50, "near", 40, 44),
        (b'I', 50, "reference", 44, 48),
        (b'I', 50, "variation", 49, 50),
        (b'J', 35, "reference", 19, 23),
        (b'J', 35, "upper", 23, 27),
        (b'J', 35, "lower", 27, 31),
        (b'J', 35, "extension", 31, 35),
        (b'K', 28, "release_time", 19, 23),
        (b'K', 28, "qualifier", 23, 24),
        (b'K', 28, "price", 24, 28),
        (b'V', 35, "level3", 27, 35),
        (b'R', 39, "round_lot", 21, 25),
        (b'R', 39, "authenticity", 29, 30),
        (b'R', 39, "etp_leverage", 34, 38),
        (b'N', 20, "interest", 19, 20),
        (b'O', 48, "minimum", 20, 24),
        (b'O', 48, "near_time", 32, 40),
        (b'O', 48, "upper", 44, 48),
        (b'h', 21, "action", 20, 21),
    ] {
        at(code, length, field, from, to);
    }
}

/// Holds a stock of the day to the naive reader's.
pub(crate) fn hold(day: &TotalView<true>, naive: &Naive, locate: u16) {
    for (side, is_bid) in [(Side::Bid, true), (Side::Ask, false)] {
        let orders = day.books().orders(BookId(u32::from(locate)), side).map(|order| Standing {
            reference: order.reference,
            is_bid: order.side == Side::Bid,
            shares: order.size as u32,
            price: order.price as u32,
        });
        assert_eq!(orders.collect::<Vec<_>>(), naive.side(locate, is_bid), "stock {locate}, {side:?}");
    }
}

fn volume(watch: &Watch) -> BTreeMap<u16, u64> {
    let mut volume = BTreeMap::new();
    for seen in watch.trades() {
        match seen {
            Seen::Trade(book, trade) => *volume.entry(book.0 as u16).or_default() += trade.size,
            Seen::Broken(book, trade) => *volume.entry(book.0 as u16).or_default() -= trade.size,
            _ => {}
        }
    }
    volume
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_day_is_the_same_book_after_every_message_as_a_naive_reader_has(seed: u64, stocks in 1..30u16, life in 4..5_000u32) {
        let mut source = Day::new(Settings { seed, stocks, longest_life: f64::from(life) });
        let (mut day, mut levels, mut naive, mut watch) =
            (TotalView::<true>::default(), TotalView::<false>::default(), Naive::default(), Watch::default());
        for _ in 0..6_000 {
            let bytes = encoded(&source.next());
            prop_assert_eq!(day.apply(&bytes, &mut watch), Ok(()));
            prop_assert_eq!(levels.apply(&bytes, &mut ()), Ok(()));
            let locate = naive.apply(&bytes);
            hold(&day, &naive, locate);
            for side in Side::BOTH {
                let book = BookId(u32::from(locate));
                prop_assert!(day.books().levels(book, side).eq(levels.books().levels(book, side)));
            }
        }
        prop_assert_eq!(day.bad_total(), 0);
        let (mut told, mut expected) = (volume(&watch), naive.volume.clone());
        told.retain(|_, shares| *shares > 0);
        expected.retain(|_, shares| *shares > 0);
        prop_assert_eq!(told, expected);
        for locate in 1..=stocks {
            hold(&day, &naive, locate);
            prop_assert_eq!(day.locate(&Day::symbol(locate).trimmed()), Some(locate));
            prop_assert_eq!(day.stock(locate).map(|stock| stock.state), Some(b'T'));
        }
        prop_assert!(source.books().len() == day.books().len());
    }

    #[test]
    fn a_day_file_may_be_cut_anywhere(seed: u64, cuts in proptest::collection::vec(1..200usize, 1..40), torn in 0..40usize) {
        let mut source = Day::new(Settings { seed, stocks: 3, longest_life: 50.0 });
        let messages: Vec<Vec<u8>> = (0..200).map(|_| encoded(&source.next())).collect();
        let mut file = Vec::new();
        for message in &messages {
            file.extend_from_slice(&(message.len() as u16).to_be_bytes());
            file.extend_from_slice(message);
        }
        file.truncate(file.len() - torn);
        let (mut reader, mut read, mut rest) = (DayFile::new(), Vec::new(), &file[..]);
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            reader.read(piece, |message| read.push(message.to_vec()));
            rest = behind;
            if rest.is_empty() { break; }
        }
        prop_assert_eq!(&read[..], &messages[..read.len()]);
        let used: usize = read.iter().map(|message| message.len() + 2).sum();
        prop_assert_eq!((used + reader.torn(), reader.messages()), (file.len(), read.len() as u64));
    }
}

#[test]
fn what_an_order_that_is_not_there_means_is_counted_told_once_and_stops_nothing() {
    let mut source = Day::new(Settings { seed: 5, stocks: 1, longest_life: 100.0 });
    let (mut day, mut watch) = (TotalView::<true>::default(), Watch::default());
    for _ in 0..500 {
        day.apply(&encoded(&source.next()), &mut watch).expect("a message");
    }
    let before = day.books().len();
    let mut deletion = bytes_of(b'D', 19);
    deletion[1..3].copy_from_slice(&1u16.to_be_bytes());
    for _ in 0..3 {
        day.apply(&deletion, &mut watch).expect("a message");
    }
    assert_eq!((day.bad(Bad::UnknownOrder), day.books().len()), (3, before));
    let doubts: Vec<&Seen> = watch.seen.iter().filter(|seen| matches!(seen, Seen::Doubt(..))).collect();
    assert!(matches!(doubts[..], [Seen::Doubt(BookId(1), Refused::UnknownOrder(_))]), "{doubts:?}");
    assert!(day.is_in_doubt(BookId(1)));
    // A new day has no doubts.
    day.apply(&encoded(&source.system(b'O')), &mut watch).expect("a message");
    assert!(!day.is_in_doubt(BookId(1)) && day.books().is_empty() && day.stock(1).is_none());
}

#[test]
fn bad_input_is_counted_by_kind() {
    let mut day = TotalView::<true>::default();
    let mut apply = |bytes: &[u8], kind: Bad| {
        let before = day.bad(kind);
        let _unreadable = day.apply(bytes, &mut ());
        assert_eq!(day.bad(kind), before + 1, "{kind:?}");
    };
    apply(b"", Bad::Empty);
    apply(b"A12", Bad::Short);
    apply(b"~", Bad::Type);
    let mut order = bytes_of(b'A', 36);
    order[19] = b'Z';
    apply(&order, Bad::Value);
    order[19] = b'B';
    apply(&order, Bad::NoDirectory);
    apply(&order, Bad::DuplicateOrder);
    let reference = order[11..19].to_vec();
    order[11] = 1;
    order[20..24].fill(0);
    apply(&order, Bad::NoShares);
    order[20] = 1;
    order[32..36].fill(0);
    apply(&order, Bad::PriceZero);
    let mut cancel = bytes_of(b'X', 23);
    cancel[11..19].copy_from_slice(&reference);
    cancel[2] = 8;
    cancel[19..23].copy_from_slice(&[0, 0, 0, 1]);
    apply(&cancel, Bad::WrongStock);
    cancel[19..23].fill(0xFF);
    apply(&cancel, Bad::Exceeds);
    apply(&bytes_of(b'B', 19), Bad::UnknownTrade);
    assert_eq!(day.books().len(), 1);
}

#[test]
fn an_execution_that_is_printed_again_in_a_cross_is_no_trade() {
    let mut day = TotalView::<true>::default();
    let mut watch = Watch::default();
    let order = bytes_of(b'A', 36);
    day.apply(&order, &mut watch).expect("a message");
    let mut execution = bytes_of(b'C', 36);
    execution[11..19].copy_from_slice(&order[11..19]);
    execution[19..23].copy_from_slice(&[0, 0, 0, 9]);
    for printable in [b'N', b'Y'] {
        execution[31] = printable;
        day.apply(&execution, &mut watch).expect("a message");
    }
    let trades = watch.trades();
    let [Seen::Trade(book, trade)] = &trades[..] else { panic!("{trades:?}") };
    assert_eq!((*book, trade.size, trade.kind), (BookId(7), 9, TradeKind::BookAtPrice));
    // A sell order stood: who bought was at once.
    assert_eq!(trade.aggressor, Some(Side::Bid));
    let left = day.books().best(BookId(7), Side::Ask).expect("a level");
    let shares = u64::from(u32::from_be_bytes([order[20], order[21], order[22], order[23]]));
    assert_eq!(left.size, shares - 18, "both took from the book");
}

/// Long enough that orders are found in the window of new numbers, behind it, and before there was one.
#[test]
fn a_day_in_batches_is_the_day_message_by_message() {
    let mut source = Day::new(Settings { seed: 5, stocks: 40, longest_life: 4_000_000.0 });
    let messages: Vec<Vec<u8>> = (0..150_000).map(|_| encoded(&source.next())).collect();
    let file: Vec<u8> = messages.iter().flat_map(|m| [&(m.len() as u16).to_be_bytes()[..], m].concat()).collect();
    let (mut single, mut together, mut reader) =
        (TotalView::<true>::default(), TotalView::<true>::default(), DayFile::new());
    for message in &messages {
        single.apply(message, &mut ()).expect("a message");
    }
    // Pieces that end within messages, and within lengths.
    for piece in file.chunks(10_007) {
        reader.read_all(piece, |messages| together.apply_all(messages, &mut ()));
    }
    assert_eq!((reader.messages(), reader.torn()), (150_000, 0));
    assert_eq!((single.bad_total(), together.bad_total()), (0, 0));
    assert!(single.books().len() > 20_000, "{} orders stand", single.books().len());
    together.books().check_invariants();
    for book in (1..=40).map(BookId) {
        for side in Side::BOTH {
            assert!(single.books().orders(book, side).eq(together.books().orders(book, side)), "{book:?} {side:?}");
        }
    }
}

#[test]
fn messages_of_a_packet_are_those_that_are_whole() {
    let mut packet = MoldPacket::new(*b"SESSION001", 7);
    for message in [&b"one"[..], b"", b"three"] {
        assert!(packet.push(message));
    }
    let bytes = packet.bytes();
    assert!(mold::messages(bytes).eq([&b"one"[..], b"", b"three"]));
    assert!(mold::messages(&bytes[..bytes.len() - 1]).eq([&b"one"[..], b""]));
    for cut in 0..=mold::HEADER + 1 {
        assert_eq!(mold::messages(&bytes[..cut]).count(), 0);
    }
}
