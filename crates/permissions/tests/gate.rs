//! The state machine: each rule by itself.

use permissions::lock::Lock;
use permissions::rights::{Failure, PostRights, Rights};
use permissions::{
    Absence, Close, EventKind, ItemId, LoggedIn, LoginId, LoginRequest, Mode, OpenId, Opened, Permissions, PostRequest,
    Posted, Settings, StreamState, Verdict, Watch, code,
};

const RIGHTS: &str = r#"
version = "1"
[services.IDN]
id = 257
[services.OWN]
id = 400
guard = "subject"
subservices = { Rates = "product" }
subjects = { "EUR*" = "Rates" }
[applications.256]
[applications.300]
grants = { IDN = [62] }
[positions."10.9.*"]
allowed = false
[positions."10.2.*"]
grants = { IDN = [1] }
[users.alice]
max_positions = 2
grants = { IDN = [62, 144] }
post = { IDN = { names = ["A*"], rights = ["create"] } }
[users.carol]
item_limit = 3
grants = { IDN = [62] }
[users.bob]
applications = [256]
max_mounts = 1
grants = { IDN = [62], OWN = ["Rates"] }
"#;

fn with(settings: Settings) -> Permissions {
    let mut permissions = Permissions::new(settings);
    permissions.set_rights(Rights::parse("rights.toml", RIGHTS).unwrap_or_else(|e| panic!("{e}")).into());
    permissions
}

fn on() -> Permissions {
    with(Settings { mode: Mode::On, ..Settings::default() })
}

fn request(user: &'static str, position: &'static str) -> LoginRequest<'static> {
    LoginRequest { connection: 1, user, position, application: None, wants_locks: true }
}

fn login(permissions: &mut Permissions, user: &'static str) -> LoginId {
    accepted(permissions.login(0, &request(user, "10.0.0.1/net")))
}

#[allow(clippy::needless_pass_by_value, reason = "what a call gives is looked at right away")]
fn accepted(answer: LoggedIn) -> LoginId {
    let LoggedIn::Yes(login) = answer else { panic!("{answer:?}") };
    login
}

fn refused(answer: LoggedIn) -> (StreamState, u8, String) {
    let LoggedIn::No(denial) = answer else { panic!("{answer:?}") };
    let answer = denial.answer();
    (answer.stream_state, answer.code, answer.text)
}

fn open(permissions: &mut Permissions, login: LoginId, item: ItemId, token: u64) -> OpenId {
    let answer = permissions.open(0, login, item, token, Watch::Streaming);
    let Opened::Yes(open) = answer else { panic!("{answer:?}") };
    open
}

fn lock(text: &str) -> Vec<u8> {
    text.parse::<Lock>().unwrap().encode().unwrap()
}

/// Goes on until nothing is left to do.
fn settle(permissions: &mut Permissions) -> Vec<Close> {
    let mut out = Vec::new();
    while permissions.turn(0, 3, &mut out) {}
    out
}

fn kinds(permissions: &mut Permissions) -> Vec<EventKind> {
    permissions.take_audit().map(|event| event.kind).collect()
}

#[test]
fn logins_are_refused_with_the_code_of_their_cause() {
    let mut p = on();
    let closed = StreamState::Closed;
    let answer = refused(p.login(0, &request("mallory", "10.0.0.1/net")));
    assert_eq!(answer, (closed, code::USER_UNKNOWN, "User unknown to permissioning system".to_owned()));
    let other = LoginRequest { application: Some(999), ..request("alice", "10.0.0.1/net") };
    assert_eq!(refused(p.login(0, &other)).1, code::APPLICATION_DENIED);
    let not_his = LoginRequest { application: Some(300), ..request("bob", "10.0.0.1/net") };
    assert_eq!(refused(p.login(0, &not_his)).1, code::APPLICATION_DENIED);
    assert_eq!(refused(p.login(0, &request("alice", "10.9.0.1/net"))).1, code::NOT_ENTITLED);
    accepted(p.login(0, &request("bob", "10.0.0.1/net")));
    assert_eq!(refused(p.login(0, &request("bob", "10.0.0.1/net"))).1, code::TOO_MANY_MOUNTS);
}

