//! The lab as its users run it: a tiny scenario, its report and its results.

use std::path::Path;
use std::process::Command;

use crate::{LAB, PRODUCT, lab};

fn records(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("the results");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_quick_run_writes_report_and_results() {
    let folder = tempfile::tempdir().unwrap();
    let (out, report) = (folder.path().join("results.jsonl"), folder.path().join("report.md"));
    let (out_text, report_text) = (out.to_str().unwrap(), report.to_str().unwrap());
    let done = lab(&["smoke", "--quick", "--out", out_text, "--report", report_text]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let progress = String::from_utf8_lossy(&done.stderr);
    assert!(progress.contains("left") && progress.contains("smoke 20k: floor"), "{progress}");

    let text = std::fs::read_to_string(&report).unwrap();
    assert!(text.contains("## smoke:") && text.contains("| 20k | rate |"), "{text}");
    let records = records(&out);
    assert_eq!(records[0]["record"], "environment");
    for side in ["ours", "floor"] {
        let run = records.iter().find(|r| r["record"] == "run" && r["side"] == side).expect("a run of each side");
        assert_eq!((run["scenario"].as_str(), run["row"].as_str()), (Some("smoke"), Some("20k")));
        let rate = run["figures"]["rate"].as_f64().unwrap();
        assert!(rate > 1_000.0, "{run}");
        assert!(run["figures"]["p50_us"].as_f64().is_some_and(|us| us > 0.0), "{run}");
    }
}

#[test]
fn a_procedure_of_a_report_runs_on_nodes_and_is_observed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The procedure of the Red Hat report in small; without root the same processes on loopback.
    let scenarios = "[own]\ntitle = 'Three nodes'\nkind = 'flow'\nitems = 50\nsize = 74\nnodes = 3\nhub = 'tcp'\nbursts = 500\n\
                     idle = 'block'\ndecode = 3\nobserve = true\nrates = '5k'\noriginals = [{ report = 'R', table = '1', label = 'RMDS' }]";
    std::fs::write(file("own.toml"), scenarios).unwrap();
    let table = "report,table,page,update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples\n\
                 R,1,9,5000,300.891,41.554,788,218,5716\n";
    std::fs::write(file("latency.csv"), table).unwrap();
    let (own, html, csv, reference) = (file("own.toml"), file("r.html"), file("r.csv"), file(""));
    let mut args =
        vec!["own", "--quick", "--scenarios", &own, "--html", &html, "--csv", &csv, "--published", &reference];
    if !lab::nodes::Nodes::can_be_made() {
        println!("no nodes: network namespaces need root and iproute2");
        args.push("--loopback");
    }
    let done = lab(&args);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{report}{}", String::from_utf8_lossy(&done.stderr));
    let csv = std::fs::read_to_string(csv).unwrap();
    for side in ["ours", "smooth"] {
        let figure = |name: &str| {
            let line = csv.lines().find(|l| l.starts_with(&format!("own,5k,{side},1,{name},")))?;
            line.rsplit(',').next()?.parse::<f64>().ok()
        };
        assert!(figure("samples").is_some_and(|n| n > 1_000.0), "{side}: {csv}\n{report}");
        let (call, whole) = (figure("call_mean_us").unwrap(), figure("mean_us").unwrap());
        assert!(call > 0.0 && call <= whole && figure("observer_ns").unwrap() > 0.0, "{side}: {csv}");
    }
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("published: RMDS 300.891 µs at 5k/s") && page.contains("<td>300.891</td>"), "{page}");
}

