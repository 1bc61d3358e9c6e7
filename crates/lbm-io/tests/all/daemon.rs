//! Topic resolution through a daemon, without multicast.

use std::time::Duration;

use crate::world::{PATIENCE, World, options, with};
use lbm_io::{Daemon, DaemonConfig, SendFlags};

fn daemon(port: u16) -> Daemon {
    let config = DaemonConfig {
        keepalive_interval: Duration::from_millis(50),
        activity_timeout: Duration::from_millis(500),
        ..DaemonConfig::new(format!("127.0.0.1:{port}").parse().expect("an address"))
    };
    Daemon::new(&config).expect("a daemon")
}

#[test]
fn contexts_find_each_other_through_a_daemon_also_after_it_was_away() {
    let mut daemon = Some(self::daemon(0));
    let port = daemon.as_ref().expect("there").address().port();
    let lines = format!(
        "context resolver_unicast_daemon 127.0.0.1:{port}
        context resolver_unicast_keepalive_interval 50
        context resolver_unicast_activity_timeout 300
        source transport tcp
        receiver resolver_query_minimum_sustain_duration 1"
    );
    let mut world = World::of(options(&lines));
    let options = world.options.clone();
    let source = world.left.source("a", &options).expect("a source");
    world.right.receiver("a", &options).expect("a receiver");
    let turn = |world: &mut World, daemon: &mut Option<Daemon>, so: &mut dyn FnMut(&mut World) -> bool| {
        let began = std::time::Instant::now();
        while !so(world) {
            world.turn();
            if let Some(daemon) = daemon {
                daemon.poll(Some(Duration::ZERO)).expect("a turn");
            }
            assert!(began.elapsed() < PATIENCE, "{:?}", world.right.stats());
        }
    };
    turn(&mut world, &mut daemon, &mut |w| {
        w.left.send(source, b"1", SendFlags::FLUSH).expect("room");
        !w.ear.topic("a").messages.is_empty()
    });
    assert_eq!(daemon.as_ref().map(Daemon::clients), Some(2));

    // The daemon goes; who asks meanwhile finds nobody.
    daemon = None;
    world.turns_for(Duration::from_millis(400));
    let other = world.left.source("b", &with(&options, "source transport lbtipc")).expect("a source");
    world.right.receiver("b", &options).expect("a receiver");
    world.turns_for(Duration::from_millis(200));
    assert!(world.ear.topic("b").messages.is_empty());
    // Topics that were found stay.
    let before = world.ear.topic("a").messages.len();
    world.left.send(source, b"2", SendFlags::FLUSH).expect("room");
    turn(&mut world, &mut daemon, &mut |w| w.ear.topic("a").messages.len() > before);

    // It comes back, knowing nobody.
    daemon = Some(self::daemon(port));
    turn(&mut world, &mut daemon, &mut |w| {
        w.left.send(other, b"3", SendFlags::FLUSH).expect("room");
        !w.ear.topic("b").messages.is_empty()
    });
    assert_eq!(world.ear.topic("a").begun, 1);
}

/// From networks that are not allowed nothing is taken: nobody is registered, and nothing is answered.
#[test]
fn a_daemon_listens_to_whom_it_is_told() {
    let config = DaemonConfig {
        allow: vec!["127.0.0.2".parse().expect("a network")],
        ..DaemonConfig::new("127.0.0.1:0".parse().expect("an address"))
    };
    let mut daemon = Daemon::new(&config).expect("a daemon");
    let to = daemon.address();
    for (from, known) in [("127.0.0.1:0", 0), ("127.0.0.2:0", 1)] {
        let socket = std::net::UdpSocket::bind(from).expect("a socket");
        socket.send_to(&[2, 0, 0, 0], to).expect("sent");
        let began = std::time::Instant::now();
        while daemon.clients() + daemon.strangers() as usize == known {
            daemon.poll(Some(Duration::from_millis(10))).expect("a turn");
            assert!(began.elapsed() < PATIENCE, "{:?}", daemon.stats());
        }
        assert_eq!((daemon.clients(), daemon.strangers()), (known, 1));
    }
}
