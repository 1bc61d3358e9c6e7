use super::{Compression, Config, toml_file};

fn faults(text: &str) -> Vec<String> {
    Config::parse("q.toml", text).expect_err("must be refused").faults
}

#[test]
fn nothing_means_defaults() {
    assert_eq!(Config::parse("q.toml", "").unwrap(), Config::default());
}

#[test]
fn the_printed_document_reads_back_as_itself() {
    let mut config = Config::default();
    config.p2ps.rssl_port = 7;
    config.p2ps.compression_type = Compression::Lz4;
    config.routes.push(super::Route { host_list: vec!["a:1".into(), "b".into()], ..super::Route::default() });
    assert_eq!(Config::parse("q.toml", &config.document()).unwrap(), config);
    assert_eq!(Config::parse("q.toml", &Config::default().document()).unwrap(), Config::default());
}

#[test]
fn every_kind_of_value_is_read() {
    let c = Config::parse(
        "q.toml",
        "[p2ps]\nrssl_port = 1\ntimed_writes = true\ncompression_type = \"zlib\"\nbind_writer_threads = [\"0\", \"1\"]\n[[route]]\nhost_list = [\"h:2\"]\n",
    )
    .unwrap();
    assert_eq!((c.p2ps.rssl_port, c.p2ps.timed_writes, c.p2ps.compression_type), (1, true, Compression::Zlib));
    assert_eq!(c.p2ps.bind_writer_threads, ["0", "1"]);
    assert_eq!(c.routes[0].host_list, ["h:2"]);
}

#[test]
fn words_are_the_same_in_capitals() {
    let text = "[log]\nformat = \"JSON\"\n[permissions]\nmode = \"Test\"\nrights_file = \"rights.toml\"\n[p2ps]\ncompression_type = \"LZ4\"\n";
    let c = Config::parse("q.toml", text).unwrap();
    assert_eq!(c.permissions.mode.to_string(), "test");
    assert_eq!((c.p2ps.compression_type, c.log.format), (Compression::Lz4, super::LogFormat::Json));
    let fault = faults("[permissions]\nzzz = 1\n");
    assert_eq!(fault, ["q.toml:2: there is no key in [permissions] called zzz"], "nothing is near");
}

#[test]
fn each_fault_names_file_line_and_what_to_write() {
    assert_eq!(
        faults("[p2ps]\nrsslport = 1\nmax_mounts = \"many\"\n[p2pss]\n"),
        [
            "q.toml:2: there is no key in [p2ps] called rsslport: the nearest is rssl_port",
            "q.toml:3: p2ps.max_mounts: expected a whole number from 0 to 4294967295, found \"many\"",
            "q.toml:4: there is no section called p2pss: the nearest is p2ps",
        ]
    );
    assert_eq!(
        faults("[p2ps]\nrssl_port = 70000"),
        ["q.toml:2: p2ps.rssl_port: expected a whole number from 0 to 65535, found 70000"]
    );
    assert_eq!(
        faults("[p2ps]\nguaranteed_output_buffers = 9\nmax_output_buffers = 8\n"),
        ["q.toml:2: p2ps.guaranteed_output_buffers must not be over max_output_buffers (its default is 1600)"]
    );
    assert_eq!(faults("[route]\nhost_list=[]"), ["q.toml:1: routes are written [[route]], with two brackets"]);
    assert!(faults("[p2ps\n")[0].starts_with("q.toml:1: "));
}

/// Compares with a file in `testdata`; `QUOTEWAY_BLESS=1` writes it anew.
pub(super) fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/testdata")).join(name);
    if std::env::var_os("QUOTEWAY_BLESS").is_some() {
        std::fs::write(&path, text).expect("testdata");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "QUOTEWAY_BLESS=1 writes {} anew", path.display());
}

/// Each line of `testdata/bad.toml.list` is a file of its own (`\n` ends a line of it) with its message beneath.
#[test]
fn each_bad_toml_line_gets_its_own_clear_message() {
    let list = include_str!("testdata/bad.toml.list");
    assert!(list.lines().count() >= 50);
    let mut all = String::new();
    for line in list.lines() {
        let found = faults(&line.replace("\\n", "\n"));
        all.push_str(line);
        all.push('\n');
        for fault in &found {
            assert!(fault.starts_with("q.toml:"), "{fault}");
            for part in fault.lines() {
                all.push_str("    ");
                all.push_str(part);
                all.push('\n');
            }
        }
    }
    assert_golden("bad.toml.messages", &all);
}

