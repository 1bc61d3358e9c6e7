//! The lab as its users run it: a tiny scenario, its report and its results.

use std::path::Path;
use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quoteway")).arg("lab").args(args).output().expect("the lab runs")
}

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
                     idle = 'block'\ndecode = 3\nobserve = true\nrates = '5k'\noriginals = [{ file = 'a.csv', label = 'RMDS' }]";
    std::fs::write(file("own.toml"), scenarios).unwrap();
    let table = "update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples\n5000,300.89,41.55,788,218,5716\n";
    std::fs::write(file("a.csv"), table).unwrap();
    let (own, html, csv, reference) = (file("own.toml"), file("r.html"), file("r.csv"), file(""));
    let mut args =
        vec!["own", "--quick", "--scenarios", &own, "--html", &html, "--csv", &csv, "--reference", &reference];
    if !quoteway::lab::nodes::Nodes::can_be_made() {
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
    assert!(page.contains("published: RMDS 301 µs at 5k/s") && page.contains("<td>300.89</td>"), "{page}");
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
    let veth = if quoteway::lab::nodes::Nodes::can_be_made() {
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
            "measure = 'one-way', transports = 'lbtrm', rates = '1000', paths = 3, idle = 'block', report = 'T'",
        ),
        grid(
            "found",
            "measure = 'one-way', transports = 'lbtru', rates = 'search', profile = 'throughput', idle = 'block'",
        ),
    ];
    std::fs::write(file("own.toml"), scenarios.concat()).unwrap();
    let table = "test,payload_bytes,target_rate_per_s,run,actual_rate_per_s,median_us,mean_us,stddev_us,min_us,max_us,p99_us,p999_us\n\
                 T,64,1000,1,999,11,12,2,5,50,20,30\n";
    std::fs::write(file("latency-lbm339-10gige.csv"), table).unwrap();
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
        "--reference",
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
    assert!(csv.contains("paths,lbtrm-64b-1k,published: T,,call_mean_us,12"), "{csv}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("As the report has it (T)") && page.contains("published, 64 B"), "{page}");
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
    let listed = lab(&["list"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.status.success() && text.contains("chain") && text.contains("(on request)"), "{text}");
}
