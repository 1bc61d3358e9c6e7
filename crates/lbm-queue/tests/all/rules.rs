//! A source and its receivers, step by step.

use lbm::wire::Writer;
use lbm::wire::lbmc::{self, Kind, Message, Messages, NEXT_DATA};
use lbm_queue::receiver::{Receiver, ReceiverConfig, ReceiverEvent, Verdict};
use lbm_queue::source::{Events, NotAdmitted, SetConfig, Source, SourceConfig, SourceEvent, TypeConfig};
use lbm_queue::wire::{Joins, Load, Refusal, Registration, Ulb, control};
use lbm_queue::{Index, MessageId};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A source and receivers without a network between them.
struct Rig {
    now: u64,
    source: Source,
    receivers: Vec<Receiver>,
    /// Of each receiver: number, and whether it had been assigned before.
    had: Vec<Vec<(u64, bool)>>,
    /// Receivers that hear and say nothing.
    deaf: Vec<usize>,
    /// Receivers that do not consume what they get.
    idle: Vec<usize>,
    happened: Vec<SourceEvent>,
}

fn config(sets: usize) -> SourceConfig {
    SourceConfig {
        sets: vec![SetConfig::default(); sets],
        types: (0..sets as u32).map(|set| (set, TypeConfig::of_set(set as u16))).collect(),
        events: Events::ALL,
        ..SourceConfig::default()
    }
}

impl Rig {
    fn new(config: SourceConfig) -> Self {
        Self {
            now: SECOND,
            source: Source::new(SECOND, 5, (42, [1; 32]), config, 1),
            receivers: Vec::new(),
            had: Vec::new(),
            deaf: Vec::new(),
            idle: Vec::new(),
            happened: Vec::new(),
        }
    }

    fn join(&mut self, kind: u32) -> usize {
        self.join_as(ReceiverConfig { kind, ..ReceiverConfig::default() })
    }

    fn join_as(&mut self, config: ReceiverConfig) -> usize {
        let mut receiver = Receiver::new(config, self.receivers.len() as u64 + 1);
        receiver.found(self.now, 1, 5, (42, [1; 32]));
        self.receivers.push(receiver);
        self.had.push(Vec::new());
        self.turn();
        self.receivers.len() - 1
    }

    fn send(&mut self) -> Result<MessageId, NotAdmitted> {
        let sent = self.source.send(self.now, b"x", None);
        self.turn();
        sent
    }

    /// All that is on its way arrives.
    fn turn(&mut self) {
        for _ in 0..6 {
            self.source.on_timer(self.now);
            let mut sent = Vec::new();
            while let Some(transmission) = self.source.to_send() {
                let mut bytes = [0; 500];
                let mut w = Writer::new(&mut bytes);
                let body = transmission.payload;
                let encoded = transmission
                    .headers
                    .with(|headers| lbmc::encode(&mut w, Kind::Message, 42, 0, headers, NEXT_DATA, body));
                encoded.expect("fits");
                sent.push(w.written().to_vec());
                self.source.transmitted(self.now);
            }
            let announced: Vec<Vec<u8>> = self.source.announcements().collect();
            for (at, receiver) in self.receivers.iter_mut().enumerate().filter(|(at, _)| !self.deaf.contains(at)) {
                for bytes in &announced {
                    receiver.control(self.now, 1, &Message::decode(bytes).expect("ours").0).expect("ours");
                }
                for bytes in &sent {
                    let (message, _) = Message::decode(bytes).expect("ours");
                    if let Verdict::Own { id, again, .. } = receiver.message(self.now, 1, &message.headers()) {
                        self.had[at].push((id.stamp, again));
                        if !self.idle.contains(&at) {
                            receiver.consumed(self.now, id);
                        }
                    }
                }
                receiver.on_timer(self.now);
                let (mut said, mut answers) = (Vec::new(), Vec::new());
                receiver.output(|_, bytes| said.extend_from_slice(bytes));
                for message in Messages::new(&said) {
                    self.source.question(self.now, None, &message.expect("ours"), &mut answers).expect("ours");
                }
                for message in Messages::new(&answers) {
                    receiver.control(self.now, 1, &message.expect("ours")).expect("ours");
                }
            }
            let mut events = Vec::new();
            self.source.swap_events(&mut events);
            self.happened.append(&mut events);
        }
    }