#[test]
fn certificates_go_with_their_keys() {
    for (section, certificate, key, roots) in [
        ("p2ps", "server_cert_file", "server_key_file", "client_ca_file"),
        ("source_distributor", "nip_cert_file", "nip_key_file", "nip_client_ca_file"),
    ] {
        assert_eq!(
            faults(&format!("[{section}]\n{certificate} = \"/a.pem\"\n")),
            [format!("q.toml:2: {section}.{certificate} and {key} go together")]
        );
        assert_eq!(
            faults(&format!("[{section}]\n{roots} = \"/a.pem\"\n")),
            [format!("q.toml:2: {section}.{roots} needs {certificate}: certificates are shown under TLS")]
        );
    }
}

#[test]
fn what_waits_for_another_parameter_is_said() {
    let text = "[p2ps]\nflush_interval_ms = 5\nzlib_compression_level = 9\nencrypted_port = 14006\n";
    let notes = toml_file::parse("q.toml", text).unwrap().notes;
    let shown: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "q.toml:2: p2ps.flush_interval_ms has no effect unless timed_writes is true",
            "q.toml:3: p2ps.zlib_compression_level has no effect unless compression_type is zlib",
        ],
        "the default asks for nothing"
    );
}

#[test]
fn what_has_no_effect_is_accepted_in_toml_too() {
    let notes = toml_file::parse("q.toml", "[p2ps]\nhash_table_size = 200000\n").unwrap().notes;
    assert_eq!(
        notes[0].to_string(),
        "q.toml:2: p2ps.hash_table_size has no effect here: memory and tables grow with what is in them"
    );
}

#[test]
fn replays_have_names_and_survive_being_shown() {
    let text = "[replay.today]\nfolders = [\"/a\", \"/b\"]\nspeed = \"max\"\nat_times = [\"2026-11-27T14:30:00Z\"]\n\n[replay.\"a b\"]\nfolders = \"/c\"\n";
    let config = Config::parse("t.toml", text).unwrap();
    assert_eq!(config.replays["today"].folders, ["/a", "/b"]);
    assert_eq!(Config::parse("t.toml", &config.changes()).unwrap(), config);
    assert_eq!(Config::parse("t.toml", &config.document()).unwrap(), config);
    let why = |keys: &str| Config::parse("t.toml", &format!("[replay.a]\n{keys}\n")).unwrap_err().to_string();
    for (keys, line, wrong) in [
        ("speed = \"2\"", 1, "folders must name a recording"),
        ("folders = \"x\"\nspeed = \"fast\"", 3, "replay.a.speed is \"fast\": write a factor"),
        ("folders = \"x\"\nreplay_clock = \"sundial\"", 3, "write receipt or source-time"),
        ("folders = \"x\"\nfrom_time = \"noon\"", 3, "write a time of UTC"),
        ("folders = \"x\"\nat_times = \"noon\"", 3, "write a time of UTC"),
        (
            "folders = \"x\"\nfrom_time = \"2026-11-27T14:30:00Z\"\nto_time = \"2026-11-27T14:00:00Z\"",
            4,
            "must not be before from_time",
        ),
        ("folders = \"x\"\nitem_patterns = \"^(\"", 3, "item_patterns must be names"),
        ("folders = \"x\"\nrename = \"A\"", 3, "must be FROM=TO"),
        ("folders = \"x\"\nitem_domains = []", 3, "must name a domain"),
        ("folders = \"x\"\nloops = true", 3, "there is no key in [replay] called loops"),
    ] {
        let found = why(keys);
        assert!(found.contains(&format!("t.toml:{line}: ")) && found.contains(wrong), "{keys}: {found}");
    }
    assert!(Config::parse("t.toml", "[replay]\nfolders = \"x\"\n").unwrap_err().to_string().contains("[replay.NAME]"));
}

