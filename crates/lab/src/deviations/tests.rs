use super::*;
use crate::present::deviations::{html, markdown};
use crate::scenario::{BUILT_IN, read};

fn scenario(name: &str) -> Scenario {
    read(BUILT_IN).unwrap().into_iter().find(|s| s.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn same(scenario: &Scenario, place: Where<'_>, aspect: &str) -> Same {
    let all = of(scenario, place);
    all.iter().find(|d| d.aspect == aspect).unwrap_or_else(|| panic!("{}: {aspect}", scenario.name)).same
}

/// The scenarios that repeat a report.
fn of_reports() -> Vec<Scenario> {
    let is_repetition = |s: &Scenario| s.on_request && (!s.originals.is_empty() || s.group == "cisco-2009");
    read(BUILT_IN).unwrap().into_iter().filter(is_repetition).collect()
}

#[test]
fn every_scenario_of_a_report_says_where_it_differs() {
    let common = [
        "topology",
        "processes",
        "processors",
        "binding",
        "priorities",
        "MTU",
        "offloads",
        "sampling",
        "duration of a run",
        "clock",
    ];
    let of_rmds = ["buffers", "output", "update", "watchlist", "pace"];
    let of_lbm = ["receive buffer", "batching", "ignore interval", "datagrams", "message", "stack", "runs"];
    let repetitions = of_reports();
    for scenario in read(BUILT_IN).unwrap() {
        let is_repetition = repetitions.iter().any(|s| s.name == scenario.name);
        let all = of(&scenario, Where::Namespaces);
        assert_eq!(!all.is_empty(), is_repetition, "{}", scenario.name);
        let own: &[&str] = if scenario.kind == Kind::Lbm { &of_lbm } else { &of_rmds };
        for aspect in common.iter().chain(own).filter(|_| is_repetition) {
            assert!(all.iter().any(|d| d.aspect == *aspect), "{}: {aspect}", scenario.name);
        }
        assert!(all.is_empty() || html(&all).contains("<td>no</td>") && markdown(&all).contains("| no |"));
    }
}

/// What would make a scenario easier than its original is as there, or stands here with its reason.
#[test]
fn no_scenario_is_easier_than_its_original() {
    // Multiplex and multipath are described in the report, and the published figures beside them are those without. LBM's batches wait for a
    // timer where nothing here does, which the table says.
    let excused = |scenario: &Scenario, aspect: &str| match aspect {
        "processes" => ["multiplex", "multipath", "stacked"].iter().any(|word| scenario.name.contains(word)),
        "priorities" => scenario.kind == Kind::Lbm,
        "batching" => scenario.name.contains("throughput"),
        _ => false,
    };
    for scenario in of_reports() {
        for aspect in [
            "processes",
            "priorities",
            "MTU",
            "output",
            "update",
            "watchlist",
            "batching",
            "ignore interval",
            "receive buffer",
            "datagrams",
        ] {
            let differs =
                of(&scenario, Where::Namespaces).into_iter().find(|d| d.aspect == aspect && d.same == Same::No);
            let differs = differs.filter(|_| !excused(&scenario, aspect));
            assert!(differs.is_none(), "{}: {differs:?}", scenario.name);
        }
        if scenario.kind == Kind::Flow {
            assert!(scenario.nodes > 1 && scenario.rrcpd && scenario.source_rrcpd, "{}", scenario.name);
            assert!(scenario.data_size == 74 && scenario.hub == "lbt-rm", "{}", scenario.name);
        } else {
            let grid = scenario.lbm.as_ref().unwrap();
            assert!(grid.networks == "veth" && grid.offload == "off", "{}", scenario.name);
        }
    }
}

#[test]
fn what_is_changed_in_a_call_shows() {
    let mut scenario = scenario("intel-5050-mtu9000");
    let is = |scenario: &Scenario, aspect| same(scenario, Where::Namespaces, aspect);
    assert_eq!(["processes", "MTU", "output", "priorities"].map(|aspect| is(&scenario, aspect)), [Same::Yes; 4]);
    let changes = ["p2ps=2", "data_size=130", "server_toml=''", "priority=server:5"];
    scenario.set(&changes.map(str::to_owned)).unwrap();
    for aspect in ["processes", "update", "output", "priorities"] {
        assert_eq!(is(&scenario, aspect), Same::No, "{aspect}");
    }
    let mut novell = super::tests::scenario("novell-5050");
    assert_eq!(is(&novell, "priorities"), Same::Yes);
    novell.priority = novell.priority.replace("client:49", "client:55");
    assert_eq!(is(&novell, "priorities"), Same::No);
}

#[test]
fn what_a_report_does_not_say_is_not_the_same() {
    for name in ["redhat-2node", "novell-latency", "ibm-latency", "ibm-nofanout"] {
        assert_eq!(same(&scenario(name), Where::Namespaces, "MTU"), Same::NotSaid, "{name}");
    }
    assert_eq!(same(&scenario("novell-5050"), Where::Namespaces, "duration of a run"), Same::NotSaid);
    assert_eq!(same(&scenario("ibm-latency"), Where::Namespaces, "update"), Same::Yes);
    assert_eq!(same(&scenario("redhat-3node"), Where::Namespaces, "update"), Same::NotSaid);
    let clock = |name: &str| same(&scenario(name), Where::Namespaces, "clock");
    assert_eq!((clock("ibm-latency"), clock("ibm-nofanout")), (Same::Yes, Same::NotSaid));
}

#[test]
fn batches_that_wait_for_nothing_are_not_those_of_the_report() {
    let batching = |name: &str| {
        let all = of(&scenario(name), Where::Namespaces);
        all.into_iter().find(|d| d.aspect == "batching").unwrap()
    };
    assert_eq!(batching("cisco-lbm-1to1-latency").same, Same::Yes);
    let row = batching("cisco-lbm-1to1-throughput");
    assert!(row.same == Same::No && row.ours.contains("waits for a timer too"), "{row:?}");
}

#[test]
fn loopback_is_called_loopback() {
    for scenario in of_reports() {
        let all = of(&scenario, Where::Loopback);
        for aspect in ["topology", "MTU"] {
            let row = all.iter().find(|d| d.aspect == aspect).unwrap();
            assert!(row.ours.contains("loopback") && row.same != Same::Yes, "{}: {row:?}", scenario.name);
        }
        let conditions = crate::conditions::of(&scenario, Some(Where::Loopback));
        assert!(!conditions.contains("namespace") && !conditions.contains("MTU"), "{conditions}");
        // Runs there are not taken over by a call elsewhere.
        assert_ne!(conditions, crate::conditions::of(&scenario, Some(Where::Namespaces)), "{}", scenario.name);
        assert!(all.iter().all(|d| !d.ours.contains("namespace") && !d.ours.contains("veth")), "{}", scenario.name);
    }
}

#[test]
fn a_run_as_long_as_there_is_the_same() {
    let mut scenario = scenario("redhat-2node");
    let is = |scenario: &Scenario, aspect| same(scenario, Where::Namespaces, aspect);
    assert_eq!([is(&scenario, "duration of a run"), is(&scenario, "discarded")], [Same::No; 2]);
    scenario.warmup = 34.0;
    assert_eq!(is(&scenario, "discarded"), Same::No, "the report discards 35 to 50 s");
    scenario.lengthen();
    assert_eq!([is(&scenario, "duration of a run"), is(&scenario, "discarded")], [Same::Yes; 2]);
    let text = markdown(&of(&scenario, Where::Namespaces));
    assert!(!text.contains("--full") && text.contains("not said there: priorities, MTU"), "{text}");
}