    /// Time goes by, in steps of 100 ms.
    fn pass(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.now < until {
            self.now += 100 * MS;
            self.turn();
        }
    }
}

#[test]
fn one_receiver_of_each_set_has_a_message() {
    let mut rig = Rig::new(config(2));
    let (a, b, other) = (rig.join(0), rig.join(0), rig.join(1));
    (0..10).for_each(|_| rig.send().map(|_| ()).expect("room"));
    assert_eq!((rig.had[a].len(), rig.had[b].len(), rig.had[other].len()), (5, 5, 10));
    assert_eq!((rig.source.in_flight(), rig.source.stats().consumed), (0, 20));
    assert_eq!(rig.source.receivers(), (3, 3));
}

#[test]
fn what_nobody_can_have_waits_for_the_first_who_can() {
    let mut rig = Rig::new(config(1));
    (0..3).for_each(|_| rig.send().map(|_| ()).expect("room"));
    rig.pass(30 * SECOND);
    assert_eq!(rig.source.in_flight(), 3);
    let receiver = rig.join(0);
    assert_eq!(rig.had[receiver], [(0, false), (1, false), (2, false)]);
    assert_eq!(rig.source.in_flight(), 0);
}

#[test]
fn a_receiver_that_leaves_gives_back_what_it_has_not_consumed() {
    let mut rig = Rig::new(config(1));
    let (leaves, stays) = (rig.join(0), rig.join(0));
    rig.idle.push(leaves);
    (0..4).for_each(|_| rig.send().map(|_| ()).expect("room"));
    assert_eq!(rig.source.in_flight(), 1, "who consumes nothing gets no more while another one has less");
    rig.receivers[leaves].leave();
    rig.turn();
    assert_eq!(rig.source.in_flight(), 0);
    assert_eq!(rig.had[stays].iter().filter(|(_, again)| *again).count(), 1, "it says that somebody has had it");
    assert!(rig.happened.iter().any(|event| matches!(event, SourceEvent::Left { .. })));
}

#[test]
fn a_silent_receiver_is_gone_after_its_time_and_learns_it_when_it_speaks() {
    let mut rig = Rig::new(config(1));
    let (silent, other) = (rig.join(0), rig.join(0));
    rig.deaf.push(silent);
    (0..4).for_each(|_| rig.send().map(|_| ()).expect("room"));
    rig.pass(9 * SECOND);
    assert_eq!(rig.source.in_flight(), 1, "not yet");
    rig.pass(3 * SECOND);
    assert_eq!((rig.source.in_flight(), rig.had[other].len()), (0, 4));
    assert_eq!(rig.source.stats().timed_out, 1);
    rig.deaf.clear();
    rig.pass(2 * SECOND);
    assert_eq!(rig.source.receivers(), (2, 2), "it has registered again");
    let before = rig.had[silent].len();
    (0..4).for_each(|_| rig.send().map(|_| ()).expect("room"));
    assert_eq!(rig.had[silent].len(), before + 2);
}

#[test]
fn a_message_that_is_not_consumed_in_time_goes_to_another_receiver_and_is_given_up_after_so_many() {
    let mut set = SetConfig { assignments_max: 3, reassignment_timeout_ns: SECOND, ..SetConfig::default() };
    set.activity_timeout_ns = 100 * SECOND;
    let mut rig = Rig::new(SourceConfig { sets: vec![set], ..config(1) });
    let (a, b) = (rig.join(0), rig.join(0));
    rig.idle = vec![a, b];
    let message = rig.send().expect("room");
    rig.pass(10 * SECOND);
    let times = |at: usize| rig.had[at].len();
    // The third time it is the first one's again, which knows that it has it.
    assert_eq!((times(a), times(b)), (1, 1));
    assert_eq!(rig.source.in_flight(), 0);
    assert!(rig.happened.contains(&SourceEvent::GivenUp { message, set: 0 }));
    assert!(rig.happened.contains(&SourceEvent::Complete { message }));
    assert_eq!((rig.source.stats().reassigned, rig.source.stats().given_up), (2, 1));
}