#[test]
fn delayed_services_have_names_and_survive_being_shown() {
    let text = "[delay.FEED_15]\ndelayed_service = \"FEED\"\ndelay_journal = \"/a\"\ndelay_rules = [\"4=145:1200\", \"name=^A:.*:0\"]\nfee_fields = [\"22\", \"-3\"]\n";
    let config = Config::parse("t.toml", text).unwrap();
    let delay = &config.delays["FEED_15"];
    assert_eq!(delay.kept_back().map(Iterator::collect), Some(vec![22, -3]));
    assert_eq!((delay.domain_numbers(), super::Delay::default().kept_back().map(Iterator::count)), (vec![6], None));
    assert_eq!(Config::parse("t.toml", &config.changes()).unwrap(), config);
    assert_eq!(Config::parse("t.toml", &config.document()).unwrap(), config);
    let needed = "delayed_service = \"FEED\"\ndelay_journal = \"x\"\n";
    let why = |keys: &str| Config::parse("t.toml", &format!("[delay.A]\n{keys}\n")).unwrap_err().to_string();
    for (keys, line, wrong) in [
        ("delay_journal = \"x\"".to_owned(), 1, "delayed_service must name another service"),
        ("delay_journal = \"x\"\ndelayed_service = \"A\"".to_owned(), 3, "delayed_service must name another service"),
        ("delayed_service = \"FEED\"".to_owned(), 1, "delay_journal must name a folder"),
        (format!("{needed}delay_rules = [\"4=5\"]"), 4, "must be FID=VALUE:SECONDS"),
        (format!("{needed}delay_rules = [\"name=^(:3\"]"), 4, "must be FID=VALUE:SECONDS"),
        (format!("{needed}fee_fields = [\"BID\"]"), 4, "must be numbers of fields"),
        (format!("{needed}delay_domains = []"), 4, "must name each domain"),
        (format!("{needed}delay_segment_s = 0"), 4, "must be at least 1"),
        (format!("{needed}delay_item_max = 1"), 4, "the nearest is delay_items_max"),
    ] {
        let found = why(&keys);
        assert!(found.contains(&format!("t.toml:{line}: ")) && found.contains(wrong), "{keys}: {found}");
    }
    assert!(Config::parse("t.toml", "[delay]\ndelay_s = 1\n").unwrap_err().to_string().contains("[delay.NAME]"));
}

#[test]
fn feeds_have_names_and_survive_being_shown() {
    let text = "[feed.nasdaq]\nsource = \"mold:239.1.1.1:9,239.1.1.2:9\"\nline_interfaces = [\"10.0.0.1\"]\n\n[feed.\"a b\"]\nsource = \"x.pcap\"\nsuffix = \"\"\n";
    let config = Config::parse("test.toml", text).expect("a configuration");
    assert_eq!(config.feeds["nasdaq"].line_interfaces, ["10.0.0.1"]);
    for shown in [config.document(), config.changes()] {
        assert_eq!(Config::parse("shown.toml", &shown).expect("a configuration"), config, "{shown}");
    }
    let why = |text: &str| Config::parse("test.toml", text).expect_err("a fault").to_string();
    assert!(why("[feed]\nsource = \"x\"\n").contains("[feed.NAME]"));
    assert!(why("[[feed]]\nsource = \"x\"\n").contains("[feed.NAME]"));
    assert!(why("[feed.a]\nservice = \"x\"\n").contains("needs source"));
    assert!(why("[feed.a]\nsource = \"x\"\nrepeeter = \"x\"\n").contains("the nearest is repeater"));
}

