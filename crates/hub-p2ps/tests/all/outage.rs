//! What an outage costs: a loss is told of in turns, each with so many items, and all of them together touch each item a few times.

use crate::world::{PRICE, SECOND, encode, refresh, update};
use hub_p2ps::{ClientId, ClientInfo, Config, Notice, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use rwf::msg::{MsgKey, RequestFlags, RequestMsg, StatusMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::{directory, login};
use rwf::{DataState, Qos, State, StateCode, StreamState};
use std::net::Ipv4Addr;

const BUDGET: u32 = 500;
const FAR: u16 = 40_000;

/// A P2PS with two sources: the first has so many services, the second has the last one, and an item in it that a client streams.
struct Outage {
    p2ps: P2ps,
    now: u64,
    writers: [BlockWriter; 2],
    /// Next handle at each source.
    handles: [u32; 2],
    /// Messages that each client got since they were looked at.
    got: Vec<u64>,
}

impl Outage {
    fn new(services: u16) -> Self {
        let config = Config { work_per_turn: BUDGET, opens_per_turn: 1 << 20, open_window: 0, ..Config::default() };
        let p2ps = P2ps::new(config, 7);
        let writers = [BlockWriter::new(1), BlockWriter::new(2)];
        let mut outage = Self { p2ps, now: SECOND, writers, handles: [0; 2], got: vec![0; 2] };
        for source in [0, 1] {
            outage.p2ps.source_up(outage.now, SourceId(source));
        }
        for id in 1..=services {
            outage.service(0, id);
        }
        outage.service(1, FAR);
        for client in 0..2 {
            outage.p2ps.client_up(outage.now, ClientId(client), ClientInfo { address: Ipv4Addr::LOCALHOST.into() });
            let login = login::Request { stream_id: 1, name: format!("user{client}"), ..login::Request::default() };
            outage.p2ps.client_message(outage.now, ClientId(client), &encode(|w| login.encode(w)));
        }
        outage.turn();
        outage
    }

    fn service(&mut self, source: usize, id: u16) {
        self.name(source, id, &format!("S{id}"));
    }

    /// A source says whether a service of it is up.
    fn state(&mut self, source: usize, id: u16, up: bool) {
        let mut entry = Service::new(id, Action::Update);
        entry.state = Some(Part::Update(ServiceState::new(up)));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        let name = format!("S{id}");
        let event = Event::Service { target: ALL, service: id, cached: false, name: &name, filters: &filters };
        self.writers[source].event(&event);
        self.publish(source);
    }

    /// A source gives this name to a service.
    fn name(&mut self, source: usize, id: u16, name: &str) {
        let info =
            Info { name: name.to_owned(), capabilities: vec![PRICE], qos: vec![Qos::REALTIME_TICK], ..Info::default() };
        let mut entry = Service::new(id, Action::Add);
        entry.info = Some(Part::Set(info));
        entry.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        let event = Event::Service { target: ALL, service: id, cached: false, name, filters: &filters };
        self.writers[source].event(&event);
        self.publish(source);
    }

    fn publish(&mut self, source: usize) {
        if let Some(block) = self.writers[source].block().map(<[u8]>::to_vec) {
            self.writers[source].clear();
            self.p2ps.hub_block(self.now, SourceId(source as u16), &block).unwrap();
            self.flush(&block);
        }
    }

    fn flush(&mut self, block: &[u8]) {
        let got = &mut self.got;
        self.p2ps.flush(block, |client, deliveries| got[client.0 as usize] += deliveries.count() as u64);
    }

    /// A turn: sources answer all opens with an image; a hundred handles in a row are a group, the first is 1.
    fn turn(&mut self) {
        self.now += 1_000_000;
        self.p2ps.on_timer(self.now);
        self.flush(&[]);
        let Self { p2ps, writers, handles, .. } = self;
        let image = refresh(&[(22, 1)]);
        p2ps.requests(|source, block| {
            let source = usize::from(source.0);
            for message in Block::parse(block).unwrap().messages() {
                if let Request::Open { token, .. } = Request::decode(&message.unwrap()).unwrap() {
                    let handle = handles[source];
                    handles[source] += 1;
                    let position = writers[source].next_position();
                    writers[source].event(&Event::ItemOpened { target: 7, handle, token });
                    let (group, flags) = (1 + handle / 100, flags::FIRST | flags::COMPLETE);
                    writers[source].event(&Event::Image { target: ALL, handle, group, flags, position, rwf: &image });
                }
            }
        });
        for source in [0, 1] {
            self.publish(source);
        }
    }

    /// `client` opens `count` items of a service, by its public id.
    fn open(&mut self, client: u32, service: u16, first: i32, count: i32) {
        for n in 0..count {
            let name = format!("I{n}");
            let request = RequestMsg {
                flags: RequestFlags::STREAMING,
                key: MsgKey { name_type: Some(1), ..MsgKey::item(service, name.as_bytes()) },
                ..RequestMsg::new(PRICE, first + n)
            };
            self.p2ps.client_message(self.now, ClientId(client), &encode(|w| request.encode(w)));
        }
        self.turn();
    }

    fn touched(&self) -> u64 {
        self.p2ps.counters().items_touched
    }

    /// Turns until nothing is to be done any more; each touches no more than its budget, and brings the other client's update.
    fn turns(&mut self, streaming: u32) -> u64 {
        let mut turns = 0;
        while self.turns_of(1, streaming) {
            turns += 1;
        }
        turns + 1
    }

    /// So many turns. True if there is something left to do.
    fn turns_of(&mut self, turns: u32, streaming: u32) -> bool {
        for _ in 0..turns {
            let before = self.touched();
            self.got[1] = 0;
            self.writers[1].update(streaming, false, &update(&[(22, 2)]));
            self.turn();
            assert!(self.touched() - before <= u64::from(BUDGET) + 2, "{} in one turn", self.touched() - before);
            assert_eq!(self.got[1], 1, "the update of another client in each turn");
        }
        self.p2ps.timeout() == Some(0)
    }
}

#[test]
fn a_source_with_many_services_and_items_is_lost_in_turns() {
    let (services, items) = (5_000_u16, 20);
    let mut outage = Outage::new(services);
    outage.open(1, services + 1, 10, 1);
    for service in 1..=services {
        outage.open(0, service, i32::from(service) * items, items);
    }
    let all = u64::from(services) * items as u64;
    assert_eq!(outage.p2ps.counters().items, all + 1);
    let (before, got) = (outage.touched(), outage.got[0]);
    outage.p2ps.source_down(outage.now, SourceId(0));
    assert!(outage.touched() - before <= u64::from(BUDGET) + 2);
    let turns = outage.turns(0);
    outage.p2ps.check_invariants();
    assert_eq!(outage.got[0] - got, all, "each item is told of once");
    assert_eq!(outage.p2ps.counters().items_lost, all);
    let touched = outage.touched() - before;
    assert!(touched <= 3 * all, "{touched} for {all} items");
    // A service costs as much as 16 items, and a turn ends with the one that uses its budget up.
    assert!(turns >= (all + 16 * u64::from(services)) / u64::from(BUDGET + 50), "{turns} turns");
    // The source is back: what waited is opened again, in turns as well.
    outage.writers[0] = BlockWriter::new(9);
    outage.p2ps.source_up(outage.now, SourceId(0));
    for id in 1..=services {
        outage.service(0, id);
    }
    outage.turns(0);
    outage.p2ps.check_invariants();
    assert_eq!((outage.p2ps.counters().items_waiting, outage.got[0] - got), (0, 2 * all), "each item has a new image");
}

#[test]
fn a_service_that_is_withdrawn_is_told_of_in_turns() {
    let items = 20_000;
    let mut outage = Outage::new(2);
    outage.open(1, 3, 10, 1);
    outage.open(0, 1, 10, items);
    let (before, got) = (outage.touched(), outage.got[0]);
    outage.writers[0].event(&Event::ServiceGone { service: 1 });
    outage.publish(0);
    outage.turns(0);
    outage.p2ps.check_invariants();
    assert_eq!(outage.got[0] - got, items as u64, "each item is told of once");
    assert!(outage.touched() - before <= 3 * items as u64);
}

/// A service is withdrawn, its source is lost before all is told, and an item of another service is asked of: the end of the first is told first.
#[test]
fn what_is_asked_of_one_service_leaves_the_end_of_another_what_it_is() {
    let items = 3_000;
    let mut outage = Outage::new(2);
    let directory = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 3 };
    outage.p2ps.client_message(outage.now, ClientId(0), &encode(|w| directory.encode(w)));
    outage.open(1, 3, 10, 1);
    outage.open(0, 1, 10, items);
    outage.open(0, 2, 10 + items, 1);
    let got = outage.got[0];
    outage.writers[0].event(&Event::ServiceGone { service: 1 });
    outage.publish(0);
    outage.p2ps.source_down(outage.now, SourceId(0));
    outage.flush(&[]);
    let again = RequestMsg {
        flags: RequestFlags::STREAMING,
        key: MsgKey { name_type: Some(1), ..MsgKey::item(2, b"I0") },
        ..RequestMsg::new(PRICE, 10 + items)
    };
    outage.p2ps.client_message(outage.now, ClientId(0), &encode(|w| again.encode(w)));
    outage.turns(0);
    outage.p2ps.check_invariants();
    assert_eq!(outage.p2ps.counters().items_waiting, 1, "the directory has closed all items of the service");
    assert!(outage.got[0] - got < 10, "{} messages about them", outage.got[0] - got);
}

#[test]
fn items_leave_a_source_where_their_service_is_down_in_turns() {
    let items = 20_000;
    let mut outage = Outage::new(1);
    outage.open(1, 2, 10, 1);
    outage.open(0, 1, 10, items);
    outage.service(1, 1);
    let (before, got) = (outage.touched(), outage.got[0]);
    outage.state(0, 1, false);
    assert!(outage.touched() - before <= u64::from(BUDGET) + 2, "{} at once", outage.touched() - before);
    assert_eq!(outage.p2ps.timeout(), Some(0), "there is more to do");
    let turns = outage.turns(0);
    outage.p2ps.check_invariants();
    let all = items as u64;
    assert_eq!(outage.got[0] - got, 2 * all, "each item is told of once, and has an image of the other source");
    assert_eq!((outage.p2ps.counters().items_lost, outage.p2ps.counters().items_waiting), (all, 0));
    assert!(outage.touched() - before <= 3 * all && turns >= 2 * all / u64::from(BUDGET) - 1, "{turns} turns");
    let moved: Vec<Notice> =
        outage.p2ps.notices().filter(|notice| matches!(notice, Notice::ItemsMoved { .. })).collect();
    assert_eq!(moved, [Notice::ItemsMoved { service: "S1".into(), source: "0".into(), items: all }]);
}

#[test]
fn items_stay_at_a_source_that_is_up_again_before_they_have_moved() {
    let items = 5_000;
    let mut outage = Outage::new(1);
    outage.open(1, 2, 10, 1);
    outage.open(0, 1, 10, items);
    outage.service(1, 1);
    outage.state(0, 1, false);
    outage.turns_of(2, 0);
    let gone = outage.p2ps.counters().items_lost;
    assert!(gone > 0 && gone < items as u64 / 2, "{gone} have gone");
    outage.state(0, 1, true);
    outage.turns(0);
    outage.p2ps.check_invariants();
    assert_eq!(outage.p2ps.counters().items_lost, gone, "the others are served where they are");
    // The source is lost as a whole before the rest has moved.
    outage.state(0, 1, false);
    outage.turns_of(1, 0);
    outage.p2ps.source_down(outage.now, SourceId(0));
    outage.turns(0);
    outage.p2ps.check_invariants();
    let counters = outage.p2ps.counters();
    assert_eq!((counters.items_lost, counters.items_waiting), (items as u64, 0), "each of them is at the other source");
}

#[test]
fn a_client_that_asks_for_what_is_being_lost_hears_of_the_loss_first() {
    let items = 5_000;
    let mut outage = Outage::new(1);
    outage.open(1, 2, 10, 1);
    outage.open(0, 1, 10, items);
    outage.p2ps.source_down(outage.now, SourceId(0));
    outage.flush(&[]);
    // Each of these is asked of while it is lost, or after: another watcher, a request again, a close.
    for n in 0..items {
        let name = format!("I{n}");
        let request = RequestMsg {
            flags: RequestFlags::STREAMING,
            key: MsgKey { name_type: Some(1), ..MsgKey::item(1, name.as_bytes()) },
            ..RequestMsg::new(PRICE, if n % 3 == 0 { 10 + n } else { 100 + n })
        };
        let close = rwf::msg::CloseMsg::new(PRICE, 10 + n);
        match n % 3 {
            0 => outage.p2ps.client_message(outage.now, ClientId(0), &encode(|w| request.encode(w))),
            1 => outage.p2ps.client_message(outage.now, ClientId(1), &encode(|w| request.encode(w))),
            _ => outage.p2ps.client_message(outage.now, ClientId(0), &encode(|w| close.encode(w))),
        };
        if n % 1000 == 0 {
            outage.flush(&[]);
            outage.p2ps.check_invariants();
        }
    }
    while outage.p2ps.timeout() == Some(0) {
        outage.turn();
        outage.p2ps.check_invariants();
    }
    let closed = (items as u64 - 1) / 3;
    assert_eq!(outage.p2ps.counters().items_waiting, items as u64 - closed, "everything that is watched waits");
}

#[test]
fn statuses_of_groups_and_services_touch_their_members_only() {
    let items = 20_000_u32;
    let mut outage = Outage::new(2);
    outage.open(1, 3, 10, 1);
    outage.open(0, 1, 10, items as i32);
    outage.open(0, 2, 10 + items as i32, 50);
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "");
    let before = outage.touched();
    for group in 1..=items / 100 {
        outage.writers[0].event(&Event::GroupStatus { service: 1, group, state: Some(suspect), merged_to: None });
    }
    outage.publish(0);
    assert_eq!(outage.touched() - before, u64::from(items), "each group has a hundred of them");
    let before = outage.touched();
    for _ in 0..1_000 {
        outage.writers[0].event(&Event::GroupStatus {
            service: 1,
            group: 9_999,
            state: Some(suspect),
            merged_to: None,
        });
    }
    outage.publish(0);
    assert_eq!(outage.touched(), before, "groups without members cost nothing");
    outage.writers[0].event(&Event::ServiceStatus { service: 2, state: suspect });
    outage.publish(0);
    assert_eq!(outage.touched() - before, 50, "the items of another service have nothing to do with it");
}

