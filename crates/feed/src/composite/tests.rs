//! Composites over sources of the tests' own.
#![allow(clippy::inconsistent_digit_grouping, reason = "prices and sizes in hundredths")]

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A source whose items say what the test has them say.
#[derive(Default)]
struct Said {
    names: Vec<&'static str>,
    /// Bid, bid size, ask, ask size with two decimals; state.
    quotes: Vec<([Option<i64>; 4], DataState)>,
    watched: Vec<bool>,
    events: Vec<(usize, Option<DataState>)>,
}

#[derive(Clone, Default)]
struct Source(Rc<RefCell<Said>>);

fn fields(quote: &[Option<i64>; 4], out: &mut Vec<u8>) {
    append_fields(out, |fields| {
        for (id, value) in [fid::BID, fid::BIDSIZE, fid::ASK, fid::ASKSIZE].into_iter().zip(quote) {
            match value {
                Some(value) => fields.real(id, *value, 2),
                None => fields.blank(id),
            }
        }
    });
}

impl Source {
    fn new(names: &[&'static str]) -> Self {
        let count = names.len();
        let said = Said {
            names: names.to_vec(),
            quotes: vec![([None; 4], DataState::OK); count],
            watched: vec![false; count],
            events: Vec::new(),
        };
        Self(Rc::new(RefCell::new(said)))
    }

    fn quote(&self, item: usize, quote: [Option<i64>; 4]) {
        let mut said = self.0.borrow_mut();
        said.quotes[item].0 = quote;
        said.events.push((item, None));
    }

    fn state(&self, item: usize, state: DataState) {
        let mut said = self.0.borrow_mut();
        said.quotes[item].1 = state;
        said.events.push((item, Some(state)));
    }
}

impl MarketSource for Source {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.0.borrow().names.iter().position(|known| *known == name).map(|at| InstrumentId(at as u32))
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        model == Model::Price
    }

    fn image(&mut self, id: InstrumentId, _: Model, _: usize, out: &mut Vec<u8>) -> bool {
        fields(&self.0.borrow().quotes[id.0 as usize].0, out);
        false
    }

    fn data_state(&self, id: InstrumentId, _: Model) -> DataState {
        self.0.borrow().quotes[id.0 as usize].1
    }

    fn watch(&mut self, id: InstrumentId, _: Model, on: bool) {
        let was = std::mem::replace(&mut self.0.borrow_mut().watched[id.0 as usize], on);
        assert_ne!(was, on, "a source is told of changes alone");
    }

    fn due(&self) -> Option<Nanos> {
        (!self.0.borrow().events.is_empty()).then_some(0)
    }

    fn symbols(&self) -> Vec<String> {
        self.0.borrow().names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn advance(&mut self, _: Nanos, _: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let events = std::mem::take(&mut self.0.borrow_mut().events);
        for (item, state) in events {
            if !self.0.borrow().watched[item] {
                continue;
            }
            let mut body = Vec::new();
            let payload = match state {
                None => {
                    fields(&self.0.borrow().quotes[item].0, &mut body);
                    Payload::Update(UpdateKind::Quote)
                }
                Some(data) => {
                    let state =
                        rwf::State { stream: rwf::StreamState::OPEN, data, code: rwf::StateCode::NONE, text: b"said" };
                    let status = rwf::msg::StatusMsg {
                        state: Some(state),
                        ..rwf::msg::StatusMsg::new(rwf::msg::Domain::MARKET_PRICE, 0)
                    };
                    crate::fields::append(&mut body, 64, |w| status.encode(w));
                    Payload::Status
                }
            };
            sink(Event { instrument: InstrumentId(item as u32), model: Model::Price, payload, body: &body });
        }
    }
}

/// What is told of an item: bid, its size, ask, its size with two decimals, state of the book, who has the bid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Events {
    values: [Option<i64>; 4],
    book: u16,
    bid_of: String,
    states: Vec<DataState>,
}