#[test]
fn a_message_has_its_lifetime_whoever_has_it() {
    let set = SetConfig { lifetime_ns: 2 * SECOND, ..SetConfig::default() };
    let mut rig = Rig::new(SourceConfig { sets: vec![set], ..config(1) });
    rig.send().expect("room");
    rig.pass(SECOND);
    assert_eq!(rig.source.in_flight(), 1);
    rig.pass(3 * SECOND);
    assert_eq!((rig.source.in_flight(), rig.source.stats().given_up), (0, 1));
}

#[test]
fn a_full_flight_refuses_or_tells() {
    let mut rig = Rig::new(SourceConfig { flight_size: 2, ..config(1) });
    rig.send().expect("room");
    rig.send().expect("room");
    assert_eq!(rig.send(), Err(NotAdmitted::FlightFull));
    rig.join(0);
    assert!(rig.happened.contains(&SourceEvent::Writable));
    rig.send().expect("there is room again");
    let mut rig = Rig::new(SourceConfig { flight_size: 2, blocks: false, bytes_max: 4, ..config(1) });
    (0..4).for_each(|_| rig.send().map(|_| ()).expect("goes on"));
    assert_eq!(rig.send(), Err(NotAdmitted::BytesFull));
    assert!(rig.happened.contains(&SourceEvent::FlightSize { is_over: true }));
    rig.join(0);
    assert!(rig.happened.contains(&SourceEvent::FlightSize { is_over: false }));
    assert!(rig.happened.contains(&SourceEvent::Writable));
}

#[test]
fn who_is_of_no_set_is_told_so_and_asks_no_more() {
    let mut rig = Rig::new(config(1));
    let stranger = rig.join(99);
    let events: Vec<ReceiverEvent> = rig.receivers[stranger].events().collect();
    assert_eq!(events, [ReceiverEvent::Refused { stream: 1, refusal: Refusal::ReceiverType }]);
    rig.pass(5 * SECOND);
    assert_eq!((rig.source.stats().refused_receivers, rig.source.receivers()), (1, (0, 0)));
}

#[test]
fn a_receiver_takes_indices_when_it_says_so() {
    let mut rig = Rig::new(config(1));
    let receiver = rig.join_as(ReceiverConfig { takes_indices: false, ..ReceiverConfig::default() });
    rig.source.send(rig.now, b"x", Some(Index::Number(4))).expect("room");
    rig.send().expect("room");
    assert_eq!(rig.had[receiver], [(1, false)], "without an index it gets them");
    let now = rig.now;
    rig.receivers[receiver].take_indices(now, true);
    rig.turn();
    assert_eq!(rig.had[receiver], [(1, false), (0, false)]);
    assert_eq!(rig.source.receivers(), (1, 1), "it is the same receiver");
}

#[test]
fn reports_of_strangers_and_broken_headers_change_nothing() {
    let mut rig = Rig::new(config(1));
    let receiver = rig.join(0);
    rig.idle.push(receiver);
    rig.send().expect("room");
    let mut bytes = Vec::new();
    let ids = [5u64.to_be_bytes(), 9_999_999u64.to_be_bytes()].concat();
    control(
        &mut bytes,
        &[
            Ulb::Load(Load { sources: 1, messages: 3 }),
            Ulb::Consumed { source: 6, receiver: 1, set: 0, ids: &ids },
            Ulb::Consumed { source: 5, receiver: 1, set: 7, ids: &ids },
            Ulb::Consumed { source: 5, receiver: 1, set: 0, ids: &ids },
        ],
    );
    let (message, _) = Message::decode(&bytes).expect("ours");
    let mut answers = Vec::new();
    rig.source.question(rig.now, None, &message, &mut answers).expect("whole");
    assert_eq!((rig.source.in_flight(), rig.source.stats().late_reports), (1, 2));
    assert_eq!(rig.source.stats().unknown_receivers, 2);
    let broken = [8, 50, 0, 10, 0xFF, 6, 15, 3, 0, 0];
    let (message, _) = Message::decode(&broken).expect("the frame is whole");
    rig.source.question(rig.now, None, &message, &mut answers).expect_err("15 ids have no room there");
    rig.receivers[receiver].control(rig.now, 1, &message).expect_err("nor at a receiver");
}

