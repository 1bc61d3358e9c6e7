//! Topic resolution between contexts, in virtual time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::resolver::unicast::{Daemon, DaemonLimits, DaemonLink};
use lbm::resolver::{ResolveError, Resolver, ResolverConfig};
use lbm::wire::Writer;
use lbm::wire::lbmr::{Advert, Packet, PatternKind, Transport};
use lbm::wire::lbmr_option::TopicOptions;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn transport(session_id: u32) -> Transport {
    Transport::Lbtrm {
        source: Ipv4Addr::new(10, 1, 1, 10),
        group: Ipv4Addr::new(224, 10, 10, 10),
        session_id,
        destination_port: 14_400,
        unicast_port: 14_390,
    }
}

fn advert(name: &[u8], topic: u32) -> Advert<'_> {
    Advert { name, ttl: 60, topic, options: TopicOptions::default(), transport: transport(1) }
}

/// Contexts on one group; every packet reaches all others at once.
struct Group {
    contexts: Vec<Resolver>,
    found: Vec<Vec<(u32, Vec<u8>, u32)>>,
    now: u64,
    /// Bytes in each second.
    bytes: BTreeMap<u64, u64>,
    deaf: bool,
}

impl Group {
    fn new(count: u8, config: &ResolverConfig) -> Self {
        let context = |i| Resolver::new(ResolverConfig { source_id: [i; 8], ..config.clone() });
        let contexts = (0..count).map(context).collect();
        let found = vec![Vec::new(); usize::from(count)];
        Self { contexts, found, now: SECOND, bytes: BTreeMap::new(), deaf: false }
    }

    fn run_until(&mut self, end: u64, done: impl Fn(&Self) -> bool) {
        while let Some(at) = self.contexts.iter().filter_map(Resolver::timeout).min().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            for i in 0..self.contexts.len() {
                let mut packets = Vec::new();
                self.contexts[i].on_timer(self.now, |p| packets.push(p.to_vec()));
                for packet in packets {
                    assert!(packet.len() <= 8_192);
                    *self.bytes.entry(self.now / SECOND).or_default() += packet.len() as u64;
                    let packet = Packet::decode(&packet).expect("our own");
                    for j in (0..self.contexts.len()).filter(|j| *j != i && !self.deaf) {
                        let found = &mut self.found[j];
                        self.contexts[j].receive(self.now, &packet, |f| {
                            found.push((f.token, f.advert.name.to_vec(), f.advert.topic));
                            true
                        });
                    }
                }
            }
            if done(self) {
                return;
            }
        }
        self.now = self.now.max(end);
    }
}

#[test]
fn a_receiver_finds_a_source_whichever_comes_first() {
    let mut group = Group::new(2, &ResolverConfig::default());
    group.contexts[1].add_receiver(group.now, b"early", 1).expect("a name");
    group.contexts[0].add_source(group.now + 100 * MS, &advert(b"early", 5)).expect("a name");
    group.contexts[0].add_source(group.now, &advert(b"late", 6)).expect("a name");
    group.run_until(200 * SECOND, |_| false);
    assert_eq!(group.found[1], [(1, b"early".to_vec(), 5)]);
    assert_eq!(group.contexts[0].timeout(), None, "all is silent");
    // A query wakes the source.
    group.contexts[1].add_receiver(group.now, b"late", 2).expect("a name");
    group.run_until(201 * SECOND, |_| false);
    assert_eq!(group.found[1][1..], [(2, b"late".to_vec(), 6)]);
}