/// An update goes through every level, and the servers of all of them are counted.
#[test]
fn a_cascade_is_as_deep_as_the_scenario_says() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results.jsonl");
    let done = lab(&["cascade-3", "--quick", "--loopback", "--peers", "none", "--out", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let records = records(&out);
    let resident = |side: &str| {
        let run = records.iter().find(|r| r["record"] == "run" && r["side"] == side).expect("a run of each side");
        assert!(run["figures"]["rate"].as_f64().is_some_and(|rate| rate > 100.0), "{run}");
        assert!(run["figures"]["client_resident_bytes"].as_f64().is_some_and(|bytes| bytes > 1e6), "{run}");
        run["figures"]["server_resident_bytes"].as_f64().expect("the servers are here")
    };
    let (three, one) = (resident("ours"), resident("variant"));
    assert!(three > 2.0 * one, "six processes take {three} bytes, two {one}");
}

/// Two machines beside this one, for what the lab knows: a stand-in for ssh does there what it is told, which is here. The processor time of the
/// system is theirs, and nothing is left.
#[test]
fn the_system_runs_on_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let scenarios =
        "[own]\ntitle = 'Three nodes'\nkind = 'flow'\nitems = 50\nsize = 74\nnodes = 3\nhub = 'tcp'\nrates = '5k'\n";
    std::fs::write(file("own.toml"), scenarios).unwrap();
    // Flags, the host, and the command.
    let ssh = "#!/bin/sh\nwhile [ \"$1\" = -o ]; do shift 2; done\nhost=$1\nshift\necho \"$host: $*\" >> \"$ASKED\"\nexec sh -c \"$*\"\n";
    std::fs::write(file("ssh"), ssh).unwrap();
    let (own, csv, asked) = (file("own.toml"), file("r.csv"), file("asked"));
    std::fs::create_dir(file("far")).unwrap();
    let mut lab = Command::new(&*PRODUCT);
    lab.args(["lab", "own", "--quick", "--scenarios", &own, "--csv", &csv, "--peers", "none"]);
    lab.args(["--host", "me@first=127.0.0.1", "--host", "second=127.0.0.1"]);
    lab.env("QUOTEWAY_SSH", format!("sh {}", file("ssh"))).env("ASKED", &asked).env("TMPDIR", file("far"));
    let done = lab.output().unwrap();
    let report = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{report}");
    let asked = std::fs::read_to_string(asked).unwrap();
    let started = |host: &str, what: &str| asked.lines().any(|line| line.starts_with(host) && line.contains(what));
    assert!(started("me@first: ", " source-distributor --config "), "{asked}");
    assert!(started("second: ", " p2ps --config ") && !started("second: ", " source-distributor "), "{asked}");
    let csv = std::fs::read_to_string(csv).unwrap();
    let figure = |name: &str| {
        let line = csv.lines().find(|l| l.starts_with(&format!("own,5k,ours,1,{name},")))?;
        line.rsplit(',').next()?.parse::<f64>().ok()
    };
    assert!(figure("rate").is_some_and(|rate| rate > 1_000.0), "{csv}\n{report}");
    assert!(figure("server_cpu_ns").is_some_and(|ns| ns > 0.0), "{csv}");
    assert!(report.contains("what is between them on me@first (Linux"), "{report}");
    let left: Vec<_> = std::fs::read_dir(file("far")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_machine_that_cannot_be_reached_ends_the_call_before_anything_runs() {
    let wrong = |args: &[&str]| {
        let done = lab(args);
        assert!(!done.status.success());
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let text = wrong(&["smoke", "--quick", "--host", "me@far=127.0.0.1"]);
    assert!(text.contains("smoke has no system that could be on another machine"), "{text}");
    let far = ["redhat-2node", "--quick", "--host", "me@no.such.host.invalid"];
    let text = wrong(&far);
    assert!(text.contains("no.such.host.invalid stands for no IPv4 address"), "{text}");
    assert!(wrong(&["redhat-2node", "--host=-oProxyCommand=x"]).contains("is no host"));
}

#[test]
fn lbm_is_measured_between_processes_and_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Each procedure in small: no claims on speed.
    let grid = |name: &str, rest: &str| {
        let head = format!("[{name}]\ntitle = '{name}'\nkind = 'lbm'\nseconds = 0.1\nwarmup = 0.05\n");
        format!("{head}lbm = {{ payloads = '64', datagrams = '1408', offload = 'off', {rest} }}\n")
    };
    let veth = if lab::nodes::Nodes::can_be_made() {
        "veth"
    } else {
        println!("everything on loopback: network namespaces need root and iproute2");
        "loopback"
    };
    let scenarios = [
        grid("stream", "measure = 'stream', transports = 'lbtipc lbtrm'"),
        grid(
            "fan",
            &format!("measure = 'stream', transports = 'lbtrm', receivers = 2, idle = 'block', networks = '{veth}'"),
        ),
        grid("trips", &format!("measure = 'round-trips', transports = 'lbtru', rates = '1000', networks = '{veth}'")),
        grid(
            "paths",
            "measure = 'one-way', transports = 'lbtrm', rates = '1000', paths = 3, idle = 'block', report = '9'",
        ),
        grid(
            "found",
            "measure = 'one-way', transports = 'lbtru', rates = 'search', profile = 'throughput', idle = 'block'",
        ),
    ];
    std::fs::write(file("own.toml"), scenarios.concat()).unwrap();
    let table = "report,table,page,test,payload_bytes,target_rate_per_s,path,run,actual_rate_per_s,median_us,mean_us,stddev_us,\
                 min_us,max_us,p99_us,p999_us\ncisco-2009,9,7,T,64,1000,,combined,,11,12,2,5,50,20,30\n";
    std::fs::write(file("lbm.csv"), table).unwrap();
    let (own, html, csv, reference) = (file("own.toml"), file("r.html"), file("r.csv"), file(""));
    let done = lab(&[
        "stream",
        "fan",
        "trips",
        "paths",
        "found",
        "--quick",
        "--scenarios",
        &own,
        "--html",
        &html,
        "--csv",
        &csv,
        "--published",
        &reference,
        "--peers",
        "nats",
    ]);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{report}{}", String::from_utf8_lossy(&done.stderr));
    let csv = std::fs::read_to_string(csv).unwrap();
    let prefix = if veth == "veth" { "veth-" } else { "" };
    for (row, figure) in [
        ("stream,lbtipc-64b".to_owned(), "rate"),
        ("stream,lbtrm-64b-1408-plain".to_owned(), "sender_system_ns"),
        (format!("fan,{prefix}lbtrm-64b-1408-plain"), "rate"),
        (format!("trips,{prefix}lbtru-64b-1k"), "p99_us"),
        ("paths,lbtrm-64b-1k".to_owned(), "path3_call_p99_us"),
        ("paths,lbtrm-64b-1k".to_owned(), "call_mean_us"),
    ] {
        for side in ["ours", "floor"] {
            let line = csv.lines().find(|l| l.starts_with(&format!("{row},{side},1,{figure},")));
            let value = line.and_then(|l| l.rsplit(',').next()?.parse::<f64>().ok());
            assert!(value.is_some_and(|v| v >= 0.0), "{row} {side} {figure}: {csv}\n{report}");
        }
    }
    // Whether a rate is held on a busy machine nobody knows; that it was sought is in the report.
    assert!(
        csv.contains("found,lbtru-64b-search,ours,1,rate,") || report.contains("lbtru-64b-search, ours"),
        "{report}"
    );
    assert!(csv.contains("paths,lbtrm-64b-1k,\"published: table 9, page 7\",,call_mean_us,12"), "{csv}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("As the report has it (table 9, page 7)") && page.contains("published, 64 B"), "{page}");
}

#[test]
fn stages_sum_up_to_the_whole_turn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text =
        "[own]\ntitle = 'Stages'\nkind = 'stages'\nitems = 200\nsize = 74\nmounts = 4\ncommon = 0.5\nbatches = '16'";
    std::fs::write(file("own.toml"), text).unwrap();
    let (own, out, csv) = (file("own.toml"), file("o.jsonl"), file("r.csv"));
    let done = lab(&["own", "--quick", "--scenarios", &own, "--out", &out, "--csv", &csv]);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{report}{}", String::from_utf8_lossy(&done.stderr));
    let csv = std::fs::read_to_string(csv).unwrap();
    let figure = |stage: &str, side: &str, name: &str| {
        let begin = format!("own,16 a turn: {stage},{side},1,{name},");
        csv.lines().find_map(|l| l.strip_prefix(&begin)?.parse::<f64>().ok())
    };
    for stage in lab::stages::STAGES {
        for side in ["ours", "floor"] {
            assert!(figure(stage, side, "ns").is_some(), "{stage} {side}: {csv}");
        }
    }
    let [sum, turn, rest] = lab::stages::SUMS.map(|row| figure(row, "ours", "ns").unwrap());
    assert!(sum > 0.0 && turn > 0.0 && (turn - sum - rest).abs() < 1e-6, "{csv}");
    let stages = || lab::stages::STAGES.iter().map(|s| figure(s, "ours", "delivery_ns").unwrap());
    assert!((stages().sum::<f64>() - figure(lab::stages::SUMS[0], "ours", "delivery_ns").unwrap()).abs() < 1e-6);
    assert!(records(Path::new(&out)).iter().any(|r| r["row"] == "16 a turn: send" && r["side"] == "floor"));
}

#[test]
fn stacked_p2pss_and_paths_have_everything_delivered_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = "[own]\ntitle = 'Stacked'\nkind = 'flow'\nitems = 40\nsize = 74\npaths = 2\np2ps = 2\nmounts = 4\ncommon = 0.5\n\
                split = true\nobserve = true\nidle = 'block'\nrates = '5k'";
    std::fs::write(file("own.toml"), text).unwrap();
    let (own, out) = (file("own.toml"), file("o.jsonl"));
    let done = lab(&["own", "--quick", "--scenarios", &own, "--out", &out]);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{report}{}", String::from_utf8_lossy(&done.stderr));
    let records = records(Path::new(&out));
    let run =
        records.iter().find(|r| r["record"] == "run" && r["side"] == "ours").unwrap_or_else(|| panic!("{report}"));
    // Every delivery of every client is among the samples, and one update goes to 2.5 of the mounts on average.
    let rate = run["figures"]["rate"].as_f64().unwrap();
    assert!((2_000.0..=6_000.0).contains(&rate) && run["figures"]["samples"].as_f64().unwrap() > 1_000.0, "{run}");
    let hdr = records.iter().find(|r| r["record"] == "hdr" && r["side"] == "ours").expect("a percentile distribution");
    let points = hdr["points"].as_array().unwrap();
    assert_eq!(points.last().unwrap()[0].as_f64(), Some(1.0));
    assert_eq!(points.last().unwrap()[2].as_f64(), run["figures"]["samples"].as_f64());
}

#[test]
fn a_call_that_is_interrupted_keeps_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The second rate runs until the signal comes.
    let text =
        "[own]\ntitle = 'Own'\nkind = 'flow'\nserver = false\nitems = 10\nrates = '2k 3k'\nseconds = 0.5\nwarmup = 0.1";
    std::fs::write(file("own.toml"), text).unwrap();
    let (own, out, report, html) = (file("own.toml"), file("o.jsonl"), file("r.md"), file("r.html"));
    let mut call = Command::new(LAB);
    let call = call.args(["own", "--pairs", "500", "--scenarios", &own, "--out", &out, "--report", &report]);
    let mut call = call.args(["--html", &html]).stderr(std::process::Stdio::piped()).spawn().expect("the lab runs");
    let mut progress = std::io::BufRead::lines(std::io::BufReader::new(call.stderr.take().unwrap()));
    // The line of a second run comes when the first is recorded.
    assert!(progress.any(|line| line.is_ok_and(|line| line.contains("2k: ours, run 2 of"))), "no second run");
    let id = call.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let rest: Vec<String> = progress.map_while(Result::ok).collect();
    assert!(call.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("stopped; the report holds what is done")), "{rest:?}");
    assert!(records(Path::new(&out)).iter().any(|r| r["record"] == "run" && r["row"] == "2k"));
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains("| 2k | rate |") && !report.contains("| 3k |"), "{report}");
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
}

