//! Nanoseconds of a decision, and of checking 100,000 open items again after rights have changed.
//!
//! `cargo bench -p quoteway-permissions --bench decisions`; each figure is the median of rounds, the fastest beside it.
//! A decision is the bit test that each watcher costs when an item's lock changes or a message brings its own; `with look-up`
//! finds the lock by its bytes first, which a message costs once. The bare loop over the same bits is the floor. For instructions: the built
//! bench under `valgrind --tool=callgrind --toggle-collect='*decisions::work*'` with `decision` as its argument, which makes 20,000.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use permissions::lock::{Lock, Operator};
use permissions::rights::Rights;
use permissions::{
    ItemId, LockId, LoggedIn, LoginId, LoginRequest, Mode, Opened, Permissions, ProfileId, Settings, Watch,
};

const ROUNDS: usize = 301;
const DECISIONS: usize = 10_000;
const USERS: usize = 100;
const LOCKS: usize = 1_000;
const ITEMS: usize = 1_000;

fn rights(shift: usize) -> Rights {
    let mut text = "[services.S]\nid = 257\n".to_owned();
    for user in 0..USERS {
        let low = user * 5 + shift;
        writeln!(text, "[users.u{user}.grants]\nS = [\"{low}-{}\"]", low + 600).expect("a string takes everything");
    }
    Rights::parse("bench", &text).expect("rights")
}

fn lock(n: usize) -> Vec<u8> {
    Lock::of(257, Operator::Or, &[n as u32, n as u32 + 5000]).and_then(|lock| lock.encode()).expect("a lock")
}

/// Not inlined, so that a profiler can tell it from the preparations.
#[inline(never)]
fn work(round: &mut impl FnMut()) {
    round();
}

/// Median and best of rounds, in nanoseconds per decision.
fn measure(name: &str, per_round: usize, rounds: usize, mut round: impl FnMut()) {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if only.as_deref().is_some_and(|only| only != name) {
        return;
    }
    let rounds = if only.is_some() { 1 } else { rounds };
    for _ in 0..=rounds / 10 {
        work(&mut round);
    }
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work(&mut round);
            start.elapsed().as_nanos() as f64 / per_round as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:44} {:10.2} ns {:10.2} ns best", times[rounds / 2], times[0]);
}

fn main() {
    let settings = Settings { mode: Mode::On, audit_max: usize::MAX, ..Settings::default() };
    let mut permissions = Permissions::new(settings);
    permissions.set_rights(rights(0).into());
    let logins: Vec<LoginId> = (0..USERS).map(|n| login(&mut permissions, &format!("u{n}"))).collect();
    let profiles: Vec<ProfileId> = logins.iter().filter_map(|login| permissions.profile(*login)).collect();
    let items: Vec<ItemId> = (0..ITEMS).map(|n| permissions.item("S", &format!("I{n}")).expect("an item")).collect();
    let bytes: Vec<Vec<u8>> = (0..LOCKS).map(lock).collect();
    let locks: Vec<LockId> = bytes.iter().filter_map(|bytes| permissions.message_lock(items[0], bytes)).collect();

    let bits: Vec<u64> = (0..=LOCKS as u64 / 64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    measure("floor: a bit of one vector", DECISIONS, ROUNDS, || {
        let mut granted = 0;
        for n in 0..DECISIONS {
            let at = n * 7 % LOCKS;
            granted += black_box(&bits)[at / 64] >> (at % 64) & 1;
        }
        black_box(granted);
    });
    // Each pair that is asked for is decided here.
    for n in 0..DECISIONS {
        black_box(permissions.permits(profiles[n % USERS], locks[n * 7 % LOCKS]));
    }
    measure("decision", DECISIONS, ROUNDS, || {
        let mut granted = 0;
        for n in 0..DECISIONS {
            granted += u64::from(permissions.permits(profiles[n % USERS], locks[n * 7 % LOCKS]));
        }
        black_box(granted);
    });
    measure("decision with look-up of the lock", DECISIONS, ROUNDS, || {
        let mut granted = 0;
        for n in 0..DECISIONS {
            let lock = permissions.message_lock(items[0], &bytes[n * 7 % LOCKS]).expect("room");
            granted += u64::from(permissions.permits(profiles[n % USERS], lock));
        }
        black_box(granted);
    });
    repermission(&mut permissions, &logins, &items, &bytes);
}

fn login(permissions: &mut Permissions, user: &str) -> LoginId {
    let request = LoginRequest { connection: 0, user, position: "p", application: None, wants_locks: false };
    match permissions.login(0, &request) {
        LoggedIn::Yes(login) => login,
        answer @ LoggedIn::No(_) => panic!("{answer:?}"),
    }
}

/// 100,000 open items, whose users get other rights of which all still suffice.
fn repermission(permissions: &mut Permissions, logins: &[LoginId], items: &[ItemId], bytes: &[Vec<u8>]) {
    let mut out = Vec::new();
    for (n, item) in items.iter().enumerate() {
        permissions.set_lock(0, *item, Some(&bytes[500 + n % 100]), &mut out);
        for login in logins {
            let Opened::Yes(open) = permissions.open(0, *login, *item, 0, Watch::Streaming) else { panic!("a right") };
            permissions.admit(0, open).expect("granted");
        }
    }
    let opens = permissions.counts().opens;
    let mut shift = 0;
    measure("re-permission of 100,000, an open item", opens, 21, || {
        shift ^= 1;
        permissions.set_rights(rights(shift).into());
        while permissions.turn(0, 4096, &mut out) {}
    });
    measure("a turn of 4,096 of them", 1, 21, || {
        permissions.repermission(None);
        permissions.turn(0, 4096, &mut out);
        while permissions.turn(0, usize::MAX, &mut out) {}
    });
    assert_eq!((opens, out.len()), (100_000, 0));
}
