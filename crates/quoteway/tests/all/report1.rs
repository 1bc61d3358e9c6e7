//! The benchmark of the reference architecture of 2008 (Red Hat, RMDS 6), its §4.4, as it is printed there: two programs on one
//! host, Source Distributor and P2PS on another, their configuration in `rmds.cnf`, and the update rate changed while it runs.
//!
//! Only the programs are others: links to `quoteway` with the original names. It needs hosts (see `hosts`).

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::hosts::{Host, Lan};
use measure::process::Process;

/// §4.3.5 as printed; what is in braces there has names here.
const RMDS_CNF: &str = "\
{node}*Src_Dist*{route_inst}.route*hostList : <sinkdrivensrc_hostname>
{node}*Src_Dist*{route_inst}.route*port : 14002
{node}*Src_Dist*{route_inst}.route*sslMountVersion : 5
*P2PS*14002*clientToServerPings : False
*P2PS*14002*pingTimeout : 30
*P2PS*14002*serverToClientPings : False
*P2PS*aggregateItemLimit : 100000
*P2PS*allowCompMode : True
*P2PS*allowRSSLConnections : True
*P2PS*allowSSLConnections : True
*P2PS*compressionType : 0
*P2PS*disableHostLookup : True
*P2PS*flushInterval:0
*P2PS*guaranteedOutputBuffers : 1600
*P2PS*hashTableSize : 200000
*P2PS*itemLimit : 100000
*P2PS*maxMounts : 100
*P2PS*maxOutputBuffers : 1600
*P2PS*minimumOpenWindow : 500
*P2PS*outputThresholdBreach : 30
*P2PS*outputThresholdOK : 10
*P2PS*pingInterval : 10
*P2PS*poolSize : 2000
*P2PS*portList : 8101
*P2PS*rrmpProtocols : rrmp4and6
*P2PS*rsslMsgPacking : True
*P2PS*rsslPort : 14002
*P2PS*sessionStatsWindow : 1
*P2PS*sslMsgPacking : True
*P2PS*tcpNoDelay : True
*P2PS*tcpSendBufSize : 64240
*P2PS*timedWrites : False
*RRCP*switchReorderFixEnabled : False
";

/// How long anything may take: the machine may be slow and busy.
const PATIENCE_S: f64 = 120.0;

fn started(host: &Host, folder: &Path, line: &str) -> Process {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command: Command = host.command(words[0]);
    command.args(&words[1..]).current_dir(folder).env_remove("QUOTEWAY_LOG");
    Process::start(words[0], &mut command).unwrap_or_else(|fault| panic!("{line}: {fault:?}"))
}

#[test]
fn the_benchmark_of_report_1_runs_as_it_is_printed() {
    let Some(lan) = Lan::new(&["node1", "node2"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for program in ["Sink_Driven_Src", "RMDSTestClient"] {
        symlink(env!("CARGO_BIN_EXE_quoteway"), folder.join(program)).unwrap();
    }
    let (load, server) = (lan.host("node1"), lan.host("node2"));
    let cnf = RMDS_CNF
        .replace("{node}", "node2")
        .replace("{route_inst}", "rdf")
        .replace("<sinkdrivensrc_hostname>", &load.address.to_string());
    std::fs::write(folder.join("rmds.cnf"), cnf).unwrap();
    let mut items: Vec<String> = (0..99_999).map(|n| format!("RDT{n}.N")).collect();
    items.push("RTRSY.O".to_owned());
    std::fs::write(folder.join("rdf.100kitems"), items.join("\n")).unwrap();

    let mut source = started(
        load,
        folder,
        "./Sink_Driven_Src -S RDFD -N 14002 -Q sample.xml -q GOOG.O -K -c -tcpnodel -ts -tsn RTRSY.O -UL 10 -tps 500",
    );
    source.wait_for("is published", PATIENCE_S).expect("the source listens");
    let serve = format!("{} serve --config rmds.cnf --host node2", env!("CARGO_BIN_EXE_quoteway"));
    let mut distribution = started(server, folder, &serve);
    distribution.wait_for("ready", PATIENCE_S).expect("the P2PS listens");
    let client = format!(
        "./RMDSTestClient -S RDFD -h {} -p 14002 -md 6 decodeFormat 3 -l 1 -o 500 -u rmds -tt -lmfile result_file \
         -f rdf.100kitems -ct rssl -rf 12",
        server.address
    );
    let mut client = started(load, folder, &client);
    let seen = |client: &mut Process, rate: f64| {
        for _ in 0..600 {
            let Some(line) = client.next_line(PATIENCE_S).expect("it goes on") else { panic!("it ended") };
            let cells: Vec<&str> = line.text.split_whitespace().collect();
            // seconds, updates/s, mean, ..., # samples, ..., images, lost
            let number = |n: usize| cells.get(n).and_then(|cell| cell.parse::<f64>().ok());
            if let (Some(updates), Some(mean), Some(samples)) = (number(1), number(2), number(6))
                && updates > rate / 2.0
                && samples > 0.0
            {
                assert!(mean > 0.0 && number(11) == Some(0.0), "{}", line.text);
                // A busy machine answers the first updates before the last image.
                if number(10) == Some(100_000.0) {
                    return;
                }
            }
        }
        panic!("{rate} updates a second of 100,000 items with images were not seen");
    };
    for rate in [1_000.0, 5_000.0] {
        source.tell(&format!("ur {rate}")).unwrap();
        seen(&mut client, rate);
    }
    let interrupted = Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let report = client.json(PATIENCE_S).expect("the line at the end");
    assert_eq!((&report["complete"], &report["lost"]), (&true.into(), &0.into()), "{report}");
    let results = std::fs::read_to_string(folder.join("result_file")).unwrap();
    let with_samples = results.lines().skip(1).filter(|line| line.split(',').nth(6).is_some_and(|n| n != "0"));
    assert!(with_samples.count() >= 2, "{results}");
    source.tell("quit").unwrap();
}