#[test]
fn the_phases_have_the_intervals_of_the_options() {
    let mut source = Resolver::new(ResolverConfig::default());
    source.add_source(0, &advert(b"x", 1)).expect("a name");
    let mut times = Vec::new();
    while let Some(at) = source.timeout() {
        source.on_timer(at, |_| times.push(at / MS));
    }
    assert_eq!(times[..9], [0, 10, 30, 70, 150, 310, 630, 1_130, 1_630]);
    let sustaining: Vec<u64> = times.iter().copied().filter(|t| *t > 6_000).collect();
    assert!(sustaining.windows(2).all(|w| w[1] - w[0] == 1_000), "{sustaining:?}");
    assert!((64_000..67_000).contains(times.last().expect("some")), "{times:?}");

    let mut receiver = Resolver::new(ResolverConfig::default());
    receiver.add_receiver(0, b"x", 1).expect("a name");
    let mut times = Vec::new();
    while let Some(at) = receiver.timeout() {
        receiver.on_timer(at, |_| times.push(at / MS));
    }
    assert_eq!(times[..7], [0, 20, 60, 140, 300, 500, 700]);
}

#[test]
fn wildcards_find_what_matches() {
    let mut group = Group::new(2, &ResolverConfig::default());
    for (i, name) in [b"md.ibm".as_slice(), b"md.es", b"news.ibm"].into_iter().enumerate() {
        group.contexts[0].add_source(group.now, &advert(name, i as u32)).expect("a name");
    }
    group.run_until(100 * SECOND, |_| false);
    group.contexts[1].add_wildcard(group.now, PatternKind::Pcre, r"^md\..*$", 7).expect("a pattern");
    group.run_until(101 * SECOND, |_| false);
    let mut names: Vec<_> = group.found[1].iter().map(|(token, name, _)| (*token, name.as_slice())).collect();
    names.sort_unstable();
    assert_eq!(names, [(7, b"md.es".as_slice()), (7, b"md.ibm")]);
    let bad = group.contexts[1].add_wildcard(0, PatternKind::Pcre, "(", 1);
    assert!(matches!(bad, Err(ResolveError::Pattern(_))));
    assert_eq!(group.contexts[1].add_receiver(0, &[b'x'; 247], 1), Err(ResolveError::Name));
}

/// A partition of 70 s: resolution has gone quiet, the session has ended at the receiver.
#[test]
fn a_forgotten_session_is_looked_for_again() {
    let mut group = Group::new(2, &ResolverConfig::default());
    group.contexts[0].add_source(group.now, &advert(b"x", 1)).expect("a name");
    group.contexts[1].add_receiver(group.now, b"x", 1).expect("a name");
    group.run_until(10 * SECOND, |_| false);
    group.deaf = true;
    group.run_until(100 * SECOND, |_| false);
    group.contexts[1].forget(group.now, &transport(1));
    group.run_until(110 * SECOND, |_| false);
    group.deaf = false;
    group.run_until(115 * SECOND, |_| false);
    assert_eq!(group.found[1].len(), 2);
}

/// With the product's limits, 1 Mbit/s and 1,000 a second each way.
#[test]
fn a_hundred_thousand_topics_resolve_without_a_storm() {
    const TOPICS: u32 = 100_000;
    let mut group = Group::new(2, &ResolverConfig::default());
    let name = |i: u32| format!("md.equities.us.{i:06}");
    for i in 0..TOPICS {
        group.contexts[0].add_source(group.now, &advert(name(i).as_bytes(), i)).expect("a name");
        group.contexts[1].add_receiver(group.now, name(i).as_bytes(), i).expect("a name");
    }
    group.run_until(200 * SECOND, |g| g.found[1].len() == TOPICS as usize);
    let seconds = (group.now - SECOND) / SECOND;
    assert_eq!(group.found[1].len(), TOPICS as usize);
    assert!(seconds <= 110, "{seconds} s");
    let busiest = group.bytes.values().max().expect("some") * 8;
    assert!(busiest < 2_200_000, "{busiest} bit/s");
    let packets: u64 = group.contexts.iter().map(|c| c.stats().packets).sum();
    #[allow(clippy::disallowed_macros, reason = "the figures, for who runs it with --nocapture")]
    let () = println!("{TOPICS} topics resolved in {seconds} s, {packets} packets, at most {busiest} bit/s");
    assert!(packets < 20_000, "{packets} packets");
}

