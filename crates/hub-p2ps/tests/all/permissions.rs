//! Who may see what: refusals, locks that change, rights that change, on every way to a client.

use crate::world::{PRICE, World, encode, fields, item, status};
use hub_p2ps::{ClientId, CloseReason, Config};
use hub_stream::flags;
use permissions::rights::Rights;
use permissions::{EventKind, Mode, Settings};
use rwf::msg::{
    GenericMsg, Msg, MsgKey, PostFlags, PostMsg, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusMsg,
    UpdateMsg,
};
use rwf::rdm::login;
use rwf::{DataState, DataType, State, StateCode, StreamState};

/// Lock of service 1: this PE.
fn lock(pe: u8) -> [u8; 4] {
    assert!(pe < 10);
    [3, 0, 1, pe << 4 | 0xC]
}

fn rights(grants: &str) -> std::sync::Arc<Rights> {
    let text = format!("version = \"v\"\n[services.FEED]\nid = 1\n{grants}");
    Rights::parse("test", &text).unwrap_or_else(|e| panic!("{e}")).into()
}

/// Client n is user n: 1 has PE 1, 2 has PEs 1 and 2, 3 has nothing.
const GRANTS: &str = "[users.user1.grants]\nFEED = [1]\n[users.user2.grants]\nFEED = [1, 2]\n[users.user3]\n";

fn world_with(settings: Settings, grants: &str) -> World {
    let mut world = World::with_feed_and(Config { permissions: settings, ..Config::default() });
    world.p2ps.set_rights(world.now, rights(grants));
    world.pass(1);
    world
}

fn on() -> World {
    world_with(Settings { mode: Mode::On, ..Settings::default() }, GRANTS)
}

fn image(perm_data: Option<&[u8]>, list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let msg = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        state: State::OPEN_OK,
        container: DataType::FIELD_LIST,
        perm_data,
        body: &body,
        ..RefreshMsg::new(PRICE, 77)
    };
    encode(|w| msg.encode(w))
}

fn locked_update(perm_data: &[u8], list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let perm_data = Some(perm_data);
    let msg = UpdateMsg { container: DataType::FIELD_LIST, perm_data, body: &body, ..UpdateMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

fn locked_status(perm_data: &[u8]) -> Vec<u8> {
    encode(|w| StatusMsg { perm_data: Some(perm_data), ..StatusMsg::new(PRICE, 77) }.encode(w))
}

/// State codes and texts of the statuses among messages.
fn told(messages: &[Vec<u8>]) -> Vec<(u8, String)> {
    let state = |msg: &Vec<u8>| match Msg::decode(msg).unwrap() {
        Msg::Status(StatusMsg { state: Some(state), .. }) => {
            Some((state.code.0, String::from_utf8_lossy(state.text).into_owned()))
        }
        _ => None,
    };
    messages.iter().filter_map(state).collect()
}

/// Opens an item that clients have asked for.
fn give(world: &mut World, handle: u32, rwf: &[u8]) {
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, handle).image_with(handle, 0, rwf);
    });
}

fn request_login(world: &mut World, id: u32, name: &str, set: impl FnOnce(&mut login::Request)) {
    world.connect(id);
    let mut request = login::Request { name: name.to_owned(), ..login::Request::default() };
    set(&mut request);
    world.send_with(id, |w| request.encode(w));
}

const DENIED: &str = "Access Denied: User req to PE(2)";

