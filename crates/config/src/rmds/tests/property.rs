//! Properties of the grammar and of the rule of precedence.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::place;
use crate::rmds::lookup::{Level, Place, Weight, level_weights};
use crate::rmds::read;
use crate::rmds::syntax::{Binding, Key, Line, Word, parse};
use crate::{Config, Selection, toml_file};

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_-]{0,8}"
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![9 => name().prop_map(Word::Name), 1 => Just(Word::Any)]
}

fn binding() -> impl Strategy<Value = Binding> {
    prop_oneof![3 => Just(Binding::Loose), 1 => Just(Binding::Tight)]
}

fn key() -> impl Strategy<Value = Key> {
    let host = prop::option::of("[a-z][a-z0-9-]{0,6}(\\.[a-z0-9]{1,3}){0,2}");
    (host, prop::collection::vec((binding(), word()), 0..5), name()).prop_map(|(host, mut words, last)| {
        words.push((Binding::Loose, Word::Name(last)));
        // Levels behind the host are bound by the first *.
        words[0].0 = Binding::Loose;
        Key { host, words }
    })
}

fn line() -> impl Strategy<Value = (Key, String)> {
    (
        key(),
        "[A-Za-z0-9,:=./-]([ -;=-z|~]{0,20}[A-Za-z0-9,:=./-])?".prop_filter("a placeholder", |v| !v.starts_with('{')),
    )
}

proptest! {
    #[test]
    fn a_generated_file_reads_back_as_it_was_written(lines in prop::collection::vec(line(), 0..20), style in any::<u64>()) {
        let mut text = String::new();
        for (i, (key, value)) in lines.iter().enumerate() {
            let bit = |n: u32| style.rotate_left(i as u32 * 5 + n) & 1 == 1;
            if bit(0) {
                text.push_str(if bit(1) { "! a comment : x\n" } else { "  # another\n\n" });
            }
            let (before, sign, after) = (if bit(2) { " " } else { "" }, if bit(3) { ':' } else { '=' }, if bit(4) { "\t" } else { "" });
            let _ = write!(text, "{before}{key}{after}{sign}{after}{value}{before}{}", if bit(1) { "\r\n" } else { "\n" });
        }
        let (read, faults) = parse(&text);
        prop_assert!(faults.is_empty(), "{faults:?}\n{text}");
        let read: Vec<(Key, String)> = read.into_iter().map(|l| (l.key, l.value)).collect();
        prop_assert_eq!(read, lines);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        crate::rmds::hostile(&bytes);
        let _ = toml_file::parse("f", &text);
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = read("f", &text, &place("box", "1"));
        }
    }

    #[test]
    fn nothing_like_a_file_makes_it_panic(
        lines in prop::collection::vec("[*.]?(box|P2PS|adh|RRCP|a|\\?|\\{n\\}|é)?[*.](P2PS|ADH|route|14002|x|bindWriteThread|[*]|\\?)?[*.](rsslPort|hostList|routeList|1|cacheType|[*]|x)?[ ]?[:=]?(1|x|True|\\\\|<a>)?", 0..12)
    ) {
        crate::rmds::hostile(lines.join("\n").as_bytes());
    }

    #[test]
    fn levels_are_weighed_as_by_trying_every_way(
        words in prop::collection::vec((binding(), prop_oneof![3 => "[ab]".prop_map(Word::Name), 1 => Just(Word::Any)]), 0..5),
        levels in prop::collection::vec(prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("")], 0..6),
    ) {
        let shape: Vec<Level<'_>> = levels.iter().map(|l| if l.is_empty() { Level::Free } else { Level::Is(l) }).collect();
        prop_assert_eq!(level_weights(&words, &shape), every_way(&words, &levels));
    }

    #[test]
    fn the_line_that_counts_is_that_of_the_naive_rule(lines in prop::collection::vec(applicable(), 1..12)) {
        let mut text = String::new();
        for (key, value) in &lines {
            let _ = writeln!(text, "{key} : {value}");
        }
        let here = place("box", "2");
        let reading = read("f", &text, &here).unwrap_or_else(|e| panic!("{e}"));
        let parsed = parse(&text).0;
        prop_assert_eq!(reading.loaded.config.p2ps.max_mounts, naive_max_mounts(&parsed, &here));
    }

    #[test]
    fn an_imported_file_is_the_same_configuration(lines in prop::collection::vec(meaningful(), 0..15)) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("site.cnf");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let selection = Selection { host: Some("box".into()), instance: None };
        let Ok(loaded) = crate::load(&file, &selection) else { return Ok(()) };
        let toml = crate::import(&file, &selection, false).unwrap();
        prop_assert_eq!(Config::parse("site.toml", &toml).unwrap_or_else(|e| panic!("{e}\n{toml}")), loaded.config);
    }
}