#[test]
fn a_daemon_passes_on_to_all_others_and_forgets_the_silent() {
    let address = |i: u8| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, i), 14_402);
    let limits = DaemonLimits { clients_max: 2, ..DaemonLimits::default() };
    let mut daemon = Daemon::new(limits, 500 * MS, SECOND, 0);
    let mut sent = Vec::new();
    let mut link = DaemonLink::new(500 * MS, SECOND, 0);
    let alive = link.on_timer(0).expect("a keep-alive at once");
    daemon.receive(0, address(1), &alive, |to, bytes| sent.push((to, bytes.to_vec())));
    daemon.receive(0, address(2), &alive, |to, bytes| sent.push((to, bytes.to_vec())));
    assert_eq!(sent, [(address(1), vec![0; 4]), (address(2), vec![0; 4])]);
    link.heard(0);
    assert!(link.is_alive(999 * MS) && !link.is_alive(SECOND));

    let mut source = Resolver::new(ResolverConfig::default());
    source.add_source(0, &advert(b"x", 1)).expect("a name");
    let mut packet = Vec::new();
    source.on_timer(0, |p| packet.extend_from_slice(p));
    // Who was heard once may be somebody else's word: it is told nothing.
    daemon.receive(0, address(1), &packet, |_, _| panic!("none of them is known yet"));
    sent.clear();
    for client in [1, 2] {
        daemon.receive(100 * MS, address(client), &alive, |_, _| panic!("it was answered"));
    }
    daemon.receive(100 * MS, address(1), &packet, |to, bytes| sent.push((to, bytes.to_vec())));
    assert_eq!(sent, [(address(2), packet.clone())]);
    daemon.receive(100 * MS, address(1), &[0xFF], |_, _| panic!("not a packet"));
    daemon.receive(100 * MS, address(3), &packet, |_, _| panic!("too many clients"));
    assert_eq!((daemon.stats().limited, daemon.stats().malformed), (1, 1));
    daemon.on_timer(2 * SECOND, |_, _| panic!("all are silent"));
    assert_eq!(daemon.clients(), 0);
    daemon.receive(2 * SECOND, address(3), &alive, |to, _| assert_eq!(to, address(3)));
}

/// A forged packet registers nobody for more than one answer of four bytes, a host has so many places, and whoever sends fast is heard
/// at a rate.
#[test]
fn a_daemon_neither_reflects_nor_amplifies() {
    let address = |host: u8, port: u16| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
    let limits = DaemonLimits {
        clients_per_host: 10,
        packets_per_second: 1_000,
        client_bytes_per_second: 10_000,
        ..DaemonLimits::default()
    };
    let mut daemon = Daemon::new(limits, 500 * MS, 10 * SECOND, 0);
    let mut source = Resolver::new(ResolverConfig::default());
    source.add_source(0, &advert(b"x", 1)).expect("a name");
    let mut packet = Vec::new();
    source.on_timer(0, |p| packet.extend_from_slice(p));
    // Packets in the name of a victim, and then a real client that says a lot.
    let (mut to_victim, mut now) = (0, 0);
    for port in 0..100 {
        daemon.receive(now, address(66, 1_000 + port), &packet, |to, bytes| {
            assert_eq!(*to.ip(), *address(66, 0).ip());
            to_victim += bytes.len();
        });
    }
    assert_eq!((daemon.clients(), daemon.stats().refused, to_victim), (10, 90, 40));
    let (speaker, listener) = (address(1, 14_402), address(2, 14_402));
    for time in [0, 100 * MS] {
        for client in [speaker, listener] {
            daemon.receive(time, client, &[2, 0, 0, 0], |_, _| {});
        }
    }
    let mut heard = 0;
    for i in 0..20_000u64 {
        now = 100 * MS + i * SECOND / 10_000;
        daemon.receive(now, speaker, &packet, |to, bytes| {
            assert_eq!(to, listener, "the victim is told nothing");
            heard += bytes.len() as u64;
        });
    }
    // Two seconds: what the listener is sent, with two seconds in advance, whatever the speaker says.
    assert!(heard > 20_000 && heard <= 2 * 20_000, "{heard} bytes");
    assert!(daemon.stats().limited > 10_000, "{:?}", daemon.stats());
    assert!(daemon.stats().received - daemon.stats().limited < 10_000);
}