#[test]
fn logins_are_refused_as_real_sites_refuse_them() {
    let grants = "[users.alice]\nmax_positions = 1\napplications = [300]\n[applications.300]\n";
    let mut world = world_with(Settings { mode: Mode::On, ..Settings::default() }, grants);
    let at = |position: &str, application: &str| {
        let (position, application) = (position.to_owned(), application.to_owned());
        move |request: &mut login::Request| {
            request.attributes.position = Some(position);
            request.attributes.application_id = Some(application);
        }
    };
    request_login(&mut world, 1, "alice", at("10.0.0.1/a", "300"));
    request_login(&mut world, 2, "nobody", at("10.0.0.2/a", "300"));
    request_login(&mut world, 3, "alice", at("10.0.0.2/a", "300"));
    request_login(&mut world, 4, "alice", at("10.0.0.1/a", "256"));
    request_login(&mut world, 5, "alice", at("10.0.0.1/a", "300"));
    world.p2ps.rights_lost(world.now);
    request_login(&mut world, 6, "nobody", at("10.0.0.1/a", "300"));
    let answers: Vec<Vec<String>> = (1..=6).map(|id| world.take(id)).collect();
    let accepted = ["login refresh 1 solicited complete OPEN/OK key alice"];
    assert_eq!((&answers[0][..], &answers[4][..]), (&accepted.map(str::to_owned)[..], &answers[0][..]));
    let told = |state: &str, code: StateCode| [format!("login status 1 {state}/SUSPECT/{code}")];
    assert_eq!(answers[1], told("CLOSED", StateCode(30)));
    assert_eq!(answers[2], told("CLOSED", StateCode(31)));
    assert_eq!(answers[3], told("CLOSED", StateCode(32)));
    assert_eq!(answers[5], told("CLOSED_RECOVER", StateCode(29)));
    let why: Vec<(u32, String)> = world.closed.drain(..).map(|(id, reason)| (id, reason.to_string())).collect();
    let refused = |id, text: &str| (id, format!("login refused: {text}"));
    assert_eq!(
        why,
        [
            refused(2, "User unknown to permissioning system"),
            refused(3, "Maximum of 1 simultaneous positions reached"),
            refused(4, "Application 256 is not permitted"),
            refused(6, "Permissioning system is not available"),
        ]
    );
}

#[test]
fn what_is_denied_is_refused_in_place_of_the_image_and_nobody_else_notices() {
    let mut world = on();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    world.request(2, &item(6, "IBM"));
    give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
    let denied = world.raw(1);
    assert_eq!(told(&denied), [(3, DENIED.to_owned())]);
    assert_eq!(crate::world::words(&denied[0]), "status 5 CLOSED/SUSPECT/NOT_ENTITLED key 1:IBM");
    assert_eq!(world.take(2), ["refresh 6 solicited complete OPEN/OK group 3 key 1:IBM 22=1"]);
    world.publish(0, |p| {
        p.update(4, &[(22, 2)]);
    });
    assert_eq!(world.take(2), ["update 6 22=2"]);
    // A late joiner, as a snapshot, in a batch and through a view: every way has the same end.
    world.request(1, &item(7, "IBM"));
    world.request(1, &RequestMsg { flags: RequestFlags::default(), ..item(8, "IBM") });
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image_with(4, 0, &image(Some(&lock(2)), &[(22, 2)])).update(4, &[(22, 3)]);
    });
    assert_eq!(told(&world.raw(1)), [(3, DENIED.to_owned()), (3, DENIED.to_owned())]);
    assert_eq!(world.take(2), ["update 6 22=3"]);
    // Without an image: the lock is known, and denies.
    world.request(1, &RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::NO_REFRESH, ..item(9, "IBM") });
    assert_eq!(told(&world.raw(1)), [(3, DENIED.to_owned())]);
    world.request(2, &RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::NO_REFRESH, ..item(9, "IBM") });
    world.publish(0, |p| {
        p.update(4, &[(22, 4)]);
    });
    assert_eq!(world.take(2), ["update 6 22=4", "update 9 22=4"]);
    // Service and user: nothing is asked upstream.
    request_login(&mut world, 3, "user3", |_| {});
    world.take(3);
    world.request(3, &item(5, "MSFT"));
    assert_eq!(told(&world.raw(3)), [(3, "Access Denied: User not permissioned for service FEED".to_owned())]);
    assert_eq!(world.asked(), [""; 0]);
    assert_eq!(world.p2ps.counters().items_denied, 5);
}