#[test]
fn positions_are_counted_once_here_and_elsewhere() {
    let mut p = on();
    let first = accepted(p.login(0, &request("alice", "10.0.0.1/net")));
    accepted(p.login(0, &request("alice", "10.0.0.1/net")));
    p.login_elsewhere("alice", "10.0.0.2/net");
    accepted(p.login(0, &request("alice", "10.0.0.2/net")));
    let answer = refused(p.login(0, &request("alice", "10.0.0.3/net")));
    assert_eq!(
        (answer.1, answer.2.as_str()),
        (code::MAX_LOGINS_REACHED, "Maximum of 2 simultaneous positions reached")
    );
    p.logout(0, first);
    assert_eq!(refused(p.login(0, &request("alice", "10.0.0.3/net"))).1, code::MAX_LOGINS_REACHED);
    p.logout_elsewhere("alice", "10.0.0.2/net");
    let on_line: Vec<_> = p.on_line().map(|on| on.actor.position.to_string()).collect();
    assert_eq!(on_line, ["10.0.0.1/net", "10.0.0.2/net"]);
}

#[test]
fn the_items_of_a_user_are_counted_over_all_logins() {
    let mut p = on();
    let (first, second) = (login(&mut p, "carol"), login(&mut p, "carol"));
    let items: Vec<ItemId> = ["A", "B", "C", "D"].iter().map(|name| p.item("IDN", name).unwrap()).collect();
    let opens = [open(&mut p, first, items[0], 1), open(&mut p, first, items[1], 2), open(&mut p, second, items[0], 1)];
    let Opened::No(denial) = p.open(0, second, items[2], 2, Watch::Snapshot) else { panic!("a fourth item") };
    let answer = denial.answer();
    assert_eq!(
        (answer.stream_state, answer.code, answer.text.as_str()),
        (StreamState::Closed, code::TOO_MANY_ITEMS, "Maximum of 3 open items reached")
    );
    assert_eq!(kinds(&mut p).last(), Some(&EventKind::Denied));
    p.close(0, opens[1]);
    open(&mut p, second, items[2], 3);
    p.logout(0, first);
    open(&mut p, second, items[3], 4);
    // A user without the limit has none.
    let bob = login(&mut p, "bob");
    for (token, &item) in items.iter().enumerate() {
        open(&mut p, bob, item, token as u64);
    }
    // In test mode the item is open, and the audit says what would have been.
    let mut test = with(Settings { mode: Mode::Test, ..Settings::default() });
    let carol = login(&mut test, "carol");
    for name in ["A", "B", "C", "D"] {
        let item = test.item("IDN", name).unwrap();
        open(&mut test, carol, item, 1);
    }
    assert_eq!(kinds(&mut test).iter().filter(|kind| **kind == EventKind::Denied).count(), 1);
}

#[test]
fn a_lost_source_is_met_as_the_settings_say() {
    let settings = |absence| Settings { mode: Mode::On, absence, ..Settings::default() };
    let down = (StreamState::ClosedRecover, code::DACS_DOWN, "Permissioning system is not available".to_owned());
    let mut closed = with(settings(Absence::Closed));
    closed.source_lost();
    assert_eq!(refused(closed.login(0, &request("alice", "p"))), down);
    closed.source_back();
    login(&mut closed, "alice");

    let mut last = with(settings(Absence::Last));
    last.source_lost();
    login(&mut last, "alice");
    assert_eq!(refused(last.login(0, &request("mallory", "p"))), down);

    let mut fail_open = Permissions::new(settings(Absence::Open));
    let mallory = login(&mut fail_open, "mallory");
    let item = fail_open.item("IDN", "X").unwrap();
    let opened = open(&mut fail_open, mallory, item, 1);
    fail_open.set_lock(0, item, Some(&lock("257: 5625")), &mut Vec::new());
    fail_open.admit(0, opened).unwrap();
    fail_open.set_rights(Rights::parse("r", RIGHTS).unwrap().into());
    let ends = settle(&mut fail_open);
    let [Close::Login { denial, .. }] = ends.as_slice() else { panic!("{ends:?}") };
    assert_eq!(denial.answer().text, "Force Logout from DACS.");

    let mut strict = with(Settings { disconnect_on_loss: true, ..settings(Absence::Last) });
    login(&mut strict, "alice");
    strict.source_lost();
    let ends = settle(&mut strict);
    let [Close::Login { denial, .. }] = ends.as_slice() else { panic!("{ends:?}") };
    assert_eq!(denial.answer().stream_state, StreamState::ClosedRecover);
}

