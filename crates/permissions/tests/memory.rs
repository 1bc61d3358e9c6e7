//! Deciding about a lock that is known allocates nothing.

use permissions::rights::Rights;
use permissions::{LoggedIn, LoginRequest, Mode, Permissions, Settings};

#[test]
fn a_known_decision_allocates_nothing() {
    let mut permissions = Permissions::new(Settings { mode: Mode::On, ..Settings::default() });
    let rights = "[services.S]\nid = 1\n[users.a.grants]\nS = [62]";
    permissions.set_rights(Rights::parse("r", rights).unwrap().into());
    let request = LoginRequest { connection: 0, user: "a", position: "p", application: None, wants_locks: true };
    let LoggedIn::Yes(login) = permissions.login(0, &request) else { panic!("a known user") };
    let item = permissions.item("S", "X").unwrap();
    let profile = permissions.profile(login).unwrap();
    let bytes = [3, 0, 1, 0x62, 0xC0];
    let mut decide = || permissions.message_lock(item, &bytes).is_some_and(|lock| permissions.permits(profile, lock));
    assert!(decide());
    let info = allocation_counter::measure(|| {
        for _ in 0..1000 {
            assert!(decide());
        }
    });
    assert_eq!(info.count_total, 0);
}