/// What an operator has been told of services without an id.
fn lacking(outage: &mut Outage) -> Vec<String> {
    let notices = outage.p2ps.notices();
    notices.filter_map(|notice| matches!(notice, Notice::NoServiceIds { .. }).then(|| notice.to_string())).collect()
}

#[test]
fn names_of_services_that_are_gone_leave_their_ids_to_others() {
    let ids = 65_000_u16;
    let mut outage = Outage::new(ids);
    assert_eq!(lacking(&mut outage).len(), 0);
    outage.open(0, 1, 10, 3);
    // Their source is gone, and the client waits for its items.
    outage.p2ps.source_down(outage.now, SourceId(0));
    while outage.p2ps.timeout() == Some(0) {
        outage.turn();
    }
    outage.writers[0] = BlockWriter::new(9);
    outage.p2ps.source_up(outage.now, SourceId(0));
    outage.name(0, 1, "NEW");
    let said = lacking(&mut outage);
    assert!(said.len() == 1 && said[0].contains("NEW") && said[0].contains("65000"), "{said:?}");
    outage.name(0, 2, "NEWER");
    assert_eq!((lacking(&mut outage).len(), outage.p2ps.counters().services_refused), (0, 2), "said once a second");
    outage.now += 61 * SECOND;
    outage.name(0, 1, "NEW");
    assert_eq!(outage.p2ps.service_name(1), Some("S1"), "somebody waits for its items");
    assert_eq!(outage.p2ps.service_name(2), Some("NEW"), "the first of those that nothing refers to");
    assert_eq!((outage.p2ps.services_renamed(), outage.p2ps.counters().services_refused), (1, 2));
    outage.open(0, 2, 100, 5);
    outage.turn();
    outage.p2ps.check_invariants();
    assert_eq!(outage.p2ps.counters().items_waiting, 3, "the new one serves its items, and S1 is not back");
}

