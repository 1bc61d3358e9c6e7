//! What is encoded is decoded as it was.

use std::net::Ipv4Addr;

use lbm::wire::header::{
    ApplicationChain, ExtensionOption, Fragment, Header, LateJoinInfo, LateJoinRequest, Request, RetransmitRequest,
    TopicSqns, code,
};
use lbm::wire::lbmc::{self, Kind, Messages, NEXT_DATA, NEXT_NONE};
use lbm::wire::lbmr::{self, Advert, Builder, Query, Transport};
use lbm::wire::lbmr_option::{self, Functionality, LateJoin, TopicOption, TopicOptions};
use lbm::wire::lbtru::{self, Identity};
use lbm::wire::properties::{self, Properties, Value};
use lbm::wire::{NcfReason, Writer, lbtrm};
use proptest::prelude::*;

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

/// Bytes that live as long as the test: strategies cannot lend.
fn lasting(max: usize) -> impl Strategy<Value = &'static [u8]> {
    prop::collection::vec(any::<u8>(), 0..max).prop_map(|bytes| &*bytes.leak())
}

fn header() -> impl Strategy<Value = Header<'static>> {
    prop_oneof![
        any::<(u16, u32, u32, u32)>().prop_map(|(flags, first_sqn, offset, total)| Header::Fragment(Fragment {
            flags,
            first_sqn,
            offset,
            total
        })),
        any::<u16>().prop_map(|flags| Header::Batch { flags }),
        (any::<(u8, u8, u32, u16)>(), address()).prop_map(|((flags, transport, index, port), address)| {
            Header::Request(Request { flags, transport, index, port, address })
        }),
        (any::<u16>(), lasting(60)).prop_map(|(flags, data)| Header::Application { flags, data }),
        (any::<u16>(), lasting(60)).prop_map(|(flags, name)| Header::TopicName { flags, name }),
        (any::<u8>(), lasting(60)).prop_map(|(first, elements)| Header::ApplicationChain(ApplicationChain {
            reserved: 0,
            first,
            elements
        })),
        any::<(u16, [u8; 32])>().prop_map(|(flags, id)| Header::OriginatingTransport { flags, id }),
        any::<(u16, [u8; 8])>().prop_map(|(flags, instance)| Header::Instance {
            code: code::RETURN_INSTANCE,
            flags,
            instance
        }),
        any::<(u16, u64)>().prop_map(|(flags, index)| Header::Index { code: code::PATH_INDEX, flags, index }),
        any::<(u16, u32)>().prop_map(|(flags, domain)| Header::Domain { code: code::DOMAIN, flags, domain }),
        any::<(u16, u32, u32, [u8; 8])>().prop_map(|(flags, stream, sqn, instance)| Header::Stream {
            flags,
            stream,
            sqn,
            instance
        }),
        any::<(u8, u8, [u8; 20])>().prop_map(|(flags, pad, digest)| Header::Hmac { flags, pad, digest }),
        any::<(u16, u32)>().prop_map(|(flags, id)| Header::SessionId { flags, id }),
        any::<(u16, u32)>().prop_map(|(flags, index)| Header::TopicIndex { flags, index }),
        prop::collection::vec(any::<[u8; 8]>(), 0..=TopicSqns::MAX)
            .prop_map(|records| Header::TopicSqns(TopicSqns::from_records(records.concat().leak()))),
        (any::<(u16, u32, u32, u32, u16, u32, u32, u32)>(), address()).prop_map(
            |((flags, request, transport, topic, port, low_sqn, requests_max, outstanding_max), address)| {
                Header::LateJoinRequest(LateJoinRequest {
                    flags,
                    request,
                    transport,
                    topic,
                    address,
                    port,
                    low_sqn,
                    requests_max,
                    outstanding_max,
                })
            }
        ),
        any::<(u16, u32, u32, u32)>().prop_map(|(flags, low_sqn, high_sqn, request)| Header::LateJoinInfo(
            LateJoinInfo { flags, low_sqn, high_sqn, request }
        )),
        (any::<(u16, u32, u32, u32, u32, u16)>(), address()).prop_map(
            |((flags, request, transport, topic, sqn, port), address)| {
                Header::RetransmitRequest(RetransmitRequest { flags, request, transport, topic, sqn, port, address })
            }
        ),
        (any::<(u8, u8, u16, u16)>(), lasting(200)).prop_map(|((flags, id, subtype, offset), data)| {
            Header::Option(ExtensionOption { flags, id, subtype, offset, data })
        }),
        (0x59u8..0x60, lasting(60)).prop_map(|(code, body)| Header::Unknown { code, body }),
    ]
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        (address(), any::<Option<u32>>(), any::<u16>()).prop_map(|(address, session_id, port)| Transport::Tcp {
            address,
            session_id,
            port
        }),
        (address(), any::<Option<u32>>(), any::<u16>()).prop_map(|(address, session_id, port)| Transport::Lbtru {
            address,
            session_id,
            port
        }),
        any::<(u32, u32, u16)>().prop_map(|(host, session_id, transport)| Transport::Lbtipc {
            host,
            session_id,
            transport
        }),
        any::<(u32, u32, u16)>().prop_map(|(host, session_id, transport)| Transport::Lbtsmx {
            host,
            session_id,
            transport
        }),
        (address(), address(), any::<(u32, u16, u16)>()).prop_map(
            |(source, group, (session_id, destination_port, unicast_port))| Transport::Lbtrm {
                source,
                group,
                session_id,
                destination_port,
                unicast_port
            }
        ),
    ]
}