#[test]
fn an_item_that_only_the_denied_wanted_is_given_back() {
    let mut world = on();
    world.clients([1]);
    world.request(1, &item(5, "IBM"));
    give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
    assert_eq!(told(&world.raw(1)).len(), 1);
    assert_eq!(world.asked(), ["0: close 4"]);
    assert_eq!(world.p2ps.counters().items, 0);
    assert_eq!(world.p2ps.permission_counts().items, 0);
}

#[test]
fn by_name_is_decided_before_anything_is_asked() {
    let grants = "guard = \"subject\"\n[services.FEED.subservices]\nUS = \"exchange\"\n[services.FEED.subjects]\n\
                  \"*.N\" = \"US\"\n\"*\" = \"US\"\n[users.user1.grants]\nFEED = [\"US\"]\n[users.user2.grants]\nFEED = []\n";
    let mut world = world_with(Settings { mode: Mode::On, ..Settings::default() }, grants);
    world.clients([1, 2]);
    world.request(2, &item(5, "IBM.N"));
    assert_eq!(told(&world.raw(2)), [(3, "Access Denied: User not permissioned for US".to_owned())]);
    assert_eq!(world.asked(), [""; 0]);
    world.request(1, &item(5, "IBM.N"));
    // Locks mean nothing where names decide.
    give(&mut world, 4, &image(Some(&lock(9)), &[(22, 1)]));
    assert_eq!(world.take(1).len(), 1);
}

#[test]
fn a_new_lock_closes_those_who_lack_it_and_nobody_else() {
    let mut world = on();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    world.request(2, &item(6, "IBM"));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    assert_eq!((world.take(1).len(), world.take(2).len()), (1, 1));
    world.publish(0, |p| {
        p.status(4, 0, &locked_status(&lock(2))).update(4, &[(22, 2)]);
    });
    assert_eq!(told(&world.raw(1)), [(3, DENIED.to_owned())]);
    assert_eq!(world.take(2), ["status 6", "update 6 22=2"]);
    // A refresh to everyone with another lock, and the last watcher goes with it.
    world.publish(0, |p| {
        p.image_with(4, flags::UNSOLICITED, &image(Some(&lock(3)), &[(22, 3)])).update(4, &[(22, 4)]);
    });
    assert_eq!(told(&world.raw(2)), [(3, "Access Denied: User req to PE(3)".to_owned())]);
    assert_eq!(world.asked(), ["0: close 4"]);
}

#[test]
fn a_part_and_an_entry_may_have_a_lock() {
    use rwf::container::{MapAction, MapEncoder, MapHead};
    use rwf::primitive::Primitive;
    let mut world = on();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    world.request(2, &item(6, "IBM"));
    let map = |perm: Option<&[u8]>| {
        encode(|w| {
            let head = MapHead { per_entry_perm: true, ..MapHead::new(DataType::UINT, DataType::NO_DATA) };
            let mut map = MapEncoder::begin(w, head)?;
            map.entry_with(MapAction::ADD, &Primitive::UInt(1), perm, rwf::wire::LenForm::Shortest, |_| Ok(()))?;
            map.finish()
        })
    };
    let refresh = |body: &[u8]| {
        let msg = RefreshMsg {
            flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
            state: State::OPEN_OK,
            container: DataType::MAP,
            body,
            ..RefreshMsg::new(PRICE, 77)
        };
        encode(|w| msg.encode(w))
    };
    give(&mut world, 4, &refresh(&map(Some(&lock(2)))));
    assert_eq!(told(&world.raw(1)), [(3, DENIED.to_owned())]);
    assert_eq!(world.take(2).len(), 1);
    // Of an update, the entry's lock guards the message.
    let body = map(Some(&lock(3)));
    let update = encode(|w| UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(PRICE, 77) }.encode(w));
    let open = map(None);
    let plain = encode(|w| UpdateMsg { container: DataType::MAP, body: &open, ..UpdateMsg::new(PRICE, 77) }.encode(w));
    world.publish(0, |p| {
        p.writer.update_with(4, hub_stream::update_flags_of(&update), &update);
        p.writer.update_with(4, hub_stream::update_flags_of(&plain), &plain);
    });
    assert_eq!(world.take(2), ["update 6"]);
    assert_eq!(world.p2ps.counters().messages_denied, 1);
}

