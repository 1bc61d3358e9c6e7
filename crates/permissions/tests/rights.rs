//! The rights file: what it means, and what it says when it is wrong.

use permissions::lock::Lock;
use permissions::rights::{Guard, Limits, Rights};

const FILE: &str = r#"
version = "2026-11-22"

[policy]
unlisted_services = "deny"

[services.IDN]
id = 257
accept_lock_service_ids = [258]
translate_lock_service_ids = { 300 = 400 }
exchange_logic = "or"
product_logic = "and"
[services.IDN.subservices]
NYSE = "exchange"
LONDON = "exchange"
"Money 2000" = "product"
Gold = "product"
Floor = "specialist"
[services.IDN.pe]
62 = "NYSE"
"100-199" = "LONDON"
456 = "NYSE & 'Money 2000' & (NYSE | LONDON)"
457 = ["NYSE", "LONDON", "Money 2000", "Gold"]
458 = ["Floor"]

[services.OWN]
id = 400
guard = "subject"
subservices = { Rates = "product" }
subjects = { "EUR*" = "Rates" }

[services.FREE]
guard = "off"

[groups.equities]
grants = { IDN = ["NYSE"] }
[groups.money]
grants = { IDN = ["Money 2000", "Gold"], OWN = ["Rates"] }

[users.alice]
groups = ["equities"]
max_positions = 2
[users.bob]
groups = ["equities", "money"]
grants = { IDN = [9000, "5000-5999"] }
item_limit = 10
[users.root.grants]
IDN = "*"
OWN = "*"
"#;

fn rights() -> Rights {
    Rights::parse("rights.toml", FILE).unwrap_or_else(|e| panic!("{e}"))
}

/// Whether a user may see an item of IDN with this lock.
fn may(user: &str, lock: &str) -> bool {
    let lock = lock.parse::<Lock>().unwrap().encode().unwrap();
    rights().explain(user, "1.2.3.4/net", 256, "IDN", "X", &lock).is_granted
}

#[test]
fn pes_stand_for_expressions_over_subservices() {
    assert!(may("alice", "257: 62") && !may("alice", "257: 100") && !may("alice", "257: 456"));
    assert!(may("bob", "257: 456") && may("bob", "257: 457") && !may("alice", "257: 457"));
    assert!(!may("bob", "257: 458") && may("root", "257: 458"));
    assert!(may("bob", "257: 5500") && may("bob", "257: 9000") && !may("bob", "257: 6000"));
    assert!(may("alice", "257: (62 | 9000)") && !may("alice", "257: 62 & 9000"));
    assert!(may("alice", "257: (none)") && !may("nobody", "257: (none)"));
}

#[test]
fn service_ids_of_locks_are_accepted_translated_or_unknown() {
    assert!(may("alice", "258: 62"), "accepted as the item's own service");
    assert!(may("bob", "300: (none)"), "translated to OWN, which bob has");
    assert!(!may("alice", "300: (none)"), "alice has no right to OWN");
    assert!(!may("root", "999: 1"), "nobody knows service 999");
}

#[test]
fn services_by_subject_off_and_unlisted() {
    let rights = rights();
    let may = |user, service, item| rights.explain(user, "", 256, service, item, &[]).is_granted;
    assert!(may("bob", "OWN", "EUR=") && !may("bob", "OWN", "GBP=") && may("root", "OWN", "GBP="));
    assert!(may("nobody", "FREE", "X") && !may("root", "OTHER", "X"));
    assert_eq!(rights.guard("OWN"), Some(Guard::Subject));
}

#[test]
fn questions_are_answered() {
    let rights = rights();
    assert_eq!(rights.who_has_pe("IDN", 62), ["alice", "bob", "root"]);
    assert_eq!(rights.who_has_pe("IDN", 456), ["bob", "root"]);
    assert_eq!(rights.who_has_subservice("IDN", "Gold").unwrap(), ["bob", "root"]);
    assert_eq!(rights.who_has_subservice("IDN", "Silver"), None);
    let lock = "257: 62 & 456".parse::<Lock>().unwrap().encode().unwrap();
    assert_eq!(
        rights.explain("alice", "", 256, "IDN", "X", &lock).to_string(),
        "yes  User: service IDN: has the service\nyes  User: IDN: PE 62: PE 62 (NYSE)\n\
         NO   User: IDN: PE 456: not granted\n     User has none of PE [456] of service IDN\ndenied"
    );
    assert_eq!(rights.limits("alice"), Some(Limits { positions: Some(2), ..Limits::default() }));
    assert_eq!(rights.groups_of("bob").collect::<Vec<_>>(), ["equities", "money"]);
}

#[test]
fn a_user_comes_alone() {
    let rights =
        rights().with_user("https://rights/carol", "carol", "groups = [\"money\"]\ngrants = { IDN = [1] }").unwrap();
    assert_eq!(rights.who_has_pe("IDN", 1), ["carol", "root"]);
    assert_eq!(rights.without_user("carol").who_has_pe("IDN", 1), ["root"]);
    let error = rights.with_user("https://rights/carol", "carol", "group = []").unwrap_err();
    assert_eq!(error.to_string(), "https://rights/carol:1: there is no key group in the user; the nearest is groups");
}

#[test]
fn every_fault_is_told_with_its_line() {
    let text = r#"[services.IDN]
idd = 257
[services.IDN.subservices]
NYSE = "exchang"
Gold = "product"
[services.IDN.pe]
62 = "Golf"
"9-5" = "Gold"
"1-10" = "Gold"
"10" = "Gold"
[services.B]
id = "x"
[users.alice]
groups = ["equities"]
grants = { IND = [1], IDN = ["Gald"] }
max_positions = -1
[user.bob]
[applications.x]
"#;
    let error = Rights::parse("rights.toml", text).unwrap_err().to_string();
    let expected = "\
rights.toml:1: [services.IDN] has no id: the number of the service in locks
rights.toml:2: there is no key idd in [services.IDN]; the nearest is id
rights.toml:4: the kind of a subservice is one of product, exchange, specialist, not \"exchang\"
rights.toml:7: IDN has no subservice \"Golf\"; the nearest is Gold
rights.toml:8: \"9-5\" is neither a PE code nor a range such as \"100-199\"
rights.toml:10: PE 10 is in two entries of the map
rights.toml:12: id is a whole number in range
rights.toml:14: there is no group equities
rights.toml:15: there is no service IND; the nearest is IDN
rights.toml:15: IDN has no subservice \"Gald\", and that is no PE code; the nearest is Gold
rights.toml:16: max_positions is a whole number in range
rights.toml:17: there is no key user in a rights file; the nearest is users
rights.toml:18: [applications.x]: an application is a number, such as [applications.256]";
    assert_eq!(error.lines().collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>());
    assert_eq!(Rights::parse("r", "a = [").unwrap_err().faults[0].line, 1);
}
