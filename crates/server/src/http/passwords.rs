//! Whether a name and a password are somebody's: checked in a thread of their own, one at a time, since each check takes some 19 MB and
//! tens of milliseconds by design.
//!
//! What was found is remembered, so that a page and a scrape cost one check. Who sends wrong ones has so many tries and then one a second,
//! by address; so many checks wait and no more. What is refused so costs a look into a table.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::Block;
use base64ct::{Base64, Encoding as _};
use config::{Hashed, Role, User};
use tokio::sync::oneshot;

use super::places::Whose;

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) role: Role,
}

/// Why somebody is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// No user has this name and password, or it cannot be read.
    Nobody,
    /// The address has tried too often.
    TooMany,
    /// Too many wait to be checked.
    Busy,
}

/// Seconds for which a finding about a name and a password counts, from its last use on.
const REMEMBERED: Duration = Duration::from_mins(5);
/// How long wrong ones are known to be wrong.
const WRONG_REMEMBERED: Duration = Duration::from_mins(1);
/// Names and passwords that are remembered, of each kind.
const REMEMBERED_MAX: usize = 64;
/// Bytes of a name and a password, as they come.
const CREDENTIALS_MAX: usize = 1 << 10;
/// Wrong ones that an address may try at once; a second gives one back.
const TRIES: f64 = 10.0;
/// Addresses of which is known how often they have tried. One more counts with all others that are too many.
const ADDRESSES: usize = 4_096;
/// Checks that wait.
const WAITING: usize = 16;
/// How long the thread stays, and its memory with it, when nobody asks.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Known {
    users: Vec<User>,
    /// Changes with the users: what was begun with those of before does not count.
    generation: u64,
    right: HashMap<String, (Instant, Caller)>,
    wrong: HashMap<String, Instant>,
    tries: HashMap<Option<Whose>, (Instant, f64)>,
}

impl Known {
    /// Takes one of an address's tries.
    fn takes_try(&mut self, whose: Whose, now: Instant) -> bool {
        let left = |(since, left): (Instant, f64)| (left + now.duration_since(since).as_secs_f64()).min(TRIES);
        if self.tries.len() >= ADDRESSES && !self.tries.contains_key(&Some(whose)) {
            self.tries.retain(|_, tried| left(*tried) < TRIES);
        }
        let is_counted = self.tries.len() < ADDRESSES || self.tries.contains_key(&Some(whose));
        let tried = self.tries.entry(is_counted.then_some(whose)).or_insert((now, TRIES));
        *tried = (now, left(*tried));
        let may = tried.1 >= 1.0;
        tried.1 -= if may { 1.0 } else { 0.0 };
        may
    }

    fn gives_try_back(&mut self, whose: Whose) {
        if let Some((_, left)) = self.tries.get_mut(&Some(whose)) {
            *left = (*left + 1.0).min(TRIES);
        }
    }
}

/// One check.
struct Check {
    hash: String,
    password: Vec<u8>,
    answer: oneshot::Sender<bool>,
}

/// Users who may come in, and those who were here.
#[derive(Default)]
pub(super) struct Passwords {
    known: Mutex<Known>,
    checker: Mutex<Option<SyncSender<Check>>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Passwords {
    pub(super) fn new(users: Vec<User>) -> Self {
        Self { known: Mutex::new(Known { users, ..Known::default() }), checker: Mutex::default() }
    }

    /// Others count from now on.
    pub(super) fn set_users(&self, users: Vec<User>) {
        let mut known = locked(&self.known);
        let generation = known.generation + 1;
        *known = Known { users, generation, tries: std::mem::take(&mut known.tries), ..Known::default() };
    }

    pub(super) fn has_users(&self) -> bool {
        !locked(&self.known).users.is_empty()
    }

    /// The user who has sent this `Authorization` from there.
    pub(super) async fn caller(&self, given: &str, whose: Whose) -> Result<Caller, Wrong> {
        let now = Instant::now();
        let (asked, user, generation) = {
            let mut known = locked(&self.known);
            known.right.retain(|_, (since, _)| now.duration_since(*since) < REMEMBERED);
            known.wrong.retain(|_, since| now.duration_since(*since) < WRONG_REMEMBERED);
            if let Some((since, caller)) = known.right.get_mut(given) {
                *since = now;
                return Ok(caller.clone());
            }
            if known.wrong.contains_key(given) {
                return Err(Wrong::Nobody);
            }
            let (name, password) = credentials(given).ok_or(Wrong::Nobody)?;
            let user = known.users.iter().find(|user| user.name == name).cloned();
            // An unknown name takes as long as a wrong password.
            let hash = user.as_ref().or(known.users.first()).ok_or(Wrong::Nobody)?.hash.clone();
            if !known.takes_try(whose, now) {
                return Err(Wrong::TooMany);
            }
            let (answer, answered) = oneshot::channel();
            let check = Check { hash, password: password.into_bytes(), answer };
            if self.put(check).is_err() {
                known.gives_try_back(whose);
                return Err(Wrong::Busy);
            }
            (answered, user, known.generation)
        };
        let is_right = asked.await.map_err(|_| Wrong::Busy)?;
        let mut known = locked(&self.known);
        if known.generation != generation {
            return Err(Wrong::Nobody);
        }
        let Some(user) = user.filter(|_| is_right) else {
            if known.wrong.len() >= REMEMBERED_MAX {
                known.wrong.clear();
            }
            known.wrong.insert(given.to_owned(), now);
            return Err(Wrong::Nobody);
        };
        known.gives_try_back(whose);
        if known.right.len() >= REMEMBERED_MAX {
            known.right.clear();
        }
        let caller = Caller { name: user.name, role: user.role };
        known.right.insert(given.to_owned(), (now, caller.clone()));
        Ok(caller)
    }

    /// Hands a check to the thread, which is begun if there is none.
    fn put(&self, check: Check) -> Result<(), ()> {
        let mut checker = locked(&self.checker);
        let check = match &*checker {
            None => check,
            Some(to) => match to.try_send(check) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(()),
                Err(TrySendError::Disconnected(check)) => check,
            },
        };
        let (to, checks) = sync_channel(WAITING);
        let begun = std::thread::Builder::new().name("passwords".into()).spawn(move || run(&checks));
        if let Err(e) = begun {
            tracing::warn!("passwords cannot be checked, no thread: {e}");
            return Err(());
        }
        let put = to.try_send(check).map_err(drop);
        *checker = Some(to);
        put
    }
}

