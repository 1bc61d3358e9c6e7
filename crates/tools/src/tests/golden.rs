//! Command lines and tables of the tools, against texts in `golden`.
//!
//! `QUOTEWAY_GOLDEN=write cargo test -p quoteway-tools --lib golden` writes the texts anew; look at the difference before you
//! commit it.

use std::ffi::OsString;
use std::fmt::{Debug, Write as _};
use std::path::Path;

use crate::flags::{self, Flag};
use crate::sink_driven_src::commands::Command;
use crate::test_client::watch::Counts;
use crate::{dump, sink_driven_src, table, test_client};
use clap::Parser;
use measure::latency::{Latency, Summary};

/// Compares with a golden text, or writes it.
fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden").join(name);
    if std::env::var("QUOTEWAY_GOLDEN").as_deref() == Ok("write") {
        return std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let differs = expected.lines().zip(found.lines()).enumerate().find(|(_, (e, f))| e != f);
    assert!(
        expected == found,
        "{}: {differs:?}; if it is meant to be so, write it anew with QUOTEWAY_GOLDEN=write",
        path.display()
    );
}

/// What a command line changes against no flags at all, or the error that it gives.
fn parsed<A: Parser + Debug>(line: &str, table: &[Flag], out: &mut String) {
    let _ = writeln!(out, "$ {line}");
    let typed: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let words = |line: &str| flags::modernise(table, line.split_whitespace().map(OsString::from));
    let program = line.split_whitespace().next().unwrap();
    let plain = format!("{:#?}", A::try_parse_from(words(program)).unwrap());
    match A::try_parse_from(words(line)) {
        Ok(args) => {
            let shown = fields(&format!("{args:#?}"));
            let default = fields(&plain);
            for field in shown.iter().filter(|field| !default.contains(field)) {
                let _ = writeln!(out, "{field}");
            }
        }
        Err(e) => {
            // The first paragraph says what is wrong; the rest is the usage.
            let text = flags::as_typed(table, &typed, &e.to_string());
            for line in text.lines().take_while(|line| !line.starts_with("Usage") && !line.is_empty()) {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out.push('\n');
}

/// The fields of a struct's debug text, each on one line.
fn fields(text: &str) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for line in text.lines().skip(1) {
        let is_new = line.starts_with("    ") && !line.starts_with("     ") && line.contains(": ");
        match fields.last_mut() {
            _ if is_new => fields.push(line.trim().to_owned()),
            Some(last) => last.push_str(line.trim()),
            None => {}
        }
    }
    fields.iter().map(|field| field.trim_end_matches(['}', ',']).to_owned()).collect()
}

const SOURCE: &[&str] = &[
    // As the reports print it.
    "Sink_Driven_Src -S RDFD -N 14002 -Q sample.xml -q GOOG.O -K -c -tcpnodel -ts -tsn RTRSY.O -UL 10 -tps 500",
    "sink_driven_src -S SFWD -c -I 1 -E sslauto -Q file -K -N 8105 -U 2000",
    // Each flag, in both spellings.
    "src -S X",
    "src --service X",
    "src -N 14010",
    "src --port 14010",
    "src -Q data.xml",
    "src --data-file data.xml",
    "src -q GOOG.O",
    "src --template-item GOOG.O",
    "src -K",
    "src --keep",
    "src -c",
    "src --cycle",
    "src -E rssl",
    "src --protocol sslauto",
    "src -I 0.5",
    "src --interval 2",
    "src -tcpnodel",
    "src --tcp-no-delay",
    "src -ts",
    "src --timestamps",
    "src -tsn TRI.N",
    "src --timestamp-item TRI.N",
    "src -UL 100",
    "src --latency-updates 100",
    "src -tps 50",
    "src --ticks 50",
    "src -U 50k",
    "src --update-rate 1.5M",
    "src -U max",
    "src -U 0",
    "src --bind 127.0.0.1",
    "src --nip localhost:14003",
    "src --items A,B",
    "src --smooth",
    "src --stamp-all",
    "src --stamp-every 17",
    "src --size 130",
    "src --write-size 8192",
    "src --send-buffer 0",
    "src --idle yield",
    "src --seconds 5",
    "src --seed 7",
    "src --speed 0",
    "src --dictionary folder",
    "src --observe file --observe-every 10 --observe-capacity 100",
    "src --name run",
    // Values that begin with a dash, and several flags at once.
    "src -S -X",
    "src -U 5 --smooth -tps 9",
    // The fault.
    "src -N 70000",
    "src -N x",
    "src -E ssl",
    "src -tps 0",
    "src -tps 2000000",
    "src -U fast",
    "src -U -5",
    "src -UL many",
    "src -I soon",
    "src --size 10",
    "src --size x",
    "src --idle sleep",
    "src --bind nowhere",
    "src --stamp-every -1",
    "src --observe-every 0",
    "src -S",
    "src -x",
    "src word",
];

const CLIENT: &[&str] = &[
    "RMDSTestClient -S RDFD -h p2ps_2 -p 14002 -md 6 decodeFormat 3 -l 1 -o 500 -u rmds -tt -lmfile result -f rdf.100kitems \
     -ct rssl -rf 12",
    "rmdstestclient -S tEDD -p 14002 -u user -f file -v -I 2 -X -d 3",
    "client -S X",
    "client --service X",
    "client -h host",
    "client --host host",
    "client -p 14010",
    "client --port 14010",
    "client -md 8",
    "client --domain 7",
    "client -u me",
    "client --user me",
    "client -f items",
    "client --item-file items",
    "client -il A,B",
    "client --items RDT{0..9}",
    "client -ct socket",
    "client -ct encrypted --ca-file ca.pem",
    "client --connection-type encrypted",
    "client -tt",
    "client --timestamps",
    "client -lmfile out.csv",
    "client --latency-file out.csv",
    "client decodeFormat 3",
    "client -decodeFormat 1",
    "client --decode-format 2",
    "client -l 0",
    "client --log 2",
    "client -o 1000",
    "client --open-window 1000",
    "client -rf 12",
    "client --request-flags 0",
    "client -I 10",
    "client --interval 0.1",
    "client -v",
    "client --verbose",
    "client -X",
    "client --xml",
    "client -d 0",
    "client --dump-level 0",
    "client --mounts 100 --common 0.5",
    "client --dictionary folder",
    "client --record file --record-json",
    "client --seconds 60 --warmup 5",
    "client --name run",
    "client --json never",
    "client --receive-buffer 0",
    "client --observe file --observe-every 10 --observe-capacity 100",
    "client -p 99999",
    "client -md 300",
    "client -ct plugin",
    "client -ct ssl",
    "client -o 0",
    "client -rf -1",
    "client -l x",
    "client decodeFormat x",
    "client decodeFormat",
    "client -I never",
    "client --mounts 0",
    "client --common half",
    "client --json sometimes",
    "client --record-json",
    "client -z",
];

const DUMP: &[&str] = &[
    "dump a b",
    "dump --content capture --port 14002",
    "dump --content rssl",
    "dump --content message --coding hex",
    "dump --from client",
    "dump --json",
    "dump --to hex",
    "dump --from-json --to raw",
    "dump --json --expand-enums --explicit --strict --default-service 1",
    "dump --bytes --dictionary folder",
    "dump --json --to hex",
    "dump --from-json --content rssl",
    "dump --content nonsense",
    "dump --to nonsense",
    "dump --port x",
];

const COMMANDS: &[&str] = &[
    "ur 50000",
    "ur 1.5M",
    "ur max",
    "ur 0",
    "ur",
    "ur fast",
    "down",
    "up",
    "down now",
    "suspect",
    "suspect IBM.N",
    "ok IBM.N",
    "close IBM.N",
    "recover",
    "image",
    "malformed A B",
    "gap",
    "gap 10",
    "gap x",
    "mute",
    "answer",
    "hang 2.5",
    "hang",
    "hang 99999",
    "delay 0.5",
    "delay 60",
    "cut",
    "status",
    "help",
    "quit",
    "",
    "# later",
    "explode",
];

#[test]
fn every_flag_of_every_tool_is_parsed_as_it_was() {
    let mut out = String::new();
    for line in SOURCE {
        parsed::<sink_driven_src::Args>(line, flags::SINK_DRIVEN_SRC, &mut out);
    }
    check("sink-driven-src.flags.txt", &out);
    out.clear();
    for line in CLIENT {
        parsed::<test_client::Args>(line, flags::TEST_CLIENT, &mut out);
    }
    check("test-client.flags.txt", &out);
    out.clear();
    for line in DUMP {
        parsed::<dump::Args>(line, &[], &mut out);
    }
    check("dump.flags.txt", &out);
}

#[test]
fn every_flag_of_the_tables_has_a_case() {
    for (table, cases) in [(flags::SINK_DRIVEN_SRC, SOURCE), (flags::TEST_CLIENT, CLIENT)] {
        for flag in table {
            for spelling in [flag.typed, flag.meant] {
                let has = cases.iter().any(|line| line.split_whitespace().any(|word| word == spelling));
                assert!(has, "{spelling} has no case");
            }
        }
    }
}

#[test]
fn every_command_is_parsed_as_it_was() {
    let mut out = String::new();
    for line in COMMANDS {
        let _ = match Command::parse(line) {
            Ok(command) => writeln!(out, "> {line}\n{command:?}\n"),
            Err(text) => writeln!(out, "> {line}\n{text}\n"),
        };
    }
    check("sink-driven-src.commands.txt", &out);
}

/// A distribution with figures of every size.
fn latency() -> Summary {
    let mut latency = Latency::new();
    for n in 1..=1_000u64 {
        latency.record(n * n * 10);
    }
    latency.summary()
}

#[test]
fn every_table_looks_as_it_did() {
    let none = Summary::default();
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line("test-client:".to_owned());
    line(table::heading(table::CLIENT));
    line(table::client_row(1.0, 0.0, &none, 0, 0));
    line(table::client_row(10.04, 999.6, &latency(), 100_000, 0));
    line(table::client_row(86_400.0, 12_345_678.9, &latency(), 4_000_000_000, 17));
    line("\ntest-client -lmfile:".to_owned());
    line(table::CLIENT_CSV.to_owned());
    line(table::client_csv_row(1.0, 0.0, &none, 0, 0));
    line(table::client_csv_row(10.04, 999.6, &latency(), 100_000, 3));
    line("\nsink-driven-src:".to_owned());
    line(table::heading(table::SOURCE));
    line(table::source_row(&table::SourceLine { target: "0".to_owned(), ..table::SourceLine::default() }));
    line(table::source_row(&table::SourceLine {
        seconds: 5.0,
        updates_per_s: 49_998.7,
        target: "50000".to_owned(),
        streams: 100_000,
        requests: 100_004,
        blocked: 12,
        skipped: 3_000,
        late: latency(),
    }));
    line("\nthe line of JSON at the end of test-client:".to_owned());
    let counts = Counts { updates: 50_000, images: 1_000, refused: 2, lost: 3, reordered: 4, ..Counts::default() };
    let report = test_client::Report {
        name: "run".to_owned(),
        mounts: 2,
        streams: 1_002,
        seconds: 10.0,
        counts,
        latency: latency(),
        images_s: Some(0.123_456),
        complete: true,
        queue_growing: false,
    };
    line(report.json());
    line(test_client::Report { images_s: None, latency: none, ..report }.json());
    check("tables.txt", &out);
}
