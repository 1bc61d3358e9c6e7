use super::lookup::Place;
use super::*;
use crate::{Config, Weight};

fn place(host: &str, instance: &str) -> Place {
    Place { host: host.into(), instance: instance.into() }
}

fn config(text: &str) -> Config {
    match read("r.cnf", text, &place("box", "1")) {
        Ok(r) => r.loaded.config,
        Err(e) => panic!("{e}"),
    }
}

fn faults(text: &str) -> Vec<String> {
    read("r.cnf", text, &place("box", "1")).map(|_| ()).expect_err("must be refused").faults
}

#[test]
fn a_line_that_goes_on_behind_the_end_is_one_fault() {
    for text in [r"\", r"\\\\", "\n\\", r"*a : 1\\\"] {
        let (_, faults) = super::syntax::parse(text);
        assert_eq!(faults.len(), 1, "{text:?}: {faults:?}");
        assert!(faults[0].what.contains("the file ends"), "{faults:?}");
    }
}

#[test]
fn separators_comments_and_continued_lines_are_read() {
    let c = config(
        "! comment\n# comment : x\n\n*P2PS*maxMounts : 7\n*p2ps*ITEMLIMIT = 9\n*src_dist*a.route*hostList : h1:1, \\\n   h2\n",
    );
    assert_eq!((c.p2ps.max_mounts, c.p2ps.item_limit), (7, 9));
    assert_eq!(c.routes[0].host_list, ["h1:1", "h2"]);
}

#[test]
fn units_are_converted() {
    let c = config("*adh*r.route*hostList : h\n*adh*r.route*recoveryInterval : 10\n");
    assert_eq!(c.routes[0].recovery_interval_ms, Some(10_000));
}

#[test]
fn ports_may_have_names() {
    let c =
        config("*P2PS*rsslPort : rmds_rssl_sink\n*adh*r.route*hostList : h\n*adh*r.route*port : rmds_rssl_source\n");
    assert_eq!((c.p2ps.rssl_port, c.routes[0].port), (14002, 14003));
    let services = "# network\nfeed\t14100/udp\nfeed  14101/tcp  feed_alias # ours\n";
    assert_eq!(apply::port_of_service("feed", services), Some(14101));
    assert_eq!(apply::port_of_service("feed_alias", services), Some(14101));
    assert_eq!(apply::port_of_service("feeds", services), None);
}

#[test]
fn host_and_instance_choose_their_lines() {
    let text = "*P2PS*rsslPort : 1\nbox*P2PS*rsslPort : 2\nbox.2*P2PS*rsslPort : 3\nother*P2PS*rsslPort : 4\n";
    let port = |host, instance| read("r.cnf", text, &place(host, instance)).map(|r| r.loaded.config.p2ps.rssl_port);
    assert_eq!(port("box", "1").unwrap(), 2);
    assert_eq!(port("BOX", "2").unwrap(), 3);
    assert_eq!(port("third", "1").unwrap(), 1);
}

#[test]
fn the_port_is_a_level_of_its_parameters() {
    let text =
        "*P2PS*rsslPort : 14002\n*P2PS*14002*pingTimeout : 31\n*P2PS.pingTimeout : 32\n*P2PS*8101*pingTimeout : 33\n";
    let reading = read("r.cnf", text, &place("box", "1")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reading.loaded.config.p2ps.ping_timeout_s, 31);
    assert_eq!(reading.loaded.notes.len(), 1);
    assert_eq!(reading.loaded.notes[0].line, 4);
}

#[test]
fn routes_come_from_the_list_or_from_their_lines() {
    let c =
        config("*adh*a.route*hostList : h1\n*adh*b.route*hostList : h2\n*adh*route*port : 9\n*adh*b.route*port : 8\n");
    let routes: Vec<_> = c.routes.iter().map(|r| (r.host_list[0].as_str(), r.port)).collect();
    assert_eq!(routes, [("h1", 9), ("h2", 8)]);
    let c = config("*adh*a.route*hostList : h1\n*adh*b.route*hostList : h2\n*adh*routeList : b\n");
    assert_eq!(c.routes.len(), 1);
    assert_eq!(c.routes[0].host_list, ["h2"]);
    let c = config("*src_dist*route*hostList : h1\n");
    assert_eq!(c.routes.len(), 1);
    assert_eq!(faults("*adh*routeList : x\n"), ["r.cnf:1: route x has no host: write *Src_Dist*x.route*hostList"]);
}

