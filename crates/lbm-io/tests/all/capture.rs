//! Stock Wireshark listens on loopback while contexts talk: no errors, topics by name. Needs `tshark` (`QUOTEWAY_TSHARK` names another
//! binary, or is `none`) and the right to capture, as root has.

use std::time::Duration;

use lbm_io::SendFlags;
use lbm_io::options::{ContextOption, Options, Scope};
use lbm_trials::capture::Listening;

use crate::world::World;

/// Where the sessions of this test are, for Wireshark.
fn preferences(options: &Options) -> Vec<String> {
    let text = |scope, name: &str| options.text(scope, name).expect("an option");
    let group = text(Scope::Context, "resolver_multicast_address");
    let port = text(Scope::Context, "resolver_multicast_port");
    let low = text(Scope::Context, "transport_lbtrm_multicast_address_low");
    let high = text(Scope::Context, "transport_lbtrm_multicast_address_high");
    let data = text(Scope::Source, "transport_lbtrm_destination_port");
    let mut preferences: Vec<String> = [
        ("lbmr.mc_incoming_address", group),
        ("lbmr.mc_outgoing_address", group),
        ("lbmr.mc_incoming_port", port),
        ("lbmr.mc_outgoing_port", port),
        ("lbtrm.mc_address_low", low),
        ("lbtrm.mc_address_high", high),
        ("lbtrm.dport_low", data),
        ("lbtrm.dport_high", data),
        ("lbtrm.sport_low", "1024"),
        ("lbtrm.sport_high", "65535"),
        ("udp.try_heuristic_first", "TRUE"),
    ]
    .iter()
    .map(|(name, value)| format!("-o{name}:{value}"))
    .collect();
    preferences.push("-2".to_owned());
    preferences
}

#[test]
fn wireshark_follows_what_contexts_say() {
    // Trains would be seen as one packet.
    let mut world = World::new(
        "context udp_offload 0\ncontext transport_lbtrm_datagram_max_size 1472\nsource transport lbtrm
        source transport_lbtrm_ignore_interval 50\nsource transport_lbtrm_sm_minimum_interval 20",
    );
    let options = world.options.clone();
    let group = options.get(ContextOption::TRANSPORT_LBTRM_MULTICAST_ADDRESS_LOW);
    let resolver = options.get(ContextOption::RESOLVER_MULTICAST_ADDRESS);
    // NAKs go to the source, and are short. Wireshark does not follow all that passes when other tests run beside this one.
    let filter = format!("dst host {group} or dst host {resolver} or (udp and less 300)");
    let Some(mut listening) = Listening::start("lbm-io", &filter) else { return };
    let source = world.left.source("md.equities.ibm", &options).expect("a source");
    world.right.receiver("md.equities.ibm", &options).expect("a receiver");
    world.introduce(source, "md.equities.ibm");
    world.settle(source, "md.equities.ibm");
    world.right.lose(100_000, 11);
    for i in 0..400usize {
        world.left.send(source, &vec![i as u8; i * 9], SendFlags::NONE).expect("room");
        if i % 20 == 0 {
            world.left.flush(source).expect("a source");
            world.turn();
        }
    }
    world.left.flush(source).expect("a source");
    world.until("all messages", |w| w.ear.topic("md.equities.ibm").messages.len() == 400);
    world.right.lose(0, 0);
    world.turns_for(Duration::from_millis(50));
    let capture = listening.stop(&preferences(&options));
    let fields = |filter: &str, field: &str| -> Vec<String> {
        let text = capture.read(&["-Y", filter, "-T", "fields", "-e", field]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    // Not the NAKs: other tests send packets at the same time that look like broken ones, also to this address.
    capture.check(Some(&format!("ip.dst=={group} || ip.dst=={resolver}")));
    // On a loaded machine the capture misses some.
    let data = fields(&format!("lbtrm.data && ip.dst=={group}"), "lbmc.topic");
    assert!(data.len() > 50, "{} datagrams", data.len());
    assert!(data.iter().all(|t| t.split(',').all(|t| t == "md.equities.ibm")), "{data:?}");
    assert!(!fields(&format!("lbtrm.data.flags_fec_type.rx == 1 && ip.dst=={group}"), "lbtrm.data.sqn").is_empty());
    assert!(!fields(&format!("lbtrm.sm && ip.dst=={group}"), "lbtrm.sm.sm_sqn").is_empty());
    assert!(!fields("lbtrm.nak && !_ws.malformed", "lbtrm.nak.list.nak").is_empty());
    assert!(!fields(&format!("lbmr && ip.dst=={resolver}"), "lbmr.tir.name").is_empty());
}