#[test]
fn content_is_checked_when_the_lock_is_there() {
    let mut p = on();
    let (alice, bob) = (login(&mut p, "alice"), login(&mut p, "bob"));
    let item = p.item("IDN", "IBM.N").unwrap();
    let (of_alice, of_bob) = (open(&mut p, alice, item, 1), open(&mut p, bob, item, 2));
    p.set_lock(0, item, Some(&lock("257: 62 & (144 | 145)")), &mut Vec::new());
    p.admit(0, of_alice).unwrap();
    let denial = p.admit(0, of_bob).unwrap_err().answer();
    assert_eq!((denial.code, denial.text.as_str()), (3, "Access Denied: User req to PE(144,145)"));

    // A late joiner meets the lock of now; a status takes the item from who fails the new one.
    let mut out = Vec::new();
    p.set_lock(0, item, Some(&lock("257: 62")), &mut out);
    assert_eq!(out, []);
    let late = open(&mut p, bob, item, 3);
    p.admit(0, late).unwrap();
    p.set_lock(0, item, Some(&lock("257: 144")), &mut out);
    let [Close::Item { login, token: 3, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(*login, bob);
    // An item without a lock is open to everybody who has the service.
    p.set_lock(0, item, None, &mut Vec::new());
    let again = open(&mut p, bob, item, 4);
    p.admit(0, again).unwrap();
    assert_eq!(p.counts().opens, 2);
}

#[test]
fn unreadable_locks_and_unknown_services_deny() {
    let mut p = on();
    let alice = login(&mut p, "alice");
    for (token, bytes) in
        [&[4, 1, 1, 0x36, 0xC0][..], &[9, 9], &lock("999: 62"), &lock("400: (none)")].iter().enumerate()
    {
        let item = p.item("IDN", "X").unwrap();
        let opened = open(&mut p, alice, item, token as u64);
        p.set_lock(0, item, Some(bytes), &mut Vec::new());
        assert_eq!(p.admit(0, opened).unwrap_err().answer().code, code::NOT_ENTITLED, "{bytes:?}");
    }
}

#[test]
fn subjects_and_services_are_checked_before_the_request_goes_out() {
    let mut p = on();
    let (alice, bob) = (login(&mut p, "alice"), login(&mut p, "bob"));
    let (eur, gbp) = (p.item("OWN", "EUR=").unwrap(), p.item("OWN", "GBP=").unwrap());
    let Opened::No(denial) = p.open(0, alice, eur, 1, Watch::Streaming) else { panic!("alice has no right to OWN") };
    assert_eq!(denial.answer().text, "Access Denied: User not permissioned for service OWN");
    let Opened::No(denial) = p.open(0, bob, gbp, 1, Watch::Streaming) else { panic!("no pattern matches") };
    assert_eq!(denial.answer().text, "Access Denied: User not permissioned for this item");
    let opened = open(&mut p, bob, eur, 1);
    p.admit(0, opened).unwrap();
    assert!(p.shows_service(bob, "OWN") && !p.shows_service(alice, "OWN") && !p.shows_service(bob, "UNLISTED"));
}

#[test]
fn positions_and_applications_with_a_profile_need_the_right_too() {
    let mut p = on();
    let item = p.item("IDN", "X").unwrap();
    p.set_lock(0, item, Some(&lock("257: 144")), &mut Vec::new());
    let there = accepted(p.login(0, &request("alice", "10.2.0.1/net")));
    let opened = open(&mut p, there, item, 1);
    assert_eq!(p.admit(0, opened).unwrap_err().answer().text, "Access Denied: Position req to PE(144)");
    let with = accepted(p.login(0, &LoginRequest { application: Some(300), ..request("alice", "10.0.0.1/net") }));
    let opened = open(&mut p, with, item, 1);
    assert_eq!(p.admit(0, opened).unwrap_err().answer().text, "Access Denied: Application req to PE(144)");
}

#[test]
fn rights_that_change_close_what_is_open_and_give_what_is_asked_anew() {
    let mut p = on();
    let bob = login(&mut p, "bob");
    let items: Vec<ItemId> = (0..10).map(|n| p.item("IDN", &format!("I{n}")).unwrap()).collect();
    for (token, item) in items.iter().enumerate() {
        let needs = if token % 2 == 0 { "257: 62" } else { "257: (none)" };
        p.set_lock(0, *item, Some(&lock(needs)), &mut Vec::new());
        let opened = open(&mut p, bob, *item, token as u64);
        p.admit(0, opened).unwrap();
    }
    p.set_rights(
        Rights::parse("r", &RIGHTS.replace("grants = { IDN = [62], OWN", "grants = { IDN = [63], OWN")).unwrap().into(),
    );
    let mut out = Vec::new();
    assert!(p.turn(0, 3, &mut out), "ten items take more than one turn of three");
    // The item where the sweep stands goes away in between; so does a login that it has not come to.
    let standing = p.counts().opens;
    p.drop_item(0, items[6]);
    assert_eq!(p.counts().opens, standing - 1);
    while p.turn(0, 3, &mut out) {}
    let mut tokens: Vec<u64> =
        out.iter().map(|end| if let Close::Item { token, .. } = end { *token } else { 99 }).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 2, 4, 8]);
    assert_eq!(p.counts().opens, 5);
    // Rights given are found when asked for anew.
    p.set_rights(Rights::parse("r", RIGHTS).unwrap().into());
    assert_eq!(settle(&mut p), []);
    let opened = open(&mut p, bob, items[0], 0);
    p.admit(0, opened).unwrap();
}