/// Every choice of one level for each word, in order, that the bindings allow; the best is the one that is greatest from the left.
fn every_way(words: &[(Binding, Word)], levels: &[&str]) -> Option<Vec<u8>> {
    let mut best: Option<Vec<u8>> = None;
    for choice in 0u32..1 << levels.len() {
        let chosen: Vec<usize> = (0..levels.len()).filter(|l| choice >> l & 1 == 1).collect();
        // The parameter itself has to be named, by the last word.
        if chosen.len() != words.len() || chosen.last().copied() != levels.len().checked_sub(1) {
            continue;
        }
        let mut weights = vec![0; levels.len()];
        let mut allowed = true;
        for (i, (binding, word)) in words.iter().enumerate() {
            let next = if i == 0 { 0 } else { chosen[i - 1] + 1 };
            allowed &= *binding == Binding::Loose || chosen[i] == next;
            let level = levels[chosen[i]];
            weights[chosen[i]] = match (word, binding) {
                (Word::Name(n), Binding::Tight) if level.is_empty() || n == level => 4,
                (Word::Name(n), Binding::Loose) if level.is_empty() || n == level => 3,
                (Word::Any, Binding::Tight) => 2,
                (Word::Any, Binding::Loose) => 1,
                _ => {
                    allowed = false;
                    0
                }
            };
        }
        if allowed && best.as_ref().is_none_or(|b| *b < weights) {
            best = Some(weights);
        }
    }
    if words.is_empty() && levels.is_empty() { Some(Vec::new()) } else { best }
}

/// Lines that all name `maxMounts` of a P2PS, for this host or another.
fn applicable() -> impl Strategy<Value = (String, u32)> {
    let host =
        prop_oneof![Just(""), Just("box"), Just("box.2"), Just("box.1"), Just("BOX"), Just("other"), Just("other.2")];
    let middle = prop_oneof![
        Just("*"),
        Just("*P2PS*"),
        Just("*ads*"),
        Just("*P2PS."),
        Just("*?*"),
        Just("*P2PS*14002*"),
        Just("*ADS.14002."),
        Just("*P2PS*?.")
    ];
    (host, middle, 1..1000u32).prop_map(|(host, middle, value)| (format!("{host}{middle}maxMounts"), value))
}

/// The rule in the plainest words: compare two lines level by level, host first; the first difference decides.
fn naive_max_mounts(lines: &[Line], here: &Place) -> u32 {
    let rank = |line: &Line| -> Option<[u8; 4]> {
        let host = match line.key.host.as_deref().map(str::to_lowercase) {
            None => 0,
            Some(h) if h == here.host => 1,
            Some(h) if h == format!("{}.{}", here.host, here.instance) => 2,
            Some(_) => return None,
        };
        let shown = line.key.to_string().to_lowercase();
        let rest = shown.trim_start_matches(|c| c != '*');
        let levels = match rest {
            "*maxmounts" => [0, 0, 3],
            "*p2ps*maxmounts" | "*ads*maxmounts" => [3, 0, 3],
            "*p2ps.maxmounts" => [3, 0, 4],
            "*?*maxmounts" => [1, 0, 3],
            "*p2ps*14002*maxmounts" => [3, 3, 3],
            "*ads.14002.maxmounts" => [3, 4, 4],
            "*p2ps*?.maxmounts" => [3, 1, 4],
            other => panic!("{other}"),
        };
        Some([host, levels[0], levels[1], levels[2]])
    };
    let mut best: Option<([u8; 4], u32)> = None;
    for line in lines {
        let Some(rank) = rank(line) else { continue };
        if best.is_none_or(|(b, _)| b <= rank) {
            best = Some((rank, line.value.parse().expect("a number")));
        }
    }
    best.map_or(Config::default().p2ps.max_mounts, |(_, value)| value)
}

/// Lines as a site has them.
fn meaningful() -> impl Strategy<Value = String> {
    let host = prop_oneof![Just(""), Just("box"), Just("other")];
    let rest = prop_oneof![
        (1..60000u32).prop_map(|n| format!("*P2PS*rsslPort : {n}")),
        (1..5000u32).prop_map(|n| format!("*ads*maxMounts = {n}")),
        any::<bool>().prop_map(|b| format!("*P2PS*tcpNoDelay : {b}")),
        (0..3u32).prop_map(|n| format!("*P2PS*compressionType : {n}")),
        (1..64u32, 0..8u32).prop_map(|(n, cpu)| format!("*P2PS*bindWriteThread.{n} : {cpu}")),
        ("[a-c]", "[a-z]{1,8}(, [a-z]{1,8}:[1-9]{1,4}){0,2}")
            .prop_map(|(r, h)| format!("*adh*{r}.route*hostList : {h}")),
        ("[a-c]", "[A-Z]{1,4}").prop_map(|(r, s)| format!("*adh*{r}.route*serviceList : {s}")),
        (1..100u32).prop_map(|n| format!("*adh*route*recoveryInterval : {n}")),
        Just("*FEED*cacheType : sinkDriven".to_owned()),
        Just("*RRCP*nmissing : 1".to_owned()),
        "[a-z/]{1,10}".prop_map(|f| format!("*FEED*fieldDictionary : {f}")),
    ];
    (host, rest).prop_map(|(host, rest)| format!("{host}{rest}"))
}

#[test]
fn weights_compare_host_first() {
    assert!(Weight::new(1, vec![0]) > Weight::new(0, vec![4, 4]));
    assert!(Weight::new(1, vec![3, 0, 3]) > Weight::new(1, vec![1, 4, 4]));
}