#[test]
fn a_lock_of_one_message_guards_that_message() {
    let mut world = on();
    world.clients([1, 2]);
    let view = |stream| item(stream, "IBM");
    world.request(1, &view(5));
    world.request(2, &view(6));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    world.take(1);
    world.take(2);
    let update = locked_update(&lock(2), &[(22, 9)]);
    let generic = encode(|w| GenericMsg { perm_data: Some(&lock(2)), ..GenericMsg::new(PRICE, 77) }.encode(w));
    world.publish(0, |p| {
        p.event(hub_stream::Event::Update { handle: 4, has_key: false, rwf: &update });
        p.event(hub_stream::Event::Generic { target: hub_stream::ALL, handle: 4, has_key: false, rwf: &generic });
        p.update(4, &[(22, 10)]);
    });
    assert_eq!(world.take(1), ["update 5 22=10"]);
    assert_eq!(world.take(2), ["update 6 22=9", "generic 6", "update 6 22=10"]);
}

#[test]
fn who_wants_no_permission_data_gets_none() {
    for mode in [Mode::Off, Mode::On] {
        let mut world = world_with(Settings { mode, ..Settings::default() }, GRANTS);
        request_login(&mut world, 1, "user2", |request| {
            request.attributes.provide_permission_expressions = Some(false);
        });
        request_login(&mut world, 2, "user2", |_| {});
        world.take(1);
        world.take(2);
        world.request(1, &item(5, "IBM"));
        world.request(2, &item(5, "IBM"));
        give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
        world.publish(0, |p| {
            let update = locked_update(&lock(1), &[(22, 9)]);
            p.event(hub_stream::Event::Update { handle: 4, has_key: false, rwf: &update });
            p.status(4, 0, &locked_status(&lock(1)));
        });
        let locks = |messages: Vec<Vec<u8>>| -> Vec<bool> {
            messages.iter().map(|msg| Msg::decode(msg).unwrap().perm_data().is_some()).collect()
        };
        assert_eq!(locks(world.raw(1)), [false; 3], "{mode:?}");
        assert_eq!(locks(world.raw(2)), [true; 3], "{mode:?}");
    }
}

#[test]
fn new_rights_close_and_show_what_they_say() {
    let mut world = on();
    world.clients([1, 2]);
    world.directory(1, 2);
    world.request(1, &item(5, "IBM"));
    world.request(2, &item(6, "IBM"));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    world.take(1);
    world.take(2);
    world.p2ps.set_rights(world.now, rights(&GRANTS.replace("FEED = [1]", "FEED = [7]")));
    world.pass(1);
    assert_eq!(told(&world.raw(1)), [(3, "Access Denied: User req to PE(1)".to_owned())]);
    world.publish(0, |p| {
        p.update(4, &[(22, 2)]);
    });
    assert_eq!(world.take(2), ["update 6 22=2"], "nobody else is disturbed");
    // The service is no more: it leaves the directory; and comes back with the right, which opens nothing by itself.
    world.p2ps.set_rights(world.now, rights(&GRANTS.replace("FEED = [1]\n", "\n")));
    world.pass(1);
    assert_eq!(world.take(1), ["directory update 2 key "]);
    world.p2ps.set_rights(world.now, rights(GRANTS));
    world.pass(1);
    assert_eq!(world.take(1), ["directory update 2 key "]);
    world.request(1, &item(5, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image_with(4, 0, &image(Some(&lock(1)), &[(22, 2)]));
    });
    assert_eq!(world.take(1).len(), 1);
    // The user is removed.
    world.p2ps.set_rights(world.now, rights("[users.user2.grants]\nFEED = [1]\n"));
    world.pass(1);
    let over = world.raw(1);
    assert_eq!(told(&over).last().unwrap(), &(3, "Force Logout from DACS.".to_owned()));
    assert_eq!(world.take(2), [""; 0]);
    assert!(!world.p2ps.is_logged_in(ClientId(1)) && world.p2ps.is_logged_in(ClientId(2)));
}

