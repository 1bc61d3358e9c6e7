//! Random worlds: users, rights and locks change at random, and an oracle that knows only the rules says who may see what.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use permissions::lock::{Lock, ServiceLock};
use permissions::rights::Rights;
use permissions::{Close, ItemId, LoggedIn, LoginId, LoginRequest, Mode, OpenId, Opened, Permissions, Settings, Watch};
use proptest::prelude::*;

const USERS: [&str; 4] = ["ann", "ben", "cat", "dan"];
const ITEMS: usize = 5;
const PES: u32 = 6;

/// Rights of all users: none, or a bit a PE.
type World = [Option<u8>; USERS.len()];

#[derive(Debug, Clone)]
enum Step {
    Login(usize),
    Logout(usize),
    Open { login: usize, item: usize },
    Image(usize),
    Close(usize),
    Lock { item: usize, lock: Option<Vec<Vec<u32>>> },
    Rights(World),
    Turn(usize),
    Force(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..64usize;
    let groups = prop::collection::vec(prop::collection::vec(0..PES, 1..3), 0..3);
    let world = prop::array::uniform4(prop::option::weighted(0.9, any::<u8>()));
    prop_oneof![
        3 => which.clone().prop_map(Step::Login),
        1 => which.clone().prop_map(Step::Logout),
        8 => (which.clone(), 0..ITEMS).prop_map(|(login, item)| Step::Open { login, item }),
        8 => which.clone().prop_map(Step::Image),
        2 => which.clone().prop_map(Step::Close),
        4 => (0..ITEMS, prop::option::weighted(0.8, groups)).prop_map(|(item, lock)| Step::Lock { item, lock }),
        2 => world.prop_map(Step::Rights),
        6 => (1..4usize).prop_map(Step::Turn),
        1 => which.prop_map(Step::Force),
    ]
}

fn rights(world: World) -> Rights {
    let mut text = "[services.S]\nid = 1\n".to_owned();
    for (user, pes) in USERS.iter().zip(world) {
        let Some(pes) = pes else { continue };
        let pes: Vec<String> = (0..PES).filter(|pe| pes >> pe & 1 == 1).map(|pe| pe.to_string()).collect();
        writeln!(text, "[users.{user}.grants]\nS = [{}]", pes.join(", ")).unwrap();
    }
    Rights::parse("world", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// True if some rights satisfy one of the locks and not the other.
fn is_another(old: Option<&Vec<Vec<u32>>>, new: Option<&Vec<Vec<u32>>>) -> bool {
    (0..1 << PES).any(|pes| may([Some(pes); USERS.len()], 0, old) != may([Some(pes); USERS.len()], 0, new))
}

/// The rule: a user of now has every group of the lock of now.
fn may(world: World, user: usize, lock: Option<&Vec<Vec<u32>>>) -> bool {
    let Some(pes) = world[user] else { return false };
    lock.is_none_or(|groups| groups.iter().all(|group| group.iter().any(|pe| pes >> pe & 1 == 1)))
}

struct Watched {
    user: usize,
    login: LoginId,
    item: usize,
    open: OpenId,
    is_admitted: bool,
}

struct Sim {
    permissions: Permissions,
    world: World,
    items: Vec<ItemId>,
    locks: Vec<Option<Vec<Vec<u32>>>>,
    logins: Vec<(LoginId, usize)>,
    /// By token.
    watched: BTreeMap<u64, Watched>,
    tokens: u64,
    /// Whether the state machine has caught up with the rights of now.
    is_settled: bool,
}

impl Sim {
    fn new(world: World) -> Self {
        let mut permissions = Permissions::new(Settings { mode: Mode::On, locks_max: 64, ..Settings::default() });
        permissions.set_rights(rights(world).into());
        let items = (0..ITEMS).map(|n| permissions.item("S", &format!("I{n}")).unwrap()).collect();
        let (logins, watched) = (Vec::new(), BTreeMap::new());
        Self { permissions, world, items, locks: vec![None; ITEMS], logins, watched, tokens: 0, is_settled: true }
    }

    fn may(&self, watched: &Watched) -> bool {
        may(self.world, watched.user, self.locks[watched.item].as_ref())
    }

    fn ended(&mut self, ends: Vec<Close>) {
        for end in ends {
            match end {
                Close::Item { token, login, .. } => {
                    let watched = self.watched.remove(&token).expect("an item that is open is closed, once");
                    assert_eq!(watched.login, login);
                    assert!(!self.may(&watched), "no one else is disturbed");
                }
                Close::Login { login, .. } => self.gone(login),
            }
        }
    }

    fn gone(&mut self, login: LoginId) {
        self.logins.retain(|(other, _)| *other != login);
        self.watched.retain(|_, watched| watched.login != login);
    }

    fn step(&mut self, step: &Step) {
        let mut ends = Vec::new();
        match step {
            Step::Login(user) => {
                let user = user % USERS.len();
                let request = LoginRequest {
                    connection: 0,
                    user: USERS[user],
                    position: "p",
                    application: None,
                    wants_locks: false,
                };
                match self.permissions.login(0, &request) {
                    LoggedIn::Yes(login) => {
                        assert!(self.world[user].is_some());
                        self.logins.push((login, user));
                    }
                    answer @ LoggedIn::No(_) => assert!(self.world[user].is_none(), "{answer:?}"),
                }
            }
            Step::Logout(which) if !self.logins.is_empty() => {
                let (login, _) = self.logins[which % self.logins.len()];
                self.permissions.logout(0, login);
                self.gone(login);
            }
            Step::Open { login, item } if !self.logins.is_empty() => {
                let (login, user) = self.logins[login % self.logins.len()];
                self.tokens += 1;
                let answer = self.permissions.open(0, login, self.items[*item], self.tokens, Watch::Streaming);
                match answer {
                    Opened::Yes(open) => {
                        let watched = Watched { user, login, item: *item, open, is_admitted: false };
                        self.watched.insert(self.tokens, watched);
                    }
                    answer @ Opened::No(_) => assert!(self.world[user].is_none(), "{answer:?}"),
                }
            }
            Step::Image(which) if !self.watched.is_empty() => {
                let token = *self.watched.keys().nth(which % self.watched.len()).unwrap();
                let expected = self.may(&self.watched[&token]);
                let answer = self.permissions.admit(0, self.watched[&token].open);
                assert_eq!(answer.is_ok(), expected, "an image is decided by the rights and the lock of now");
                match answer {
                    Ok(()) => self.watched.get_mut(&token).unwrap().is_admitted = true,
                    Err(_) => _ = self.watched.remove(&token),
                }
            }
            Step::Close(which) if !self.watched.is_empty() => {
                let token = *self.watched.keys().nth(which % self.watched.len()).unwrap();
                let watched = self.watched.remove(&token).unwrap();
                self.permissions.close(0, watched.open);
            }
            Step::Lock { item, lock } => {
                let bytes = lock.as_ref().map(|groups| {
                    Lock { services: vec![ServiceLock { service: 1, groups: groups.clone() }] }.encode().unwrap()
                });
                // The same lock again is nothing new: what rights have changed before is for the turns.
                let is_new = is_another(self.locks[*item].as_ref(), lock.as_ref());
                self.locks[*item].clone_from(lock);
                self.permissions.set_lock(0, self.items[*item], bytes.as_deref(), &mut ends);
                self.ended(ends);
                let seeing = self.watched.values().filter(|watched| watched.item == *item && watched.is_admitted);
                assert!(!is_new || seeing.into_iter().all(|watched| self.may(watched)), "a new lock holds at once");
            }
            Step::Rights(world) => {
                self.world = *world;
                self.permissions.set_rights(rights(*world).into());
                self.is_settled = false;
            }
            Step::Turn(budget) => {
                self.is_settled |= !self.permissions.turn(0, *budget, &mut ends);
                self.ended(ends);
            }
            Step::Force(user) => _ = self.permissions.force_logout(USERS[user % USERS.len()]),
            _ => {}
        }
        if self.is_settled {
            for watched in self.watched.values().filter(|watched| watched.is_admitted) {
                assert!(self.may(watched), "nobody sees what is denied");
            }
        }
        assert_eq!(self.permissions.counts().opens, self.watched.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nobody_sees_what_is_denied_and_no_one_else_is_disturbed(
        world in prop::array::uniform4(prop::option::weighted(0.9, any::<u8>())),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut sim = Sim::new(world);
        for step in &steps {
            sim.step(step);
        }
        // Everything is forgotten in the end, and each event was logged once.
        for (login, _) in std::mem::take(&mut sim.logins) {
            sim.permissions.logout(0, login);
        }
        for item in sim.items.clone() {
            sim.permissions.drop_item(0, item);
        }
        let counts = sim.permissions.counts();
        prop_assert_eq!((counts.opens, counts.items, counts.logins, counts.sweeping), (0, 0, 0, 0));
        let numbers: Vec<u64> = sim.permissions.take_audit().map(|event| event.number).collect();
        prop_assert!(numbers.iter().copied().eq(1..=numbers.len() as u64));
    }
}