#[test]
fn a_forced_logout_takes_everything_with_it() {
    let mut p = on();
    let alice = login(&mut p, "alice");
    let item = p.item("IDN", "X").unwrap();
    for token in 0..5 {
        let opened = open(&mut p, alice, item, token);
        p.admit(0, opened).unwrap();
    }
    assert_eq!(p.force_logout("alice"), 1);
    p.force_logout("alice");
    let ends = settle(&mut p);
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!((p.counts().opens, p.counts().logins), (0, 0));
    let kinds = kinds(&mut p);
    assert_eq!(kinds[6..], [[EventKind::StopWatch; 5].as_slice(), &[EventKind::LoginDenied]].concat());
    login(&mut p, "alice");
}

#[test]
fn test_mode_logs_what_it_would_deny() {
    let mut p = with(Settings { mode: Mode::Test, ..Settings::default() });
    let mallory = login(&mut p, "mallory");
    let item = p.item("IDN", "X").unwrap();
    p.set_lock(0, item, Some(&lock("257: 62")), &mut Vec::new());
    let opened = open(&mut p, mallory, item, 1);
    p.admit(0, opened).unwrap();
    let would: Vec<bool> = p.take_audit().map(|event| matches!(event.verdict, Verdict::WouldDeny(_))).collect();
    assert_eq!(would, [true; 3], "login, open, watch");
    assert_eq!(p.counts().denials, 3);
}

#[test]
fn off_remembers_nothing() {
    let mut p = Permissions::new(Settings::default());
    let mallory = login(&mut p, "mallory");
    let item = p.item("IDN", "X").unwrap();
    let opened = open(&mut p, mallory, item, 1);
    p.set_lock(0, item, Some(&lock("257: 62")), &mut Vec::new());
    p.admit(0, opened).unwrap();
    p.close(0, opened);
    p.drop_item(0, item);
    assert_eq!((p.counts().items, p.counts().opens, p.counts().audit), (0, 0, 0));
}

#[test]
fn posts_need_a_right_of_their_own() {
    let mut p = on();
    let (alice, bob) = (login(&mut p, "alice"), login(&mut p, "bob"));
    let request = PostRequest { service: "IDN", item: "ABC", lock: None, needs: PostRights::NONE };
    assert_eq!(p.post(0, alice, &request), Posted::Yes(PostRights::CREATE));
    let failure = |posted| if let Posted::No(denial) = posted { denial.failure } else { panic!("{posted:?}") };
    assert_eq!(failure(p.post(0, alice, &PostRequest { item: "BCD", ..request })), Failure::Post);
    assert_eq!(failure(p.post(0, alice, &PostRequest { needs: PostRights::DELETE, ..request })), Failure::Post);
    assert_eq!(failure(p.post(0, alice, &PostRequest { lock: Some(&[1]), ..request })), Failure::PostPermissions);
    assert_eq!(failure(p.post(0, bob, &request)), Failure::Post);
    assert_eq!(kinds(&mut p)[2..4], [EventKind::Post, EventKind::PostDenied]);
}

#[test]
fn a_full_audit_holds_up_what_is_new_and_loses_nothing() {
    let mut p = with(Settings { mode: Mode::On, audit_max: 3, ..Settings::default() });
    let alice = login(&mut p, "alice");
    let item = p.item("IDN", "X").unwrap();
    let (first, second) = (open(&mut p, alice, item, 1), open(&mut p, alice, item, 2));
    p.admit(0, first).unwrap();
    p.admit(0, second).unwrap();
    assert!(p.is_held_up());
    p.close(0, first);
    p.logout(0, alice);
    let numbers: Vec<u64> = p.take_audit().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert!(!p.is_held_up());
    login(&mut p, "bob");
}