#[test]
fn the_monitor_of_a_datastream_is_a_level_of_a_route() {
    let host = "*adh*a.route*hostList : h1\n*adh*b.route*hostList : h2\n";
    let monitor = "*adh*route*datastreamMonitor*interruptionDuration : 4\n*adh*a.route*datastreamMonitor*interruptionDetection : True\n\
         *adh*a.route*datastreamMonitor*trafficWindow : 20\n";
    let c = config(&format!("{host}{monitor}"));
    let told: Vec<_> = c.routes.iter().map(|route| crate::hub::route_config(&c, route).interruption).collect();
    let on = ::hub::distributor::Interruption { duration: 4_000_000_000, traffic_window: 20_000_000_000 };
    assert_eq!(told, [Some(on), None]);
    let never = "*adh*a.route*datastreamMonitor*interruptionDuration : 0\n";
    assert_eq!(
        faults(&format!("{host}{monitor}{never}")),
        ["r.cnf:6: route.interruption_duration_ms must be over 0 when interruption_detection is true"]
    );
    let idle = "*adh*b.route*datastreamMonitor*trafficWindow : 20\n";
    let notes =
        read("r.cnf", &format!("{host}{idle}"), &place("box", "1")).unwrap_or_else(|e| panic!("{e}")).loaded.notes;
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["r.cnf:3: *adh*b.route*datastreamMonitor*trafficWindow has no effect unless interruption_detection is true"]
    );
    let wrong = faults(&format!("{host}*adh*a.route*datastreamMonitor*trafficWindw : 20\n"));
    assert!(wrong[0].starts_with("r.cnf:3: ") && wrong[0].contains("the nearest is trafficWindow"), "{wrong:?}");
}

#[test]
fn what_services_do_about_outages_is_said_at_the_service() {
    let c = config(
        "*P2PS*FEED*dismountOnOutage : True\n*P2PS*SLOW*dismountOnOutage : False\n*P2PS*FEED*discourageRequestsOnOutage : True\n",
    );
    assert_eq!(
        (&c.p2ps.dismount_on_outage[..], c.p2ps.discourage_requests_on_outage),
        (&["FEED".to_owned()][..], false)
    );
    assert_eq!(c.services["FEED"].discourage_requests_on_outage, Some(true));
    let bad = faults("*P2PS*FEED*dismountOnOutage : sometimes\n");
    assert!(bad.len() == 1 && bad[0].contains("True or False"), "{bad:?}");
}

#[test]
fn services_have_the_ids_of_their_lines() {
    let c = config("*FEED*serviceId : 300\n*P2PS*SLOW*serviceId : 301\n");
    let ids: Vec<_> = c.p2ps.service_ids.0.iter().map(|(name, id)| (name.to_owned(), id)).collect();
    assert_eq!(ids, [("FEED".to_owned(), 300), ("SLOW".to_owned(), 301)]);
    let twice = faults("*FEED*serviceId : 300\n*SLOW*serviceId : 300\n");
    assert!(twice.len() == 1 && twice[0].starts_with("r.cnf:2: serviceId: "), "{twice:?}");
    assert_eq!(faults("*FEED*serviceId : many\n").len(), 1);
}

#[test]
fn writer_threads_are_numbered_from_one() {
    let c = config("*ads*bindWriteThread.2 : 5\n*ads*bindWriteThread.1 : 3-4\n");
    assert_eq!(c.p2ps.bind_writer_threads, ["3-4", "5"]);
    assert_eq!(
        faults("*ads*bindWriteThread.0 : 5\n"),
        ["r.cnf:1: bindWriteThread.0: the threads are numbered from 1 to 64"]
    );
}

#[test]
fn what_has_no_effect_is_said_once_with_its_reason() {
    let text = "*P2PS*hashTableSize : 200000\n*RDFD*cacheType : sinkDriven\n*P2PS*disableHostLookup : True\n";
    let notes = read("r.cnf", text, &place("box", "1")).unwrap_or_else(|e| panic!("{e}")).loaded.notes;
    let shown: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "r.cnf:1: *P2PS*hashTableSize has no effect here: memory and tables grow with what is in them",
            "r.cnf:2: *RDFD*cacheType is always so here: items are asked for when a client wants them",
            "r.cnf:3: *P2PS*disableHostLookup is always so here: addresses of clients are never looked up",
        ]
    );
    assert_eq!(notes[0].weight, Weight::Warning);
    assert_eq!(notes[1].weight, Weight::Information);
}

#[test]
fn keys_are_told_from_toml() {
    assert!(looks_like("# c\n\n*P2PS*x : 1"));
    assert!(looks_like("! c\n"));
    assert!(looks_like("host*P2PS*x = 1"));
    assert!(!looks_like("[p2ps]\nx = 1"));
    assert!(!looks_like("x = \"a*b\""));
    assert!(!looks_like(""));
}