fn topic_option() -> impl Strategy<Value = TopicOption<'static>> {
    prop_oneof![
        (any::<(u16, u16, u32, u32, u32)>(), address()).prop_map(
            |((flags, port, transport, high_sqn, low_sqn), address)| {
                TopicOption::LateJoin(LateJoin { flags, port, address, transport, high_sqn, low_sqn })
            }
        ),
        any::<(u8, u8, u32)>().prop_map(|(flags, hops, cost)| TopicOption::Cost { flags, hops, cost }),
        any::<(u16, [u8; 32])>().prop_map(|(flags, id)| TopicOption::Origin { flags, id }),
        any::<(u8, u8, [u8; 8])>().prop_map(|(flags, reserved, instance)| TopicOption::Instance {
            flags,
            reserved,
            instance
        }),
        (any::<(u16, u16, u32)>(), address()).prop_map(|((flags, port, functions), address)| {
            TopicOption::Functionality(Functionality { flags, port, address, functions })
        }),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8..=255, 1..60)
}

fn written(f: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let mut w = Writer::new(&mut buffer);
    f(&mut w);
    w.written().to_vec()
}

proptest! {
    #[test]
    fn messages(
        list in prop::collection::vec((any::<(u32, u32)>(), prop::collection::vec(header(), 0..6), lasting(300)), 1..8),
        control in prop::collection::vec(header(), 1..6),
    ) {
        let bytes = written(|w| {
            for ((topic, sqn), headers, payload) in &list {
                lbmc::encode(w, Kind::Message, *topic, *sqn, headers, NEXT_DATA, payload).expect("fits");
            }
            lbmc::encode_control(w, &control).expect("fits");
        });
        let mut messages = Messages::new(&bytes);
        for ((topic, sqn), headers, payload) in &list {
            let message = messages.next().expect("one more").expect("good");
            prop_assert_eq!((message.kind, message.topic, message.sqn), (Kind::Message, *topic, *sqn));
            let mut chain = message.headers();
            let decoded: Result<Vec<_>, _> = chain.by_ref().collect();
            prop_assert_eq!(&decoded.expect("good"), headers);
            prop_assert_eq!((chain.payload(), chain.end()), (*payload, NEXT_DATA));
        }
        let message = messages.next().expect("one more").expect("good");
        let mut chain = message.headers();
        let decoded: Result<Vec<_>, _> = chain.by_ref().collect();
        prop_assert_eq!((decoded.expect("good"), chain.end()), (control, NEXT_NONE));
        prop_assert!(messages.next().is_none());
    }

    #[test]
    fn resolution(
        adverts in prop::collection::vec((name(), any::<(u16, u32)>(), prop::collection::vec(topic_option(), 0..4), transport()), 0..20),
        queries in prop::collection::vec(name(), 0..20),
        id: [u8; 8],
    ) {
        let options: Vec<Vec<u8>> = adverts.iter().map(|(_, _, options, _)| {
            written(|w| options.iter().for_each(|o| o.encode(w).expect("fits")))
        }).collect();
        let adverts: Vec<Advert<'_>> = adverts.iter().zip(&options).map(|((name, (ttl, topic), _, transport), options)| {
            Advert { name, ttl: *ttl, topic: *topic, options: TopicOptions::from_encoded(options), transport: *transport }
        }).collect();
        let trailer = lbmr_option::sender(id, lbmr_option::SenderKind::Application, 0);
        let mut scratch = vec![0; 65_536];
        let mut builder = Builder::new(&mut scratch, &trailer, false).expect("room");
        for name in &queries {
            builder.query(Query::Topic(name)).expect("room");
        }
        for advert in &adverts {
            builder.advert(advert).expect("room");
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let packet = lbmr::Packet::decode(&bytes).expect("good");
        prop_assert_eq!(packet.options.and_then(lbmr_option::PacketOptions::source_id), Some(id));
        let lbmr::Body::Topics { queries: q, adverts: a } = packet.body else { panic!("{packet:?}") };
        prop_assert!(q.iter().eq(queries.iter().map(|name| Query::Topic(name))));
        prop_assert!(a.iter().eq(adverts.iter().copied()));
        prop_assert_eq!(written(|w| packet.encode(w).expect("fits")), bytes);
    }

    #[test]
    fn lists_of_naks(sqns in prop::collection::vec(any::<u32>(), 0..400), id: u32, port: u16, trail: u32, bits in 0u8..16) {
        let reason = NcfReason::from_bits(bits);
        prop_assert_eq!(reason.bits(), bits);
        let nak = written(|w| lbtrm::encode_nak(w, port, id, &sqns).expect("fits"));
        let packet = lbtrm::Packet::decode(&nak).expect("good");
        let lbtrm::Body::Nak { sqns: list, .. } = packet.body else { panic!("{packet:?}") };
        prop_assert!(list.iter().eq(sqns.iter().copied()) && packet.session_id == id && packet.unicast_port == port);
        let identity = Identity { session_id: Some(id), client_id: None };
        let ncf = written(|w| lbtru::encode_list(w, identity, Some((trail, reason)), &sqns).expect("fits"));
        let packet = lbtru::Packet::decode(&ncf).expect("good");
        let lbtru::Body::Ncf { trail: t, reason: r, sqns: list, .. } = packet.body else { panic!("{packet:?}") };
        prop_assert!(list.iter().eq(sqns.iter().copied()) && t == trail && r == reason && packet.identity == identity);
    }

    #[test]
    fn message_properties(ints in prop::collection::vec((name(), any::<i64>()), 0..10), text in "[a-z]{0,20}", f: f64) {
        let mut fields: Vec<(&[u8], Value<'_>)> = ints.iter().map(|(n, v)| (n.as_slice(), Value::Long(*v))).collect();
        fields.push((b"text", Value::String(text.as_bytes())));
        fields.push((b"flag", Value::Boolean(true)));
        fields.push((b"double", Value::Double(f)));
        let block = written(|w| properties::encode(w, &fields).expect("fits"));
        let decoded: Result<Vec<_>, _> = Properties::decode(&block).expect("good").iter().collect();
        let decoded = decoded.expect("good");
        prop_assert_eq!(format!("{decoded:?}"), format!("{fields:?}"));
    }
}

proptest! {
    #[test]
    fn the_short_way_reads_what_the_long_one_does(
        kind in prop_oneof![4 => Just([0, 0]), 1 => any::<[u8; 2]>()],
        length in 0u16..80,
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let bytes = [&kind[..], &length.to_be_bytes(), &rest].concat();
        let long = lbmc::Message::decode(&bytes).ok().filter(|(message, _)| kind[0] == 0 && message.next == NEXT_DATA);
        prop_assert_eq!(lbmc::Message::plain(&bytes), long);
    }
}
