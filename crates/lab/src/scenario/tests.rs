//! Tests of scenarios: what is built in is sound, and what a command line sets is said.

use super::*;

#[test]
fn completions_know_every_scenario_and_group() {
    use clap::builder::TypedValueParser as _;
    let offered: Vec<String> = Names.possible_values().unwrap().map(|v| v.get_name().to_owned()).collect();
    for scenario in read(BUILT_IN).unwrap() {
        assert!(offered.contains(&scenario.name), "{}", scenario.name);
        assert!(scenario.group.is_empty() || offered.contains(&scenario.group), "{}", scenario.group);
    }
}

#[test]
fn an_unknown_scenario_gets_the_nearest_name() {
    let why = select(read(BUILT_IN).unwrap(), &["fan-out".to_owned()]).unwrap_err().to_string();
    assert!(why.contains("the nearest is fanout"), "{why}");
    let why = select(read(BUILT_IN).unwrap(), &["zzzzzzzzzzzzzz".to_owned()]).unwrap_err().to_string();
    assert!(!why.contains("nearest"), "{why}");
}

#[test]
fn the_built_in_scenarios_are_sound() {
    let all = read(BUILT_IN).unwrap();
    let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names[..5], ["codec", "chain", "chain-serve", "chain-permissions", "fanout"]);
    let servers = |name: &str| all.iter().find(|s| s.name == name).map(Scenario::servers);
    assert_eq!([servers("chain"), servers("latency"), servers("hop")], [Some(2), Some(1), Some(0)]);
    assert_eq!([servers("cascade-2"), servers("cascade-3")], [Some(4), Some(6)]);
    let one = all.iter().find(|s| s.name == "cascade-3").unwrap().variant().unwrap().unwrap();
    assert_eq!((one.levels, one.servers()), (1, 2));
    let is_judged = |s: &Scenario| !s.goals.is_empty() || !s.originals.is_empty() || s.kind == Kind::Stages;
    assert!(all.iter().all(|s| s.on_request || is_judged(s)));
    let lbm = select(all.clone(), &["cisco-2009".to_owned()]).unwrap();
    assert!(lbm.len() == 6 && lbm.iter().all(|s| s.name.starts_with("cisco-lbm-") && s.original_seconds > 29.0));
    assert!(select(all.clone(), &[]).unwrap().iter().all(|s| !s.on_request));
    let report = select(all.clone(), &["redhat-2008".to_owned()]).unwrap();
    assert!(report.len() >= 4 && report.iter().all(|s| s.group == "redhat-2008" && !s.originals.is_empty()));
    let fanout = select(all, &["fanout".to_owned()]).unwrap().remove(0);
    assert!((fanout.fan() - 50.5).abs() < 1e-9);
}

#[test]
fn the_reports_rates_are_the_defaults() {
    let all = read(BUILT_IN).unwrap();
    let find = |name: &str| all.iter().find(|s| s.name == name).unwrap();
    for name in
        ["redhat-2node", "redhat-2node-bound", "redhat-3node", "redhat-3node-bound", "novell-latency", "ibm-latency"]
    {
        let rates: Vec<f64> =
            find(name).points().unwrap().into_iter().map(|p| if let Point::Rate(r) = p { r } else { 0.0 }).collect();
        let ends = match name {
            "novell-latency" => (1_000.0, 800_000.0),
            "ibm-latency" => (50_000.0, 1_650_000.0),
            _ => (1_000.0, 400_000.0),
        };
        assert_eq!((rates[0], rates[rates.len() - 1]), ends, "{name}");
        let (published, _) = crate::originals::read(&crate::originals::Tables::built_in(), find(name));
        for point in published.iter().flat_map(|series| &series.points) {
            assert!(rates.contains(&point.rate), "{name}: {} a second is published and not measured", point.rate);
        }
    }
    // A rate sent unpaced is no sustained maximum: the two never stand side by side.
    let is_throughput = |s: &&Scenario| s.on_request && s.originals.iter().any(|o| !o.system.is_empty());
    assert!(all.iter().filter(is_throughput).all(|s| !s.points().unwrap().contains(&Point::Max)));
    // Conditions say what is true of a figure.
    assert!(
        !crate::conditions::of(find("codec"), None).contains("loopback")
            && !crate::conditions::of(find("stages"), None).contains("stamped")
    );
    // The report on LBM sought its highest rate under a bound of the longest latency.
    for name in ["cisco-lbm-1to1-highest", "cisco-lbm-3to3-highest"] {
        assert!(
            crate::conditions::of(find(name), None).contains("max latency at most 1000 us"),
            "{}",
            crate::conditions::of(find(name), None)
        );
    }
}

fn flow_estimate(scenario: &Scenario) -> f64 {
    crate::flow::estimate(scenario, 1)
}

#[test]
fn rates_are_words_and_numbers() {
    let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = 'max search 1000 50k 1.5M'\npeer_rates = 'max'";
    let scenario = read(text).unwrap().remove(0);
    let points = scenario.points().unwrap();
    assert_eq!(points[..3], [Point::Max, Point::Search, Point::Rate(1_000.0)]);
    let shown: Vec<String> = points.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["max", "search", "1k", "50k", "1.5M"]);
    assert_eq!(scenario.peers_at(Point::Max).unwrap(), [Side::Eta]);
    assert!(scenario.peers_at(Point::Search).unwrap().is_empty());
    let mut alone = scenario.clone();
    alone.keep_peers(&[Side::Nats]);
    assert!(alone.peers_at(Point::Max).unwrap().is_empty());
    assert!(flow_estimate(&alone) < flow_estimate(&scenario), "what does not run takes no time");
}