/// Sources of two sessions of one program may have the same index, and then the same id: each hears what is meant for it.
#[test]
fn of_two_sources_with_one_id_the_one_that_is_meant_is_heard() {
    let mut sources = [1, 2].map(|origin| Source::new(SECOND, 5, (42, [origin; 32]), config(1), 1));
    let mut receivers = [1, 2].map(|origin| {
        let mut receiver = Receiver::new(ReceiverConfig::default(), origin.into());
        receiver.found(SECOND, 1, 5, (42, [origin; 32]));
        receiver
    });
    // A receiver of another make does not say whom it means: all that may be meant hear it.
    let registration = |receiver| {
        let joins = Joins { kind: 0, takes_indices: true, port: 0, address: std::net::Ipv4Addr::UNSPECIFIED };
        Ulb::Registration(Registration { reg_id: 9, command: 1, source: 5, receiver, joins: Some(joins) })
    };
    let mut heard_by = |said: &[u8]| {
        let (message, _) = Message::decode(said).expect("ours");
        let hears = |source: &mut Source| source.question(SECOND, None, &message, &mut Vec::new()).expect("ours");
        sources.each_mut().map(hears)
    };
    for (at, receiver) in receivers.iter_mut().enumerate() {
        receiver.on_timer(SECOND);
        let mut said = Vec::new();
        receiver.output(|_, bytes| said.extend_from_slice(bytes));
        assert_eq!(heard_by(&said), [at == 0, at == 1]);
    }
    let mut of_others = Vec::new();
    assert!(control(&mut of_others, &[Ulb::TopicIndex(42), registration(77)]));
    assert_eq!(heard_by(&of_others), [true, true]);
    assert_eq!(sources.map(|source| source.receivers().0), [2, 2]);
}

/// A receiver of two sources with one id tells the one whose message it was.
#[test]
fn what_was_consumed_of_two_sources_with_one_id_is_told_to_both() {
    let mut rigs = [1, 2].map(|origin| {
        let mut source = Source::new(SECOND, 5, (42, [origin; 32]), config(1), 1);
        source.on_timer(SECOND);
        source
    });
    let mut receiver = Receiver::new(ReceiverConfig::default(), 1);
    (1..=2).for_each(|origin| receiver.found(SECOND, u32::from(origin), 5, (42, [origin; 32])));
    let turn = |receiver: &mut Receiver, sources: &mut [Source; 2], now: u64| {
        receiver.on_timer(now);
        let mut said: Vec<(u32, Vec<u8>)> = Vec::new();
        receiver.output(|stream, bytes| said.push((stream, bytes.to_vec())));
        for (stream, said) in said {
            let mut answers = Vec::new();
            for message in Messages::new(&said) {
                let source = &mut sources[stream as usize - 1];
                source.question(now, None, &message.expect("ours"), &mut answers).expect("ours");
            }
            for message in Messages::new(&answers) {
                receiver.control(now, stream, &message.expect("ours")).expect("ours");
            }
        }
        let mut own = Vec::new();
        for (at, source) in sources.iter_mut().enumerate() {
            source.on_timer(now);
            let stream = at as u32 + 1;
            for bytes in source.announcements().collect::<Vec<_>>() {
                receiver.control(now, stream, &Message::decode(&bytes).expect("ours").0).expect("ours");
            }
            while let Some(transmission) = source.to_send() {
                let mut bytes = [0; 500];
                let mut w = Writer::new(&mut bytes);
                let encoded = transmission
                    .headers
                    .with(|headers| lbmc::encode(&mut w, Kind::Message, 42, 0, headers, NEXT_DATA, b"x"));
                encoded.expect("fits");
                let (message, _) = Message::decode(w.written()).expect("ours");
                if let Verdict::Own { id, .. } = receiver.message(now, stream, &message.headers()) {
                    own.push(id);
                }
                source.transmitted(now);
            }
        }
        own
    };
    let mut own = Vec::new();
    for step in 0..20 {
        if step == 10 {
            for source in &mut rigs {
                source.send(SECOND, b"x", None).expect("room");
            }
        }
        own.extend(turn(&mut receiver, &mut rigs, SECOND + step * 100 * MS));
    }
    assert_eq!(own.len(), 2, "one of each");
    assert_eq!(own[0], own[1], "under one name");
    for id in own {
        receiver.consumed(4 * SECOND, id);
    }
    turn(&mut receiver, &mut rigs, 4 * SECOND);
    assert_eq!(rigs.map(|source| source.in_flight()), [0, 0]);
    assert_eq!(receiver.pending(), 0);
}