#[test]
fn who_is_forced_out_may_log_in_again() {
    let mut world = on();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    world.take(1);
    assert_eq!(world.p2ps.force_logout(world.now, "user1"), 1);
    world.pass(1);
    let over = world.raw(1);
    assert_eq!(crate::world::words(&over[0]), "login status 1 CLOSED/SUSPECT/NOT_ENTITLED");
    assert_eq!(told(&over), [(3, "Force Logout from DACS.".to_owned())]);
    assert_eq!(world.asked(), ["0: close 4"]);
    world.send_with(1, |w| login::Request { name: "user1".to_owned(), ..login::Request::default() }.encode(w));
    assert_eq!(world.take(1).len(), 1);
}

#[test]
fn a_post_needs_a_right_and_says_nothing_for_itself() {
    let grants = format!("{GRANTS}[users.user4]\ngrants = {{ FEED = [1] }}\npost = {{ FEED = [\"IBM\"] }}\n");
    let mut world = world_with(Settings { mode: Mode::On, ..Settings::default() }, &grants);
    request_login(&mut world, 4, "user4", |_| {});
    request_login(&mut world, 1, "user1", |_| {});
    world.take(4);
    world.take(1);
    let post = |id, name: &'static str, perm_data| PostMsg {
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_id: Some(id),
        key: Some(MsgKey::item(1, name.as_bytes())),
        perm_data,
        post_user_rights: Some(7),
        ..PostMsg::new(PRICE, 1)
    };
    world.send(1, post(1, "IBM", None));
    world.send(4, post(2, "MSFT", None));
    world.send(4, post(3, "IBM", Some(&[1])));
    let naks = [world.raw(1), world.raw(4)].concat();
    let texts: Vec<String> = naks
        .iter()
        .map(|msg| match Msg::decode(msg).unwrap() {
            Msg::Ack(ack) => format!("{} {}", ack.nak_code.unwrap().0, String::from_utf8_lossy(ack.text.unwrap())),
            other => panic!("{other:?}"),
        })
        .collect();
    let item = "1 Access Denied: User not permissioned to post to this item";
    assert_eq!(texts, [item, item, "1 Access Denied: User may not change permission data"]);
    assert_eq!(world.asked(), [""; 0]);
    world.send(4, post(5, "IBM", None));
    let Ok(Msg::Post(sent)) = Msg::decode(world.sent.last().unwrap()) else { panic!("a post") };
    assert_eq!(sent.post_user_rights, Some(0), "what it may do is said by the P2PS");
    assert_eq!(world.asked().len(), 1);
    assert_eq!(world.p2ps.counters().posts_denied, 3);
}