mod property;
mod reference;

/// Each line of `testdata/bad.cnf` with its message, as `testdata/bad.cnf.messages` has them.
#[test]
fn each_bad_line_gets_its_own_clear_message() {
    let bad = include_str!("../../testdata/bad.cnf");
    let found = faults(bad);
    let lines = bad.lines().count();
    assert!(lines >= 50);
    for number in 1..=lines {
        assert!(found.iter().any(|f| f.starts_with(&format!("r.cnf:{number}: "))), "nothing is said of line {number}");
    }
    crate::tests::assert_golden("bad.cnf.messages", &(found.join("\n") + "\n"));
}

#[test]
fn lines_of_services_are_for_them_and_others_for_all() {
    let text = "*retryLimit : 2\n*ADH*FEED*retryLimit : 3\n*FEED*cacheLocation : ssl\n*SLOW*nonCachingItemList : A* B\nother*FEED*retryLimit : 9\n*SLOW*ageUnwatchedItemTime : 60\n";
    let reading = read("r.cnf", text, &place("box", "1")).expect("it is read");
    let c = &reading.loaded.config;
    assert_eq!((c.source_distributor.retry_limit, c.source_distributor.age_unwatched_item_time_s), (2, 0));
    let (feed, slow) = (&c.services["FEED"], &c.services["SLOW"]);
    assert_eq!((feed.retry_limit, feed.cache_location), (Some(3), Some(crate::CacheLocation::Ssl)));
    assert_eq!((slow.retry_limit, slow.age_unwatched_item_time_s), (None, Some(60)));
    assert_eq!(slow.non_caching_item_list.as_deref(), Some(&["A*".to_owned(), "B".to_owned()][..]));
    assert!(reading.loaded.notes.iter().all(|note| note.weight == Weight::Information), "{:?}", reading.loaded.notes);
    let toml = import::convert("r.cnf", text, &place("box", "1")).expect("it is read");
    assert!(toml.contains("\n[service.FEED]\n# line 2: *ADH*FEED*retryLimit : 3\nretry_limit = 3\n"), "{toml}");
    assert_eq!(&Config::parse("r.toml", &toml).expect("what is written is read"), c);
}

#[test]
fn a_line_of_this_host_counts_for_its_services_too() {
    let text = "box*ADH*retryLimit : 2\n*FEED*retryLimit : 3\nbox*ADH*SLOW*retryLimit : 4\n*SLOW*retryLimit : 5\n";
    let reading = read("r.cnf", text, &place("box", "1")).expect("it is read");
    let c = &reading.loaded.config;
    assert_eq!((c.source_distributor.retry_limit, c.services["FEED"].retry_limit), (2, None));
    assert_eq!(c.services["SLOW"].retry_limit, Some(4));
    let told: Vec<&str> = reading.loaded.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(told, ["*FEED*retryLimit has no effect: line 1 is for this host, and counts"]);
    assert!(faults("*FEED*retryLimit : 300\n")[0].contains("r.cnf:1: service.FEED.retry_limit must be at most 255"));
}