#[test]
fn an_id_that_its_source_has_given_to_another_name_is_the_old_services_no_more() {
    let mut outage = Outage::new(2);
    outage.open(0, 1, 10, 3);
    // The word that S1 is gone was lost on the way.
    outage.name(0, 1, "OTHER");
    while outage.p2ps.timeout() == Some(0) {
        outage.turn();
    }
    outage.p2ps.check_invariants();
    assert_eq!(outage.p2ps.counters().items_waiting, 3, "nobody has S1");
    let gone = outage.p2ps.notices().any(|notice| notice == Notice::ServiceGone { service: "S1".into() });
    assert!(gone && outage.p2ps.service_name(4) == Some("OTHER"));
}

/// Where there are many items, what updates need is looked at ahead of them: handles that nobody has, other events between, blocks of any length.
#[test]
fn updates_of_many_items_in_no_order_all_arrive() {
    let items = 20_000;
    let mut outage = Outage::new(1);
    outage.open(1, 2, 10, 1);
    outage.open(0, 1, 10, items);
    let (message, mut seed) = (update(&[(22, 3)]), 1_u32);
    for length in [0, 1, 15, 16, 17, 31, 32, 33, 1_000] {
        let (got, mut expected) = (outage.got[0], 0);
        for number in 0..length {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A hundredth of the handles is nobody's.
            let handle = (seed >> 8) % (items as u32 * 101 / 100);
            outage.writers[0].update(handle, false, &message);
            expected += u64::from(handle < items as u32);
            if number % 37 == 36 {
                let (target, group, flags) = (ALL, 0, flags::PENDING_TOO);
                let state = State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "");
                let status = StatusMsg { state: Some(state), ..StatusMsg::new(PRICE, 0) };
                let rwf = encode(|w| status.encode(w));
                outage.writers[0].event(&Event::ItemStatus { target, handle: number, group, flags, rwf: &rwf });
                expected += 1;
            }
        }
        outage.publish(0);
        assert_eq!(outage.got[0] - got, expected, "a block of {length} updates");
    }
    outage.p2ps.check_invariants();
}
