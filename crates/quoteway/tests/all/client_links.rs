//! Applications that hold connections to several servers, each a process of its own, which are killed.

use client::Arrangement;
use client::queue::QueueConfig;

use crate::client_servers::{Servers, Watched, await_links};

const ITEMS: usize = 200;

fn live_through_kills(arrangement: Arrangement) {
    let mut servers = Servers::new(2, ITEMS);
    let session = servers.session(arrangement, "|");
    await_links(&session, 2);
    let mut watched = Watched::new(&session, ITEMS, QueueConfig::default());
    watched.catch_up(&servers.values, "at first");
    let mut random = 7u32;
    for round in 0..5 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let killed = (random >> 16) as usize % 2;
        servers.change(2);
        servers.kill(killed);
        servers.change(3);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is killed"));
        servers.start(killed);
        servers.change(5);
        await_links(&session, 2);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is back"));
    }
    if arrangement == Arrangement::Routing {
        return;
    }
    // Where the standby has all items, nobody hears of a loss. When it has them nobody outside knows: so it gets more and more time, and one takeover counts.
    let is_quiet = (1..=12).any(|attempt| {
        let links = session.status().links;
        let serves = links.iter().position(|link| link.serves || !link.serves_in.is_empty()).expect("one serves");
        for _ in 0..attempt * attempt {
            servers.change(1);
            watched.catch_up(&servers.values, "the standby has time");
        }
        watched.suspects = 0;
        servers.kill(serves);
        servers.change(1);
        watched.catch_up(&servers.values, "a takeover");
        let suspects = watched.suspects;
        servers.start(serves);
        await_links(&session, 2);
        watched.catch_up(&servers.values, "both are there");
        suspects == 0
    });
    assert!(is_quiet, "Suspect was told at each takeover");
}

#[test]
fn items_are_routed_to_the_server_that_is_there() {
    live_through_kills(Arrangement::Routing);
}

#[test]
fn a_standby_by_login_takes_over() {
    live_through_kills(Arrangement::StandbyByLogin);
}

#[test]
fn a_standby_by_service_takes_over() {
    live_through_kills(Arrangement::StandbyByService);
}