/// The thread: one check after the other, in the same memory, which it gives back with its end.
fn run(checks: &Receiver<Check>) {
    let mut memory: Vec<Block> = Vec::new();
    loop {
        match checks.recv_timeout(IDLE) {
            Ok(Check { hash, password, answer }) => {
                if !answer.is_closed() {
                    let _ = answer.send(Hashed::read(&hash).is_some_and(|hashed| hashed.is_of(&password, &mut memory)));
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Name and password of HTTP Basic (RFC 7617).
fn credentials(given: &str) -> Option<(String, String)> {
    if given.len() > CREDENTIALS_MAX {
        return None;
    }
    let (scheme, text) = given.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(Base64::decode_vec(text).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::ctl::{UserRole, password_line};

    fn basic(credentials: &str) -> String {
        format!("Basic {}", Base64::encode_string(credentials.as_bytes()))
    }

    fn from(last: u8) -> Whose {
        Whose::of([127, 0, 0, last].into())
    }

    fn asked(passwords: &Passwords, given: &str, whose: Whose) -> Result<Caller, Wrong> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(passwords.caller(given, whose))
    }

    fn ann() -> User {
        password_line("ann", UserRole::Viewer, "open sesame").unwrap().parse().unwrap()
    }

    #[test]
    fn a_password_is_somebodys_or_nobodys() {
        let passwords = Passwords::new(vec![ann()]);
        for _ in 0..2 {
            assert_eq!(asked(&passwords, &basic("ann:open sesame"), from(1)).map(|c| c.name), Ok("ann".to_owned()));
            for wrong in ["ann:wrong", "bob:open sesame", "ann:", "ann"] {
                assert_eq!(asked(&passwords, &basic(wrong), from(1)), Err(Wrong::Nobody), "{wrong}");
            }
        }
        for unreadable in
            ["", "Basic", "Basic ", "Basic YW5uOm9wZW4gc2VzYW1l=", "Basic  YW5u", "Bearer YW5uOm9wZW4gc2VzYW1l"]
        {
            assert_eq!(asked(&passwords, unreadable, from(1)), Err(Wrong::Nobody), "{unreadable}");
        }
        passwords.set_users(vec![]);
        assert_eq!(asked(&passwords, &basic("ann:open sesame"), from(1)), Err(Wrong::Nobody), "nobody is remembered");
        for bad in ["ann:viewer:secret", "ann:boss:x", ":viewer:x", "ann", "ann:viewer:$argon2id$v=19$m=19456,t=2,p=1"]
        {
            assert!(bad.parse::<User>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_that_guesses_has_so_many_tries_and_others_are_not_concerned() {
        let passwords = Passwords::new(vec![ann()]);
        let right = basic("ann:open sesame");
        assert!(asked(&passwords, &right, from(1)).is_ok());
        let tried = (0..30).map(|n| asked(&passwords, &basic(&format!("ann:guess {n}")), from(1)));
        let checked = tried.filter(|tried| *tried == Err(Wrong::Nobody)).count();
        // Each takes tens of milliseconds, in which a part of another is earned.
        assert!((10..20).contains(&checked), "{checked}");
        assert_eq!(asked(&passwords, &basic("ann:again"), from(1)), Err(Wrong::TooMany));
        assert!(asked(&passwords, &right, from(1)).is_ok(), "who is known comes in from there as before");
        assert!(asked(&passwords, &basic("ann:other"), from(2)) == Err(Wrong::Nobody));
        // The same wrong one again and again, as a script has it, is checked once.
        assert_eq!(asked(&passwords, &basic("ann:guess 0"), from(1)), Err(Wrong::Nobody));
    }

    #[test]
    fn addresses_without_end_are_counted_as_one() {
        let mut known = Known::default();
        let now = Instant::now();
        for n in 0..20_000_u32 {
            known.takes_try(Whose::of(std::net::IpAddr::V4(n.into())), now);
        }
        assert!(known.tries.len() <= ADDRESSES + 1);
        assert!(!known.takes_try(Whose::of([200, 0, 0, 1].into()), now));
    }
}