/// A parameter that no code outside of the configuration reads would silently do nothing.
#[test]
fn every_parameter_is_read_by_somebody() {
    fn gather(dir: &std::path::Path, all: &mut String) {
        for entry in std::fs::read_dir(dir).expect("sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                gather(&path, all);
            } else if !["params.rs", "backbone.rs", "rules.rs", "tests.rs"].iter().any(|n| path.ends_with(n)) {
                all.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut sources = String::new();
    for users in ["src", "../hub-io/src", "../server/src", "../quoteway/src"] {
        gather(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(users), &mut sources);
    }
    let (config, route, feed) = (Config::default(), super::Route::default(), super::Feed::default());
    let (replay, delay) = (super::Replay::default(), super::Delay::default());
    let mut unread = Vec::new();
    for section in config.sections().into_iter().chain([&route as &dyn super::AnySection, &feed, &replay, &delay]) {
        for info in section.infos() {
            let used = sources
                .match_indices(&format!(".{}", info.key))
                .any(|(at, word)| !sources[at + word.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'));
            if !used {
                unread.push(format!("{}.{}", section.name(), info.key));
            }
        }
    }
    assert!(unread.is_empty(), "read by nobody: {unread:?}");
}

#[test]
fn what_is_cached_is_said_by_place_domain_service_and_name() {
    let price = rwf::msg::Domain::MARKET_PRICE;
    let book = rwf::msg::Domain::MARKET_BY_ORDER;
    let cached = |config: &Config| {
        let p2ps = super::p2ps_config(config, 1).expect("no dictionary files").cache;
        (p2ps, super::distributor_config(config).cache)
    };
    let (p2ps, distributor) = cached(&Config::default());
    assert!(!p2ps.is_on() && !distributor.is_on(), "nothing unless said");
    let text = "[p2ps]\nenable_cache = true\nmax_cache_size = 5\ndomains_not_cached = [\"market_by_order\", \"8\"]\n\
                [source_distributor]\ncache_location = \"ssl\"\ncached_services = [\"FEED\"]\nnon_caching_item_list = [\"X*\"]";
    let (p2ps, distributor) = cached(&Config::parse("c.toml", text).expect("a configuration"));
    assert!(p2ps.covers("ANY", price, b"IBM") && !p2ps.covers("ANY", book, b"IBM") && p2ps.max_items == 5);
    assert!(distributor.covers("FEED", book, b"IBM") && !distributor.covers("ANY", book, b"IBM"));
    assert!(!p2ps.covers("ANY", price, b"XAU=") && !distributor.covers("FEED", price, b"XAU="));
    let wrong = Config::parse("c.toml", "[p2ps]\ndomains_cached = [\"MARKET_BY_WISH\"]").expect_err("no domain");
    assert!(wrong.to_string().contains("MARKET_BY_ORDER or 7"), "{wrong}");
}

#[test]
fn source_distributors_stand_by_for_each_other_in_pairs() {
    let config = |text: &str| Config::parse("c.toml", &format!("[p2ps]\n{text}"));
    let p2ps =
        |text: &str| super::p2ps_config(&config(text).expect("a configuration"), 1).expect("no dictionary files");
    let pairs = "source_distributor_pairs = [\"a|b\", \"c | d | e\"]\n";
    let known = p2ps(&format!("{pairs}source_distributor_sequence_numbers = true"));
    assert_eq!(known.source_pairs, [vec!["a", "b"], vec!["c", "d", "e"]]);
    assert_eq!(
        (known.source_order, known.sequence_numbers),
        (["a", "b", "c", "d", "e"].map(str::to_owned).to_vec(), true)
    );
    assert_eq!(p2ps(&format!("{pairs}source_distributor_order = [\"b\"]")).source_order, ["b"]);
    for wrong in ["\"a\"", "\"a|\"", "\"a|b\", \"b|c\""] {
        let fault = config(&format!("source_distributor_pairs = [{wrong}]")).expect_err("no pairs");
        assert!(fault.to_string().contains("ONE|OTHER"), "{fault}");
    }
}

#[test]
fn pages_have_the_sizes_of_their_services_in_both_places() {
    use rwf::page::PageSize;
    let text = "[source_distributor]\npage_sizes = [\"24x132\", \"BROKER=14x64\"]";
    let config = Config::parse("c.toml", text).expect("a configuration");
    for sizes in [super::distributor_config(&config).page_sizes, super::p2ps_limits(&config).page_sizes] {
        assert_eq!((sizes.of("BROKER"), sizes.of("ANY")), (PageSize::new(14, 64), PageSize::new(24, 132)));
    }
    assert_eq!(super::distributor_config(&Config::default()).page_sizes.of("ANY"), PageSize::default());
    let wrong = Config::parse("c.toml", "[source_distributor]\npage_sizes = [\"25\"]").expect_err("no size");
    assert!(wrong.to_string().contains("ROWSxCOLUMNS"), "{wrong}");
}

#[test]
fn service_groups_have_names_and_members_of_their_own() {
    let text = "[source_distributor]\nservice_group_list = [\"FEED=A|B\", \"OTHER = C | A\"]\n";
    let config = Config::parse("q.toml", text).unwrap();
    let groups = &super::hub::distributor_config(&config).service_groups;
    let named: Vec<(&str, Vec<&str>)> =
        groups.iter().map(|group| (group.name.as_str(), group.members.iter().map(String::as_str).collect())).collect();
    assert_eq!(named, [("FEED", vec!["A", "B"]), ("OTHER", vec!["C", "A"])]);
    assert_eq!(Config::parse("q.toml", &config.document()).unwrap(), config);
    for (list, why) in [
        ("\"FEED\"", "GROUP=SERVICE|SERVICE"),
        ("\"FEED=A|\"", "GROUP=SERVICE|SERVICE"),
        ("\"FEED=A|A\"", "named twice"),
        ("\"FEED=A\", \"FEED=B\"", "given twice"),
        ("\"FEED=A\", \"ALL=FEED|B\"", "no member of one"),
    ] {
        let found = faults(&format!("[source_distributor]\nservice_group_list = [{list}]\n"));
        assert!(found[0].contains(why), "{list}: {found:?}");
    }
    assert!(super::hub::distributor_config(&Config::default()).takeover_on_suspect);
}
