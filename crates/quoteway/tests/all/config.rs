//! Configuration as an operator meets it: the binary, the documentation's examples, man pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use config::{Selection, load};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating")
}

fn quoteway(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quoteway")).args(args).env("QUOTEWAY_LOG", "info").output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The blocks of a Markdown file that are marked with one of these languages, each with its line.
fn blocks(markdown: &str, language: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (at, line) in markdown.lines().enumerate() {
        match (inside, line.trim().strip_prefix("```")) {
            (false, Some(mark)) if mark.trim() == language => {
                found.push((at + 1, String::new()));
                inside = true;
            }
            (true, Some(_)) => inside = false,
            (true, None) => {
                let block = &mut found.last_mut().expect("inside of one").1;
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[test]
fn aeron_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("aeron.toml");
    let start = |lines: &str| {
        std::fs::write(&file, format!("[hub]\ntransport = \"aeron\"\n[aeron]\n{lines}\n")).unwrap();
        let out = quoteway(&["p2ps", "--config", file.to_str().unwrap(), "--rssl-port", "0", "--http-port", "0"]);
        assert!(!out.status.success());
        text(&out.stderr)
    };
    let said = start("medium = \"ipc\"");
    assert!(said.contains("aeron.dir must be set"), "{said}");
    let said = start("term_bytes = 5000000");
    assert!(said.contains("aeron.term_bytes must be a power of two"), "{said}");
    let said = start("flow_control = \"tagged\"");
    assert!(said.contains("aeron.group_tag must be set"), "{said}");
    let said = start("nak_delay_us = 0");
    assert!(said.contains("aeron.nak_delay_us must be from 1"), "{said}");
    if !cfg!(feature = "aeron") {
        let said = start("port = 40456");
        assert!(said.contains("hub.transport is \"aeron\"") && said.contains("--features aeron"), "{said}");
    }
}

#[test]
fn every_example_of_the_documentation_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in
        std::fs::read_dir(docs()).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|e| e == "md"))
    {
        // Scenarios and the files of LBM routers are no configurations of servers: the tests of `scenario` and of `lbmrouter` read those.
        if ["scenarios.md", "lbm-router.md"].iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let markdown = std::fs::read_to_string(entry.path()).unwrap();
        for (language, name) in [("toml", "example.toml"), ("rmds.cnf", "rmds.cnf")] {
            for (line, block) in blocks(&markdown, language) {
                let file = dir.path().join(name);
                std::fs::write(&file, block).unwrap();
                count += 1;
                if let Err(e) = load(&file, &Selection::default()) {
                    wrong.push(format!("{}:{line}: {e}", entry.path().display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 4, "only {count} examples");
}

#[test]
fn every_example_file_is_read_and_survives_its_import() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(docs().join("examples")).unwrap().flatten() {
        let path = entry.path();
        // Those for a build server are its own files.
        if !path.extension().is_some_and(|e| e == "toml" || e == "cnf") {
            continue;
        }
        for (host, instance) in [("md1", "1"), ("md2", "2")] {
            let selection = Selection { host: Some(host.into()), instance: Some(instance.into()) };
            let loaded = load(&path, &selection).unwrap_or_else(|e| panic!("{e}"));
            count += 1;
            if path.extension().is_some_and(|e| e == "cnf") {
                let toml = dir.path().join("imported.toml");
                let args = ["config", "import", path.to_str().unwrap(), "--host", host, "--instance", instance, "-o"];
                let output = quoteway(&[&args[..], &[toml.to_str().unwrap(), "--force"]].concat());
                assert!(output.status.success(), "{}", text(&output.stderr));
                assert_eq!(load(&toml, &Selection::default()).unwrap().config, loaded.config);
                let check = quoteway(&["config", "check", toml.to_str().unwrap()]);
                assert!(check.status.success(), "{}", text(&check.stderr));
            }
        }
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn the_sites_example_is_another_one_on_each_host() {
    let file = docs().join("examples/site.cnf");
    let of = |host: &str, instance: &str| {
        load(&file, &Selection { host: Some(host.into()), instance: Some(instance.into()) }).unwrap().config
    };
    assert_eq!((of("md1", "1").p2ps.rssl_port, of("md2", "2").p2ps.rssl_port), (14002, 14012));
    assert_eq!((of("md2", "1").p2ps.bind_main_thread, of("md2", "2").p2ps.bind_main_thread), ("2".into(), "3".into()));
    let routes: Vec<_> = of("md3", "1").routes.into_iter().map(|r| (r.host_list, r.port)).collect();
    assert_eq!(routes, [(vec!["feed1".to_owned(), "feed2".to_owned()], 14002), (vec!["feed3".to_owned()], 14002)]);
}

#[test]
fn a_faulty_file_stops_the_start_before_a_port_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rmds.cnf");
    std::fs::write(&file, "*P2PS*rsslPort : 0\n*P2PS*maxMount : 7\n*RRCP*rsslPort : 1\n").unwrap();
    let path = file.to_str().unwrap();
    for command in ["serve", "source-distributor", "p2ps"] {
        let output = quoteway(&[command, "--config", path, "--interface", "127.0.0.1"]);
        assert!(!output.status.success());
        assert_eq!(text(&output.stdout), "", "no port is announced");
        let said = text(&output.stderr);
        assert!(said.contains(":2: there is no parameter of P2PS called maxMount: the nearest is maxMounts"), "{said}");
        assert!(said.contains(":3: rsslPort does not belong to RRCP: write *P2PS*rsslPort"), "{said}");
    }
}

#[test]
fn parameters_are_found_by_either_name() {
    for word in ["max_mounts", "maxMounts", "MAXMOUNTS"] {
        let output = quoteway(&["config", word]);
        assert!(text(&output.stdout).contains("p2ps.max_mounts = 10000\n"), "{word}: {}", text(&output.stdout));
    }
    let output = quoteway(&["config", "hashTableSize"]);
    assert!(text(&output.stdout).contains("*P2PS*hashTableSize\n    accepted, no effect here: "));
    let output = quoteway(&["config", "maxMountz"]);
    assert!(!output.status.success() && text(&output.stderr).contains("the nearest is max_mounts"), "{output:?}");
}

#[test]
fn programs_get_every_parameter_with_unit_default_and_meaning() {
    let all: serde_json::Value = serde_json::from_slice(&quoteway(&["config", "--json"]).stdout).expect("JSON");
    let parameters = all["parameters"].as_array().expect("a list");
    let find = |section: &str, key: &str| {
        parameters.iter().find(|p| p["section"] == section && p["key"] == key).unwrap_or_else(|| panic!("{key}"))
    };
    let pause = find("source_distributor", "recovery_interval_ms");
    assert_eq!(pause["unit"], "milliseconds");
    assert_eq!(pause["rmds"][0], "*Src_Dist*recoveryInterval");
    assert!(parameters.iter().all(|p| !p["meaning"].as_str().unwrap_or("").is_empty()));
    assert!(all["without_effect"].as_array().expect("a list").len() > 250);
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = quoteway(&["man", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for page in
        ["quoteway", "quoteway-serve", "quoteway-config-import", "quoteway-test-client", "quoteway-sink-driven-src"]
    {
        let page = std::fs::read_to_string(dir.path().join(format!("{page}.1"))).expect(page);
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"));
        assert!(page.contains(".SH ENVIRONMENT") && page.contains("QUOTEWAY_LOG"));
    }
    // Each names the variables that it looks at, and no others.
    for (page, notified, asks) in
        [("serve", true, false), ("ctl", false, true), ("ctl-clients", false, true), ("test-client", false, false)]
    {
        let page = std::fs::read_to_string(dir.path().join(format!("quoteway-{page}.1"))).expect("written");
        assert_eq!((page.contains("NOTIFY_SOCKET"), page.contains("QUOTEWAY_PASSWORD")), (notified, asks), "{page}");
    }
    let serve = std::fs::read_to_string(dir.path().join("quoteway-serve.1")).expect("written");
    assert!(serve.contains("[\\fB\\-\\-route\\fR \\fIHOST:PORT\\fR]"), "{serve}");
    for shell in ["bash", "zsh", "fish"] {
        let output = quoteway(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("source-distributor"), "{shell}");
    }
}

#[test]
fn completions_know_the_scenarios_of_the_lab_that_is_installed() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    // Where a real one stands beside the binary, that one is asked, and has this scenario as well.
    let lab = dir.path().join("quoteway-lab");
    std::fs::write(&lab, "#!/bin/sh\necho 'ibm-latency  After the report of IBM'\n").expect("written");
    std::fs::set_permissions(&lab, std::fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    // clap's completions for fish have no values of arguments without a flag.
    for shell in ["bash", "zsh"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quoteway"));
        let output = command.args(["completions", shell]).env("PATH", &path).output().expect("it runs");
        assert!(output.status.success() && text(&output.stdout).contains("ibm-latency"), "{shell}");
    }
}

#[test]
fn files_that_the_configuration_names_are_looked_into_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("lbm.cfg"), "source transport lbtrx\n").unwrap();
    let toml = format!(
        "[p2ps]\nrssl_port = 0\nserver_cert_file = {:?}\nserver_key_file = \"k\"\n[dictionary]\nfield_file = {:?}\n[hub]\nlbm_options_file = {:?}\n",
        path("cert.pem"),
        path("fields"),
        path("lbm.cfg")
    );
    std::fs::write(path("q.toml"), toml).unwrap();
    let output = quoteway(&["serve", "--config", &path("q.toml"), "--interface", "127.0.0.1"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    for file in ["cert.pem", "fields", "lbm.cfg:1: "] {
        assert!(said.contains(file), "{file}: {said}");
    }
    let check = quoteway(&["config", "check", &path("q.toml")]);
    assert!(check.status.success() && text(&check.stderr).contains("warning: "), "it may be for another machine");
}

#[test]
fn a_check_says_what_differs_and_finds_ports_that_clash() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("q.toml");
    let check = |toml: &str| {
        std::fs::write(&file, toml).unwrap();
        quoteway(&["config", "check", file.to_str().unwrap()])
    };
    let fine = check("[p2ps]\nrssl_port = 14102\nmax_mounts = 10000\n");
    let said = text(&fine.stdout);
    assert!(
        fine.status.success()
            && said.ends_with("OK, 1 parameter differs from its default\n[p2ps]\nrssl_port = 14102\n"),
        "{said}"
    );
    assert!(text(&check("").stdout).ends_with("OK, every parameter has its default\n"));
    let clash = check("[p2ps]\nrssl_port = 14003\n");
    let said = text(&clash.stderr);
    assert!(!clash.status.success() && said.contains("are both 14003"), "{said}");
}

#[test]
fn an_import_overwrites_nothing_unless_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (cnf, toml) = (dir.path().join("rmds.cnf"), dir.path().join("q.toml"));
    std::fs::write(&cnf, "*P2PS*rsslPort : 14012\n*P2PS*maxMount : 7\n").unwrap();
    std::fs::write(&toml, "precious").unwrap();
    let (cnf, to) = (cnf.to_str().unwrap(), toml.to_str().unwrap());
    let strict = quoteway(&["config", "import", cnf]);
    assert!(!strict.status.success() && text(&strict.stderr).contains("maxMounts"), "{strict:?}");
    let kept = quoteway(&["config", "import", cnf, "--lenient", "-o", to]);
    assert!(!kept.status.success() && text(&kept.stderr).contains("--force"), "{kept:?}");
    assert_eq!(std::fs::read_to_string(&toml).unwrap(), "precious");
    let forced = quoteway(&["config", "import", cnf, "--lenient", "--force", "-o", to]);
    assert!(forced.status.success(), "{forced:?}");
    assert!(std::fs::read_to_string(&toml).unwrap().contains("rssl_port = 14012"));
}