#[test]
fn a_quick_run_is_short_and_a_full_one_as_long_as_the_original() {
    let mut all = read(BUILT_IN).unwrap();
    for scenario in &mut all {
        scenario.shorten();
    }
    let find = |name: &str| all.iter().find(|s| s.name == name).unwrap();
    assert_eq!((find("redhat-2node").rates.as_str(), find("redhat-2node").items), ("10k 100k", 10_000));
    assert_eq!(find("lbm-latency").lbm.as_ref().map(|g| (g.payloads.as_str(), g.rates.as_str())), Some(("64", "25k")));
    let mut full = find("redhat-2node").clone();
    full.lengthen();
    // The report of Red Hat says how much of a run did not count, that of IBM does not.
    assert_eq!((full.seconds as u32, full.warmup as u32), (600, 50));
    let mut full = find("ibm-latency").clone();
    full.lengthen();
    assert_eq!((full.seconds as u32, full.warmup as u32), (300, 0));
}

#[test]
fn what_is_set_on_the_command_line_wins() {
    let text = "[a]\ntitle = 'A'\nkind = 'memory'\nitems = 5";
    let mut scenario = read(text).unwrap().remove(0);
    scenario.set(&["items=7", "idle=block", "server = false"].map(str::to_owned)).unwrap();
    assert_eq!((scenario.items, scenario.idle.as_str(), scenario.server), (7, "block", false));
    assert_eq!((scenario.name.as_str(), scenario.kind), ("a", Kind::Memory));
    assert!(scenario.set(&["itms=7".to_owned()]).unwrap_err().to_string().contains("itms"));
    assert!(scenario.set(&["items".to_owned()]).unwrap_err().to_string().contains("KEY=VALUE"));
    // Over --quick as well; and in the grid of a scenario of LBM.
    let all = read(BUILT_IN).unwrap();
    let find = |name: &str| all.iter().find(|s| s.name == name).unwrap().clone();
    let mut quick = find("redhat-2node");
    quick.shorten();
    quick.set(&["rates=7k".to_owned()]).unwrap();
    assert_eq!(quick.rates, "7k");
    quick.set(&["rates=7000".to_owned()]).unwrap();
    assert_eq!(quick.rates, "7000");
    let mut lbm = find("cisco-lbm-1to1-latency");
    lbm.shorten();
    lbm.set(&["rates=7k 8k".to_owned(), "seconds=1".to_owned()]).unwrap();
    assert_eq!((lbm.lbm.as_ref().unwrap().rates.as_str(), lbm.seconds), ("7k 8k", 1.0));
}

#[test]
fn texts_have_the_numbers_of_the_call() {
    let text = "[a]\ntitle = '{items} items'\nkind = 'memory'\nitems = 100000\ndata_size = 74";
    let mut scenario = read(text).unwrap().remove(0);
    assert_eq!(scenario.text(&scenario.title), "100,000 items");
    scenario.items = 900;
    assert_eq!(scenario.text(&scenario.title), "900 items");
    let message = scenario.message_size();
    assert!(message > 74 && scenario.update_size() == format!("74 bytes of data, {message} with the header"));
}

#[test]
fn a_variant_differs_in_what_it_says() {
    let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = '1k'\nshards = 2\nmounts = 4\nvariant = 'shards=1; idle=block'\n\
                originals = [{ table = '1', label = 'l' }]";
    let scenario = read(text).unwrap().remove(0);
    let variant = scenario.variant().unwrap().unwrap();
    assert_eq!((variant.shards, variant.idle.as_str(), variant.mounts), (1, "block", 4));
    assert!(variant.name == "a" && variant.originals == scenario.originals && variant.variant.is_empty());
    assert!(Scenario { variant: String::new(), ..scenario }.variant().unwrap().is_none());
    assert!(read(&text.replace("shards=1", "shard=1")).unwrap_err().to_string().contains("scenario a: variant: "));
}

#[test]
fn faults_name_the_scenario() {
    for (line, part) in [
        ("rats = 'max'", "rats"),
        ("rates = 'fast'", "fast"),
        ("goals = ['max rate > 3']", "max rate > 3"),
        ("goals = ['max rate/tibco >= 3']", "tibco"),
        ("peers = 'floor'", "no peer"),
        ("bind = 'server'", "server:1"),
        ("nodes = 4", "nodes"),
        ("mounts = 0", "mounts"),
        ("rates = ''", "rates"),
    ] {
        let text = format!("[a]\ntitle = 'A'\nkind = 'flow'\n{line}");
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("scenario a") && error.contains(part), "{error}");
    }
    assert!(read("x = 1").is_err() && read("[a]").is_err());
    assert!(select(Vec::new(), &["b".to_owned()]).is_err());
}

#[test]
fn a_goal_is_a_row_a_metric_and_a_bound() {
    let goal: Goal = "decode_74 ns/eta <= 0.333".parse().unwrap();
    assert_eq!((goal.row.as_str(), goal.metric.as_str(), goal.over), ("decode_74", "ns", Some(Side::Eta)));
    assert!(!goal.at_least && (goal.bound - 0.333).abs() < 1e-12);
}