#[test]
fn the_right_to_post_is_asked_for_the_item_that_the_post_reaches() {
    let grants = format!("{GRANTS}[users.user4]\ngrants = {{ FEED = [1] }}\npost = {{ FEED = [\"IBM\"] }}\n");
    let mut world = world_with(Settings { mode: Mode::On, ..Settings::default() }, &grants);
    request_login(&mut world, 4, "user4", |_| {});
    world.take(4);
    world.request(4, &item(5, "MSFT"));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    world.raw(4);
    world.asked();
    std::iter::from_fn(|| world.p2ps.next_audit()).count();
    // On the stream of MSFT nothing makes it IBM; off it, the message in the post is what reaches the item.
    let msft = encode(|w| {
        let key = Some(MsgKey::item(1, b"MSFT"));
        rwf::msg::UpdateMsg { key, ..rwf::msg::UpdateMsg::new(PRICE, 0) }.encode(w)
    });
    let msft: &'static [u8] = msft.leak();
    let post = |stream, key| PostMsg {
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_id: Some(1),
        key,
        ..PostMsg::new(PRICE, stream)
    };
    world.send(4, post(5, Some(MsgKey::item(1, b"IBM"))));
    world.send(4, PostMsg { container: DataType::MSG, body: msft, ..post(1, Some(MsgKey::item(1, b"IBM"))) });
    world.send(
        4,
        PostMsg {
            container: DataType::MSG,
            body: msft,
            ..post(1, Some(MsgKey { name: None, ..MsgKey::item(1, b"") }))
        },
    );
    world.send(4, post(5, None));
    let naks = world
        .raw(4)
        .iter()
        .map(|msg| match Msg::decode(msg).unwrap() {
            Msg::Ack(ack) => ack.nak_code.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect::<Vec<_>>();
    use rwf::msg::NakCode;
    assert_eq!(
        naks,
        [NakCode::INVALID_CONTENT, NakCode::INVALID_CONTENT, NakCode::ACCESS_DENIED, NakCode::ACCESS_DENIED]
    );
    assert_eq!(world.asked(), [""; 0]);
    let audited: Vec<String> =
        std::iter::from_fn(|| world.p2ps.next_audit()).map(|event| format!("{event:?}")).collect();
    assert!(audited.iter().all(|line| line.contains("MSFT") && !line.contains("IBM")), "{audited:?}");
    assert_eq!(audited.len(), 2);
}

#[test]
fn who_waits_for_an_image_has_nothing_to_do_with_its_provider_yet() {
    let mut world = on();
    world.clients([1, 2]);
    world.request(2, &item(5, "IBM"));
    give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
    world.raw(2);
    world.request(1, &item(5, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4"]);
    let generic = GenericMsg::new(PRICE, 5);
    world.send_with(1, |w| generic.encode(w));
    assert_eq!((world.asked(), world.p2ps.counters().generics_dropped), (Vec::new(), 1));
    world.send_with(2, |w| generic.encode(w));
    assert_eq!(world.asked(), ["0: generic 4 generic 5"]);
    world.publish(0, |p| {
        p.image_with(4, flags::FIRST | flags::COMPLETE, &image(Some(&lock(2)), &[(22, 2)]));
    });
    assert_eq!(told(&world.raw(1)).len(), 1, "it may not see the item");
    world.send_with(1, |w| generic.encode(w));
    assert_eq!((world.asked(), world.p2ps.counters().generics_dropped), (Vec::new(), 2));
}

#[test]
fn a_full_audit_holds_up_what_is_new_and_loses_nothing() {
    let mut world = world_with(Settings { mode: Mode::On, audit_max: 2, ..Settings::default() }, GRANTS);
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    world.close(1, 5);
    world.connect(3);
    world.send_with(3, |w| login::Request { name: "user2".to_owned(), ..login::Request::default() }.encode(w));
    assert_eq!((world.asked(), world.take(1), world.take(3)), (Vec::new(), Vec::new(), Vec::new()));
    assert_eq!(world.p2ps.counters().messages_held_up, 3, "a close waits behind what it closes");
    assert_ne!(world.p2ps.timeout(), Some(0), "nothing to do until lines are taken");
    let kinds: Vec<EventKind> = std::iter::from_fn(|| world.p2ps.next_audit()).map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Login, EventKind::Login]);
    assert_eq!(world.p2ps.timeout(), Some(0));
    world.pass(1);
    assert_eq!(world.asked().len(), 0, "opened and closed in one turn");
    assert_eq!(world.take(3).len(), 1);
}

#[test]
fn who_asks_on_and_on_while_nobody_takes_the_audit_is_cut_off() {
    let mut world = world_with(Settings { mode: Mode::On, audit_max: 2, ..Settings::default() }, GRANTS);
    world.clients([1, 2]);
    let mut asked = 0;
    while world.closed.is_empty() {
        asked += 1;
        assert!(asked < 10_000, "a megabyte is enough");
        world.request(1, &item(100 + asked, &format!("{asked:0>200}")));
    }
    let (client, reason) = world.closed.pop().unwrap();
    assert!(client == 1 && matches!(reason, CloseReason::HeldUp { waiting } if waiting > 900_000), "{reason:?}");
    assert_eq!(world.asked(), [""; 0]);
    world.disconnect(1);
}

#[test]
fn a_batch_goes_on_when_the_audit_has_room() {
    let mut world = world_with(Settings { mode: Mode::On, audit_max: 3, ..Settings::default() }, GRANTS);
    world.clients([3]);
    let names = rwf::rdm::request::Payload { items: Some(vec![b"A"; 6]), ..rwf::rdm::request::Payload::default() };
    let body = encode(|w| names.encode(w));
    world.request(
        3,
        &RequestMsg {
            flags: RequestFlags::STREAMING | RequestFlags::HAS_BATCH,
            key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..RequestMsg::new(PRICE, 10)
        },
    );
    world.request(3, &item(50, "B"));
    assert_eq!(world.raw(3).len(), 1 + 2, "the batch, and as many denials as can be logged beside the login");
    world.pass(1);
    assert_eq!(world.raw(3).len(), 0);
    assert_ne!(world.p2ps.timeout(), Some(0), "nothing to do until lines are taken");
    let mut denied = 0;
    while denied < 7 {
        denied += std::iter::from_fn(|| world.p2ps.next_audit()).filter(|event| event.kind != EventKind::Login).count();
        assert!(denied == 7 || world.p2ps.timeout() == Some(0));
        world.pass(1);
    }
    assert_eq!(world.raw(3).len(), 5, "each was denied once, in order");
}

#[test]
fn in_test_mode_all_is_logged_and_nothing_denied() {
    let mut world = world_with(Settings { mode: Mode::Test, ..Settings::default() }, GRANTS);
    request_login(&mut world, 9, "nobody", |_| {});
    world.take(9);
    world.request(9, &item(5, "IBM"));
    give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
    assert_eq!(world.take(9), ["refresh 5 solicited complete OPEN/OK group 3 key 1:IBM 22=1"]);
    let denials = std::iter::from_fn(|| world.p2ps.next_audit());
    let denials = denials.filter(|event| matches!(event.verdict, permissions::Verdict::WouldDeny(_))).count();
    assert_eq!(denials, 3, "the login, the service, the image");
}

#[test]
fn an_administrator_is_told_why() {
    let mut world = on();
    world.clients([2]);
    world.request(2, &item(6, "IBM"));
    give(&mut world, 4, &image(Some(&lock(2)), &[(22, 1)]));
    world.take(2);
    let why = world.p2ps.explain(("user1", "10.0.0.1/net", 256), "FEED", "IBM").unwrap();
    assert!(!why.is_granted && why.to_string().contains("PE 2: not granted"), "{why}");
    assert!(world.p2ps.explain(("user2", "10.0.0.1/net", 256), "FEED", "IBM").unwrap().is_granted);
    let on: Vec<String> = world.p2ps.permissions().unwrap().on_line().map(|on| on.actor.user.to_string()).collect();
    assert_eq!(on, ["user2"]);
}

#[test]
fn a_source_that_is_lost_and_back_brings_its_lock_again() {
    let mut world = on();
    world.clients([1]);
    world.request(1, &item(5, "IBM"));
    give(&mut world, 4, &image(Some(&lock(1)), &[(22, 1)]));
    world.take(1);
    let closed = status(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE);
    world.publish(0, |p| {
        p.status(4, flags::CLOSED, &closed);
    });
    world.take(1);
    world.asked();
    world.pass(60 * 1_000_000_000);
    give(&mut world, 9, &image(Some(&lock(2)), &[(22, 1)]));
    assert_eq!(told(&world.raw(1)), [(3, DENIED.to_owned())], "recovered, and denied by the lock of now");
    assert_eq!(world.asked(), ["0: close 9"]);
}
