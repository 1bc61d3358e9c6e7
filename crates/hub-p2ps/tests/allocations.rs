//! The steady path of the P2PS does not allocate: updates, plain, with a key and through a view, to clients that watch.
//! This binary has one test, because it counts the allocations of the whole process.

use hub_p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use rwf::DataType;
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, View};
use rwf::wire::Writer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SOURCE: SourceId = SourceId(0);
const PRICE: Domain = Domain::MARKET_PRICE;
const CLIENTS: u32 = 10;
const ITEMS: u32 = 50;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

fn fields() -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for fid in 20..30 {
            list.uint(fid, 7)?;
        }
        list.finish()
    })
}

/// Ten clients watch fifty items each, every third of them through a view.
fn watched(writer: &mut BlockWriter) -> P2ps {
    let mut p2ps = P2ps::new(Config::default(), 1);
    p2ps.source_up(0, SOURCE);
    let mut service = Service::new(1, Action::Add);
    let info = Info { name: "FEED".to_owned(), capabilities: vec![PRICE], ..Info::default() };
    service.info = Some(Part::Set(info));
    service.state = Some(Part::Set(ServiceState::new(true)));
    let filters = encode(|w| service.encode_filters(u32::MAX, w));
    writer.event(&Event::Service { target: ALL, service: 1, cached: false, name: "FEED", filters: &filters });
    p2ps.hub_block(0, SOURCE, writer.block().unwrap()).unwrap();
    writer.clear();
    let view = Payload { view: Some(View::Fields(vec![22, 25])), ..Payload::default() };
    let view = encode(|w| view.encode(w));
    for client in (0..CLIENTS).map(ClientId) {
        p2ps.client_up(0, client, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
        let login = login::Request { name: "user".to_owned(), ..login::Request::default() };
        p2ps.client_message(0, client, &encode(|w| login.encode(w)));
        for item in 0..ITEMS {
            let name = format!("ITEM{item}");
            let mut request = RequestMsg {
                flags: RequestFlags::STREAMING,
                key: MsgKey::item(1, name.as_bytes()),
                ..RequestMsg::new(PRICE, 5 + item as i32)
            };
            if client.0 % 3 == 0 {
                request.flags |= RequestFlags::HAS_VIEW;
                (request.container, request.body) = (DataType::ELEMENT_LIST, &view);
            }
            p2ps.client_message(0, client, &encode(|w| request.encode(w)));
        }
    }
    let body = fields();
    let flags_out = RefreshFlags::REFRESH_COMPLETE;
    let refresh =
        RefreshMsg { flags: flags_out, container: DataType::FIELD_LIST, body: &body, ..RefreshMsg::new(PRICE, 1) };
    let image = encode(|w| refresh.encode(w));
    let mut handle = 0;
    p2ps.requests(|_, block| {
        for message in Block::parse(block).unwrap().messages() {
            let message = message.unwrap();
            if let Request::Open { token, .. } = Request::decode(&message).unwrap() {
                writer.event(&Event::ItemOpened { target: 1, handle, token });
                let position = writer.next_position();
                let flags = flags::FIRST | flags::COMPLETE;
                writer.event(&Event::Image { target: ALL, handle, group: 1, flags, position, rwf: &image });
                handle += 1;
            }
        }
    });
    p2ps.hub_block(0, SOURCE, writer.block().unwrap()).unwrap();
    p2ps.flush(writer.block().unwrap(), |_, _| {});
    writer.clear();
    assert_eq!(p2ps.counters().images_out, u64::from(CLIENTS * ITEMS));
    p2ps
}

#[test]
fn a_warm_turn_does_not_allocate() {
    let mut writer = BlockWriter::new(1);
    let mut p2ps = watched(&mut writer);
    let body = fields();
    let update = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(PRICE, 1) };
    let plain = encode(|w| update.encode(w));
    let keyed = encode(|w| UpdateMsg { key: Some(MsgKey::item(900, b"ITEM")), ..update.clone() }.encode(w));
    let mut turn = |number: u32| {
        writer.clear();
        for at in 0..300 {
            let has_key = at % 5 == 0;
            writer.update((at * 7 + number) % ITEMS, has_key, if has_key { &keyed } else { &plain });
        }
        let block = writer.block().unwrap();
        let mut delivered = 0;
        p2ps.hub_block(u64::from(number), SOURCE, block).unwrap();
        p2ps.flush(block, |_, deliveries| delivered += deliveries.map(|(body, _)| body.len()).sum::<usize>());
        p2ps.requests(|_, _| panic!("nothing is asked for"));
        delivered
    };
    for number in 0..20 {
        turn(number);
    }
    // The harness has a thread of its own, which may allocate at any time: the quietest round counts.
    let mut quietest = usize::MAX;
    for round in 1..=5 {
        let region = Region::new(ALLOCATOR);
        let delivered: usize = (round * 40..round * 40 + 40).map(&mut turn).sum();
        let change = region.change();
        assert!(delivered > 0);
        quietest = quietest.min(change.allocations + change.reallocations + change.deallocations);
    }
    assert_eq!(quietest, 0, "allocations in a round");
    assert_eq!(p2ps.counters().updates_out, u64::from(CLIENTS) * 300 * 220);
}