#[test]
fn an_event_says_who_what_and_by_which_rights() {
    let mut p = on();
    let bob = login(&mut p, "bob");
    let item = p.item("IDN", "IBM.N").unwrap();
    let bytes = lock("257: 144");
    p.set_lock(0, item, Some(&bytes), &mut Vec::new());
    let opened = open(&mut p, bob, item, 1);
    p.admit(42, opened).unwrap_err();
    let event = p.take_audit().last().unwrap();
    assert_eq!((event.at, event.kind, &*event.rights), (42, EventKind::Denied, "1"));
    assert_eq!(
        (&*event.actor.user, event.service.as_deref(), event.item.as_deref()),
        ("bob", Some("IDN"), Some("IBM.N"))
    );
    assert_eq!(event.lock.as_deref(), Some(&*bytes));
    assert!(matches!(event.verdict, Verdict::Denied(Failure::Pes { ref pes, .. }) if *pes == [144]));
}

#[test]
fn usage_is_told_by_user_subservice_and_day() {
    let mut p = on();
    p.new_day(100);
    let alice = login(&mut p, "alice");
    let item = p.item("IDN", "X").unwrap();
    p.set_lock(0, item, Some(&lock("257: 62")), &mut Vec::new());
    for token in 0..3 {
        let opened = open(&mut p, alice, item, token);
        p.admit(0, opened).unwrap();
    }
    p.new_day(101);
    settle(&mut p);
    let day = p.take_usage().next().unwrap();
    let rows: Vec<_> =
        day.opens.iter().map(|(row, opens)| (&*row.user, &*row.service, &*row.subservice, *opens)).collect();
    assert_eq!((day.day, rows.as_slice()), (100, &[("alice", "IDN", "PE 62", 3)][..]));
    assert_eq!(kinds(&mut p)[4..], [EventKind::ContinueWatch; 3]);
}

#[test]
fn locks_beyond_the_room_deny_and_make_room_again() {
    let mut p = with(Settings { mode: Mode::On, locks_max: 4, ..Settings::default() });
    let alice = login(&mut p, "alice");
    // The absence of a lock takes a place, too.
    let items: Vec<ItemId> = (0..4).map(|n| p.item("IDN", &format!("I{n}")).unwrap()).collect();
    for (item, bytes) in items.iter().zip(["257: 62", "257: 144", "257: 62 & 144"]) {
        p.set_lock(0, *item, Some(&lock(bytes)), &mut Vec::new());
    }
    assert_eq!(p.counts().locks_full, 0);
    p.set_lock(0, items[3], Some(&lock("257: (62 | 9)")), &mut Vec::new());
    assert_eq!(p.counts().locks_full, 1);
    let opened = open(&mut p, alice, items[3], 1);
    assert_eq!(p.admit(0, opened).unwrap_err().failure, Failure::LocksFull);
    p.drop_item(0, items[1]);
    p.set_lock(0, items[3], Some(&lock("257: (62 | 9)")), &mut Vec::new());
    let opened = open(&mut p, alice, items[3], 1);
    p.admit(0, opened).unwrap();
}

#[test]
fn a_message_with_a_lock_of_its_own_is_for_whom_it_admits() {
    let mut p = on();
    let (alice, bob) = (login(&mut p, "alice"), login(&mut p, "bob"));
    let item = p.item("IDN", "X").unwrap();
    let own = p.message_lock(item, &lock("257: 144")).unwrap();
    let (of_alice, of_bob) = (p.profile(alice).unwrap(), p.profile(bob).unwrap());
    assert!(p.permits(of_alice, own) && !p.permits(of_bob, own));
}

#[test]
fn the_lock_of_an_entry_narrows_its_item() {
    let mut p = on();
    let bob = login(&mut p, "bob");
    let item = p.item("IDN", "X").unwrap();
    p.set_lock(0, item, Some(&lock("257: 62")), &mut Vec::new());
    let opened = open(&mut p, bob, item, 5);
    p.admit(0, opened).unwrap();
    let mut out = Vec::new();
    p.narrow_lock(0, item, &lock("257: 62"), &mut out).unwrap();
    assert_eq!(out, []);
    p.narrow_lock(0, item, &lock("257: 144"), &mut out).unwrap();
    assert_eq!(out.len(), 1);
}