#[test]
fn routes_have_pauses_users_and_names_of_services_of_their_own() {
    let text = "*ADH*a.route*hostList : h1\n*ADH*a.route*serviceList : FEED OTHER\n*ADH*a.route*appServiceName : THEIRS ALSO\n*ADH*b.route*hostList : h2\n*ADH*b.route*recoveryInterval : 9\n*ADH*b.route*userName : site\n*ADH*route*recoveryInterval : 2\n*FEED*connectRetryInterval : 10\n";
    let reading = read("r.cnf", text, &place("box", "1")).expect("it is read");
    let c = &reading.loaded.config;
    assert!(reading.loaded.notes.is_empty(), "{:?}", reading.loaded.notes);
    assert_eq!(c.source_distributor.recovery_interval_ms, 2_000);
    assert_eq!(c.source_distributor.user_name, Config::default().source_distributor.user_name);
    let (a, b) = (&c.routes[0], &c.routes[1]);
    assert_eq!(
        (a.recovery_interval_ms, b.recovery_interval_ms, b.user_name.as_str()),
        (Some(2_000), Some(9_000), "site")
    );
    let there = crate::route_config(c, a).named_there;
    assert_eq!(there, [("FEED", "THEIRS"), ("OTHER", "ALSO")].map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    assert_eq!(c.services["FEED"].connect_retry_interval_s, Some(10));
    let wrong = "*ADH*a.route*hostList : h1\n*ADH*a.route*serviceList : A\n*ADH*a.route*appServiceName : X Y\n";
    assert!(faults(wrong)[0].contains("r.cnf:3: route.app_service_name must be HERE=THERE"), "{:?}", faults(wrong));
    let idle = "*ADH*a.route*hostList : h1\n*ADH*a.route*appServiceName : THEIRS\n";
    let notes = read("r.cnf", idle, &place("box", "1")).expect("it is read").loaded.notes;
    assert!(notes.len() == 1 && notes[0].text.contains("has no effect unless service_list has"), "{notes:?}");
}

#[test]
fn a_service_may_stand_below_its_route() {
    let text = |list: &str| {
        format!(
            "box*adh*east.route*hostList : h\nbox*adh*east.route*NEWS*serverCost : 7\nbox*adh*east.route*NEWS.enableTunnelStreamAggregation : True\n\
             box*adh*east.route*news*datastreamMonitor*trafficWindow : 12\n\
             box*adh*east.route*datastreamMonitor*interruptionDetection : True\nbox*adh*east.route*serviceList : {list}\n"
        )
    };
    let reading = read("r.cnf", &text("NEWS"), &place("box", "1")).unwrap();
    let route = &reading.loaded.config.routes[0];
    assert_eq!((route.server_cost, route.service_list.len()), (7, 1));
    assert!(route.enable_tunnel_stream_aggregation);
    assert_eq!(route.traffic_window_s, 12);
    // The line that names the service counts, wherever the other one stands.
    let both = format!("{}box*adh*east.route*serverCost : 3\n", text("NEWS"));
    assert_eq!(config(&both).routes[0].server_cost, 7);
    assert!(reading.loaded.notes.is_empty(), "{:?}", reading.loaded.notes);
    let notes = read("r.cnf", &text("NEWS, TEXTS"), &place("box", "1")).unwrap().loaded.notes;
    let of_all = |note: &&crate::Note| note.text.contains("counts for all 2 services of its route");
    assert_eq!(notes.iter().filter(of_all).map(|note| note.line).collect::<Vec<_>>(), [2, 3, 4]);
    // A name that the route does not have is a level that nobody knows.
    assert_eq!(faults(&text("TEXTS")).len(), 3);
}

#[test]
fn a_route_has_its_posts_in_a_tunnel_stream_whose_login_is_said_elsewhere() {
    let text = "*adh*trcc.route*hostList : h1\n*adh*trcc.route*serviceList : TRCC\n*adh*trcc.route*appServiceName : THERE\n\
        *adh*trcc.route*enableTunnelStreamAggregation : True\n*adh*trcc.route*tunnelStream*userName : site\n\
        *adh*trcc.route*userName : rmds\n";
    let reading = read("r.cnf", text, &place("box", "1")).expect("it is read");
    let [route] = &reading.loaded.config.routes[..] else { panic!("{:?}", reading.loaded.config.routes) };
    assert!(route.enable_tunnel_stream_aggregation);
    assert_eq!((route.tunnel_stream_user_name.as_str(), route.user_name.as_str()), ("", "rmds"));
    assert_eq!(crate::tunnel_service(route).as_deref(), Some("THERE"));
    let [note] = &reading.loaded.notes[..] else { panic!("{:?}", reading.loaded.notes) };
    assert!(note.text.contains("tunnel_stream_user_name"), "{note}");
}

/// The page that says why a name of RMDS has no effect has each of them. `QUOTEWAY_BLESS=1` writes its table anew.
#[test]
fn the_page_for_who_knows_rmds_explains_every_name_without_effect() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/if-you-know-rmds.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let mut table = String::from("| parameters | why |\n|---|---|\n");
    for entry in crate::effect::TABLE {
        let name = |(name, always): (&str, Option<&str>)| {
            let always = always.map_or(String::new(), |value| format!(" ({value} is as it is here)"));
            format!("`{}{name}`{always}", entry.kind.prefix())
        };
        let names: Vec<String> = entry.names().map(name).collect();
        table += &["| ", &names.join(", "), " | ", &entry.why().replace('|', "\\|"), " |\n"].concat();
    }
    let head = "## Names without effect\n";
    let (before, section) = page.split_once(head).expect("its section");
    let text_end = section.find("| parameters |").expect("its table");
    if std::env::var_os("QUOTEWAY_BLESS").is_some() {
        let anew = format!("{before}{head}{}{table}", &section[..text_end]);
        return std::fs::write(&path, anew).expect("the page is written");
    }
    assert_eq!(&section[text_end..], table, "QUOTEWAY_BLESS=1 writes {} anew", path.display());
}