#[test]
fn a_side_that_is_missing_is_noted_and_the_rest_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (scenarios, nowhere) = (folder.path().join("own.toml"), folder.path().join("nowhere"));
    let text = "[own]\ntitle = 'Own'\nkind = 'flow'\nserver = false\nitems = 10\nrates = '5k'\npeer_rates = '5k'\n\
                goals = ['5k rate >= 1', '5k rate/eta >= 1']";
    std::fs::write(&scenarios, text).unwrap();
    let args = ["own", "--quick", "--scenarios", scenarios.to_str().unwrap(), "--interop", nowhere.to_str().unwrap()];
    let done = lab(&args);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{report}{}", String::from_utf8_lossy(&done.stderr));
    assert!(report.contains("ETA Java is not built"), "{report}");
    assert!(report.contains("| own | 5k rate | at least 1 /s |") && report.contains("| not measured |"), "{report}");
}

#[test]
fn a_call_with_resume_goes_on_where_one_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results.jsonl");
    let out_text = out.to_str().unwrap();
    let call = |more: &[&str]| {
        let mut args = vec!["smoke", "--quick", "--out", out_text];
        args.extend(more);
        let done = lab(&args);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let runs = records(&out).iter().filter(|r| r["record"] == "run").count();
        (runs, String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (first, _) = call(&[]);
    // Only rows that the file has lost are measured again.
    let text = std::fs::read_to_string(&out).unwrap();
    let without_floor: Vec<&str> = text.lines().filter(|line| !line.contains("\"side\":\"floor\"")).collect();
    std::fs::write(&out, without_floor.join("\n") + "\n").unwrap();
    let (second, report) = call(&["--resume"]);
    assert_eq!((first, second), (2, 2));
    assert!(report.contains("| rate | ") && report.contains("ours : floor"), "{report}");
    let (third, _) = call(&["--resume", "--set", "items=100"]);
    assert_eq!(third, 4, "other conditions are other runs");
}

#[test]
fn what_cannot_be_run_is_refused_at_once() {
    for (args, part) in [
        (&["nothing"][..], "no scenario \"nothing\""),
        (&["smoke", "--set", "items"], "KEY=VALUE"),
        (&["smoke", "--set", "colour=red"], "colour"),
        (&["smoke", "--scenarios", "no-such-file"], "no-such-file"),
    ] {
        let done = lab(args);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && text.contains(part), "{text}");
    }
    let text = String::from_utf8_lossy(&lab(&["smok"]).stderr).into_owned();
    assert!(
        text.contains("the nearest is smoke") && !text.contains("redhat-2008"),
        "the list is where it says: {text}"
    );
    let refused = lab(&["images", "--set", "rates=max"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("one rate") && !text.contains("left"), "{text}");
    let listed = lab(&["list"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(!text.lines().any(|line| line.starts_with(':')), "{text}");
    assert!(listed.status.success() && text.contains("chain") && text.contains("(on request)"), "{text}");
}

#[test]
fn a_reader_who_has_enough_ends_the_command_quietly() {
    let product = PRODUCT.as_os_str();
    let of_the_lab = [&["list"][..], &["list", "--toml"]].map(|words| (LAB.as_ref(), words));
    for (program, words) in of_the_lab.into_iter().chain([(product, &["tune"][..]), (product, &["lab", "list"])]) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(program);
        let done = command.args(words).stdout(writer).output().expect("it runs");
        assert!(
            done.status.success() && done.stderr.is_empty(),
            "{words:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}