/// A driver without room for one more session gets to know of a source again, once it has.
#[test]
fn a_source_that_could_not_be_joined_is_told_again() {
    let mut resolver = Resolver::new(ResolverConfig::default());
    resolver.add_receiver(0, b"md.ibm", 1).expect("a name");
    resolver.add_wildcard(0, PatternKind::Pcre, "^md", 2).expect("a pattern");
    let mut buffer = [0; 512];
    let mut builder = lbm::wire::lbmr::Builder::new(&mut buffer, &[], false).expect("room");
    builder.advert(&advert(b"md.ibm", 7)).expect("room");
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    let packet = Packet::decode(&bytes).expect("our own");
    let mut told = Vec::new();
    for has_room in [false, false, true, true] {
        resolver.receive(0, &packet, |f| {
            told.push((f.token, has_room));
            has_room
        });
    }
    assert_eq!(told, [(1, false), (2, false), (1, false), (2, false), (1, true), (2, true)]);
    assert_eq!(resolver.stats().found, 2);
    resolver.forget(0, &transport(1));
    resolver.receive(0, &packet, |_| true);
    assert_eq!(resolver.stats().found, 4);
}

/// Patterns of strangers are matched with all our names: what that may cost a second is bounded, and an ordinary receiver that asks
/// again is answered meanwhile.
#[test]
fn a_flood_of_patterns_costs_a_bounded_number_of_matches() {
    let mut resolver = Resolver::new(ResolverConfig::default());
    for i in 0..10_000u32 {
        resolver.add_source(0, &advert(format!("md.{i}").as_bytes(), i)).expect("a name");
    }
    let mut buffer = vec![0; 8_192];
    let mut builder = lbm::wire::lbmr::Builder::new(&mut buffer, &[], true).expect("room");
    for pattern in ["(.*a.*b.*c){8}x", "((a{30}){30}){30}", "(", "^md\\..*$"].iter().cycle().take(200) {
        builder.query(lbm::wire::lbmr::Query::Pattern(PatternKind::Pcre, pattern.as_bytes())).expect("room");
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    let packet = Packet::decode(&bytes).expect("our own");
    for millisecond in 0..1_000 {
        resolver.receive(millisecond * MS, &packet, |_| panic!("no advertisement"));
    }
    let stats = *resolver.stats();
    assert_eq!(stats.queries_received, 200_000);
    // At 4 a name and 40,000 names' worth a query: some 25 of them a second, or a thousand that are no pattern.
    let answered = stats.queries_received - stats.queries_shed;
    assert!((10..1_000).contains(&answered), "{answered}");
}

/// Whoever asks everybody to say everything again, again and again, fills no queue.
#[test]
fn a_flood_of_requests_to_resolve_again_fills_no_memory() {
    let mut resolver = Resolver::new(ResolverConfig::default());
    for i in 0..1_000u32 {
        let name = format!("md.{i}");
        resolver.add_source(0, &advert(name.as_bytes(), i)).expect("a name");
        resolver.add_receiver(0, name.as_bytes(), i).expect("a name");
    }
    let body = lbm::wire::lbmr::Body::ResolutionRequest { flags: 6 };
    let request = Packet { version: 0, body, options: None };
    let grown = allocation_counter::measure(|| {
        for microsecond in 0..100_000 {
            resolver.receive(SECOND + microsecond * 1_000, &request, |_| panic!("no advertisement"));
        }
    });
    assert!(grown.bytes_current < 1_000_000, "{} bytes", grown.bytes_current);
    assert!(resolver.stats().queries_shed > 90_000, "{:?}", resolver.stats());
}

/// Who advertises topics without end fills a wildcard receiver up to its bound; a receiver of one topic finds its source all the same,
/// and the room of a session that ends is there for others.
#[test]
fn a_flood_of_advertisements_fills_a_wildcard_receiver_up_to_its_bound() {
    let mut resolver = Resolver::new(ResolverConfig { wildcard_sources_max: 1_000, ..ResolverConfig::default() });
    resolver.add_wildcard(0, PatternKind::Pcre, ".*", 1).expect("a pattern");
    resolver.add_receiver(0, b"wanted", 2).expect("a name");
    let mut told = BTreeMap::<u32, usize>::new();
    let mut flood = |resolver: &mut Resolver, session: u32, topics: std::ops::Range<u32>| {
        for topic in topics {
            let name = format!("forged.{topic}");
            let name = if topic % 1_000 == 999 { "wanted" } else { &name };
            let advert = Advert { transport: transport(session), ..advert(name.as_bytes(), topic) };
            let mut buffer = vec![0; 8_192];
            let mut builder = lbm::wire::lbmr::Builder::new(&mut buffer, &[], false).expect("room");
            builder.advert(&advert).expect("room");
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            resolver.receive(0, &Packet::decode(&bytes).expect("our own"), |f| {
                *told.entry(f.token).or_default() += 1;
                true
            });
        }
        told.clone()
    };
    let after = flood(&mut resolver, 1, 0..5_000);
    assert_eq!(after, BTreeMap::from([(1, 1_000), (2, 5)]));
    assert_eq!(resolver.stats().shed, 4_000);
    // What is known already is no news, and is not shed.
    assert_eq!(flood(&mut resolver, 1, 0..900), after);
    assert_eq!(resolver.stats().shed, 4_000);
    resolver.forget(0, &transport(1));
    assert_eq!(flood(&mut resolver, 2, 0..500), BTreeMap::from([(1, 1_500), (2, 5)]));
}

/// Products of other versions advertise transports and options that are not known here, or have another length. What can be read of
/// their packets counts.
#[test]
fn what_is_not_known_hides_nothing_else() {
    let (mut buffer, length) = ([0; 64], 4 + 7 + 16);
    advert(b"md", 7).encode(&mut Writer::new(&mut buffer)).expect("room");
    let known = &buffer[..length];
    // Transport 2 (TCP over IPv6), LBT-RM with four bytes more, an option 4 of two bytes, an unknown option 0x60.
    let ipv6 = [b"md\0\x02\x16\0\x3c\0\0\0\x01".as_slice(), &[9; 22]].concat();
    let longer = [b"md\0\x10\x14\0\x3c\0\0\0\x02".as_slice(), &[9; 20]].concat();
    let lbtrm =
        [&[127, 0, 0, 1, 239, 1, 2, 3][..], &9u32.to_be_bytes(), &14_400u16.to_be_bytes(), &14_390u16.to_be_bytes()];
    let options = [0, 4, 0, 12, 4, 4, 0x80, 0, 0x60, 4, 0, 0];
    let optional = [b"md\0\x90\x10\0\x3c\0\0\0\x03".as_slice(), &options, &lbtrm.concat()].concat();
    // The product's version in six bytes instead of eight, and an unknown one.
    let trailer = [0x83, 6, 0x80, 0, 4, 1, 0x99, 3, 1, 0x80, 4, 0, 13];
    let packet = [&[0x18, 0, 0, 4], &ipv6[..], &longer, &optional, known, &trailer].concat();
    let packet = Packet::decode(&packet).expect("a packet");
    let mut resolver = Resolver::new(ResolverConfig::default());
    resolver.add_receiver(0, b"md", 1).expect("a name");
    let mut found = Vec::new();
    resolver.receive(0, &packet, |f| {
        found.push((f.advert.topic, f.advert.transport.to_string()));
        true
    });
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(found.iter().map(|(topic, _)| *topic).collect::<Vec<_>>(), [1, 2, 3, 7]);
    assert_eq!(names[..2], ["transport 0x02", "transport 0x10"]);
    assert!(names[2].starts_with("LBTRM:127.0.0.1:14390:") && names[3].starts_with("LBTRM:"), "{names:?}");
}