/// Strangers fill no disk: ten lines a second for an address, and one for the rest.
#[test]
fn refused_logins_of_an_address_are_told_together() {
    let mut p = with(Settings { mode: Mode::On, ..Settings::default() });
    let second = 1_000_000_000;
    p.take_audit().for_each(drop);
    for n in 0..1_000_u64 {
        let address = Some([10, 0, 0, (n % 2) as u8].into());
        let refused = p.login_from(n, &request("nobody", "10.0.0.1/net"), address);
        assert!(matches!(refused, LoggedIn::No(_)), "{refused:?}");
    }
    let events: Vec<_> = p.take_audit().collect();
    assert_eq!(events.len(), 20);
    assert!(events.iter().all(|event| event.kind == EventKind::LoginDenied && event.count == 1));
    let next = p.sum_up_refusals(1_000).expect("more is to come");
    assert!(next <= second + 1_000 && p.take_audit().count() == 0);
    p.sum_up_refusals(next + 1);
    let sums: Vec<_> = p.take_audit().map(|event| (event.kind, event.count, event.actor.user.to_string())).collect();
    assert_eq!(sums, vec![(EventKind::LoginDenied, 490, "nobody".to_owned()); 2]);
    assert_eq!(p.sum_up_refusals(9 * second), None, "addresses that are quiet are forgotten");
}

/// Nor do those who have many addresses: 200 lines a second for all, and one for each of 256 sites that has more.
#[test]
fn refused_logins_of_many_addresses_are_told_together() {
    let mut p = with(Settings { mode: Mode::On, ..Settings::default() });
    p.take_audit().for_each(drop);
    let (second, all) = (1_000_000_000, 100_000_u64);
    let mut told = 0;
    for n in 0..all {
        let half = [n as u8, (n >> 8) as u8, (n >> 16) as u8];
        let v4 = [10, half[0], half[1], half[2]].into();
        // Of IPv6 a site has as many as it likes.
        let v6 = std::net::Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, n as u16, (n >> 16) as u16).into();
        p.login_from(n, &request("nobody", "10.0.0.1/net"), Some(if n % 2 == 0 { v4 } else { v6 }));
        told += p.take_audit().map(|event| event.count).sum::<u64>();
    }
    assert!(told <= 200, "{told}");
    p.sum_up_refusals(2 * second);
    let sums: Vec<u64> = p.take_audit().map(|event| event.count).collect();
    assert!(sums.len() <= 257, "{}", sums.len());
    assert_eq!(told + sums.iter().sum::<u64>(), all, "none is lost");
    assert!(sums.iter().any(|count| *count > all / 2 - 200), "a network of IPv6 is one site");
}

/// While nothing is taken, refused logins do not fill the queue, new ones wait first, and those who are in go on.
#[test]
fn the_last_quarter_of_the_audit_is_for_those_who_are_in() {
    let mut p = with(Settings { mode: Mode::On, audit_max: 100, ..Settings::default() });
    p.take_audit().for_each(drop);
    for n in 0..100_000_u64 {
        // A stranger has many addresses and comes back for long.
        let address = Some([10, 0, (n % 250) as u8, 1].into());
        p.login_from(n * 1_000_000, &request("nobody", "10.0.0.1/net"), address);
        p.sum_up_refusals(n * 1_000_000);
    }
    assert!(!p.has_login_room() && p.has_audit_room() && p.counts().audit < 100, "{:?}", p.counts());
    let told: u64 = p.take_audit().map(|event| event.count).sum();
    p.sum_up_refusals(1_000_000 * 1_000_000);
    let rest: u64 = p.take_audit().map(|event| event.count).sum();
    assert_eq!(told + rest, 100_000, "none is lost");
}

/// A few long texts fill the queue as many short ones do.
#[test]
fn what_waits_for_the_audit_is_counted_in_bytes() {
    let mut p = with(Settings { mode: Mode::On, audit_max: usize::MAX, ..Settings::default() });
    let long = "p".repeat(1 << 20);
    let mut logins = 0;
    while p.has_login_room() {
        p.login(0, &LoginRequest { position: &long, ..request("nobody", "") });
        logins += 1;
        assert!(logins < 64, "bounded");
    }
    p.take_audit().for_each(drop);
    assert!(p.has_login_room());
}