impl Events {
    fn take(&mut self, body: &[u8]) {
        let list = FieldList::decode(body, &SetScope::default()).expect("a field list");
        for field in list.entries().map(|field| field.expect("a field")) {
            let places = [fid::BID, fid::BIDSIZE, fid::ASK, fid::ASKSIZE];
            if let Some(at) = places.iter().position(|known| *known == field.fid) {
                self.values[at] = match field.value(DataType::REAL).expect("a real") {
                    Primitive::Real(real) => {
                        exact(real.mantissa, real.hint).map(|value| (value / 1_000_000_000_000) as i64)
                    }
                    _ => None,
                };
            } else if field.fid == fid::BOOK_STATE {
                let Ok(Primitive::Enum(state)) = field.value(DataType::ENUM) else { panic!("no state") };
                self.book = state;
            } else if field.fid == fid::BID_MMID1 {
                self.bid_of = String::from_utf8(field.data.to_vec()).expect("text");
            }
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if event.payload == Payload::Status {
            let Ok(Msg::Status(status)) = Msg::decode(event.body) else { panic!("no status") };
            self.states.push(status.state.expect("a state").data);
        } else {
            self.take(event.body);
        }
    }
}

fn member(source: usize, item: &str, name: &str) -> Member {
    Member { source, item: item.to_owned(), name: name.to_owned() }
}

/// Two sources with an item each, and a composite of both.
fn market(needed: usize, longest_ns: Option<u64>) -> (Source, Source, CompositeSource) {
    let (a, b) = (Source::new(&["X.A"]), Source::new(&["Y.B", "X.B"]));
    let item = CompositeItem {
        name: "X=".to_owned(),
        members: vec![member(0, "X.A", "AAA"), member(1, "X.B", "BBB")],
        needed,
        longest_ns,
    };
    let sources: Vec<Box<dyn MarketSource>> = vec![Box::new(a.clone()), Box::new(b.clone())];
    (a, b, CompositeSource::new(sources, vec![item], 1_700_000_000 * SECOND))
}

fn advance(source: &mut CompositeSource, id: InstrumentId, now: u64, told: &mut Events) {
    source.advance(now, 100, &mut |event| {
        assert_eq!(event.instrument, id, "what nobody watches is not told");
        told.event(&event);
    });
}

fn begin(source: &mut CompositeSource) -> (InstrumentId, Events) {
    let id = source.find("X=").expect("the composite");
    source.watch(id, Model::Price, true);
    let (mut body, mut told) = (Vec::new(), Events::default());
    assert!(!source.image(id, Model::Price, 0, &mut body));
    told.take(&body);
    told.states.push(source.data_state(id, Model::Price));
    (id, told)
}

#[test]
fn the_best_of_each_side_is_told_with_the_sum_of_those_who_stand_at_it() {
    let (a, b, mut source) = market(1, None);
    a.quote(0, [Some(100_00), Some(5_00), Some(101_00), Some(2_00)]);
    let (id, mut told) = begin(&mut source);
    assert_eq!(
        (told.values, told.book, &told.bid_of[..]),
        ([Some(100_00), Some(5_00), Some(101_00), Some(2_00)], 1, "AAA")
    );
    b.quote(1, [Some(100_00), Some(2_50), Some(100_50), Some(1_00)]);
    advance(&mut source, id, SECOND, &mut told);
    assert_eq!((told.values, &told.bid_of[..]), ([Some(100_00), Some(7_50), Some(100_50), Some(1_00)], "AAA"));
    // Venues disagree: crossed, and told so; then locked.
    b.quote(1, [Some(101_50), Some(1_00), Some(102_00), Some(1_00)]);
    advance(&mut source, id, 2 * SECOND, &mut told);
    assert_eq!((told.values[0], told.values[2], told.book, &told.bid_of[..]), (Some(101_50), Some(101_00), 3, "BBB"));
    b.quote(1, [Some(101_00), Some(1_00), None, None]);
    advance(&mut source, id, 3 * SECOND, &mut told);
    assert_eq!((told.values[0], told.values[2], told.book), (Some(101_00), Some(101_00), 2));
    a.quote(0, [None, None, None, None]);
    advance(&mut source, id, 4 * SECOND, &mut told);
    assert_eq!((told.values, told.book), ([Some(101_00), Some(1_00), None, None], 4));
    assert_eq!(told.states, [DataState::OK]);
    // What changes nothing is not told.
    let before = told.clone();
    a.quote(0, [Some(50_00), Some(1_00), None, None]);
    let mut count = 0;
    source.advance(5 * SECOND, 100, &mut |_| count += 1);
    assert_eq!((count, told), (0, before));
    assert_eq!(source.symbols(), ["X.A", "X.B", "X=", "Y.B"]);
}

#[test]
fn a_member_that_is_suspect_counts_for_nothing_until_it_is_good() {
    let (a, b, mut source) = market(2, None);
    a.quote(0, [Some(100_00), Some(1_00), Some(103_00), Some(1_00)]);
    b.quote(1, [Some(99_00), Some(1_00), Some(102_00), Some(1_00)]);
    let (id, mut told) = begin(&mut source);
    a.state(0, DataState::SUSPECT);
    advance(&mut source, id, SECOND, &mut told);
    assert_eq!((told.values[0], told.values[2]), (Some(99_00), Some(102_00)));
    assert_eq!(told.states, [DataState::OK, DataState::SUSPECT], "both are needed");
    a.state(0, DataState::OK);
    advance(&mut source, id, 2 * SECOND, &mut told);
    assert_eq!((told.values[0], told.values[2]), (Some(100_00), Some(102_00)));
    assert_eq!(told.states, [DataState::OK, DataState::SUSPECT, DataState::OK]);
}

#[test]
fn a_side_that_never_leaves_is_worth_nothing_when_its_time_is_over() {
    let (a, b, mut source) = market(1, Some(10 * SECOND));
    a.quote(0, [Some(100_00), Some(1_00), Some(101_00), Some(1_00)]);
    b.quote(1, [Some(99_00), Some(1_00), Some(102_00), Some(1_00)]);
    let (id, mut told) = begin(&mut source);
    assert_eq!(source.due(), Some(0));
    advance(&mut source, id, 0, &mut told);
    b.quote(1, [Some(99_50), Some(1_00), Some(102_00), Some(1_00)]);
    advance(&mut source, id, 6 * SECOND, &mut told);
    assert_eq!(source.due(), Some(10 * SECOND), "nothing has to come for that");
    advance(&mut source, id, 10 * SECOND, &mut told);
    assert_eq!((told.values, told.book), ([Some(99_50), Some(1_00), None, None], 4));
    advance(&mut source, id, 16 * SECOND, &mut told);
    assert_eq!((told.values, told.book), ([None; 4], 0));
    assert_eq!(told.states, [DataState::OK, DataState::SUSPECT]);
}

#[test]
fn items_of_the_sources_stay_as_they_are_and_are_watched_once() {
    let (a, b, mut source) = market(1, None);
    let (id, mut told) = begin(&mut source);
    assert_eq!((a.0.borrow().watched.clone(), b.0.borrow().watched.clone()), (vec![true], vec![false, true]));
    let own = source.find("X.A").expect("an item");
    source.watch(own, Model::Price, true);
    a.quote(0, [Some(1_00), Some(1_00), None, None]);
    let mut heard = Vec::new();
    source.advance(1, 100, &mut |event| heard.push(event.instrument));
    assert_eq!(heard, [own, id]);
    source.watch(id, Model::Price, false);
    assert_eq!((a.0.borrow().watched.clone(), b.0.borrow().watched.clone()), (vec![true], vec![false, false]));
    a.quote(0, [Some(2_00), Some(1_00), None, None]);
    heard.clear();
    source.advance(2, 100, &mut |event| heard.push(event.instrument));
    assert_eq!(heard, [own]);
    source.watch(own, Model::Price, false);
    assert_eq!(a.0.borrow().watched, [false]);
    // Without a watcher its image is that of the moment.
    let mut body = Vec::new();
    source.image(id, Model::Price, 0, &mut body);
    told.take(&body);
    assert_eq!(told.values, [Some(2_00), Some(1_00), None, None]);
    assert!(source.offers(id, Model::Price) && !source.offers(id, Model::ByPrice) && source.find("Z").is_none());
}
