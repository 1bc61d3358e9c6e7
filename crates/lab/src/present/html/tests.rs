//! The numbers of the page, and what must not be in it.

use std::collections::BTreeMap;

use super::*;
use crate::results::series::{Point, Series};
use crate::results::{Metrics, Observed, Verdict};
use measure::observer::analysis::{Outlier, Percentile};
use measure::observer::steady::Window;

fn metrics(figures: &[(&str, f64)]) -> Metrics {
    figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn environment() -> Environment {
    Environment {
        host: "box: 2 x CPU <fast>".to_owned(),
        sockets: "wmem_max 1".to_owned(),
        program: "quoteway-lab 0.1.0, commit abc".to_owned(),
        lab: "/bin/quoteway-lab".to_owned(),
        product: "/bin/quoteway, 7 bytes".to_owned(),
        command: "quoteway-lab reports".to_owned(),
        at: "2026-11-20T10:15:00Z".to_owned(),
        facts: vec![("steal".to_owned(), "0.1 %".to_owned())],
    }
}

/// Two rates with bursts, the even runs beside them, a published series; a throughput with one.
fn outcomes() -> Vec<Outcome> {
    let mut rows = Vec::new();
    for (label, mean) in [("10k", 68.7), ("100k", 96.5)] {
        let mut row = Row::new(label);
        let mut ours = metrics(&[("rate", 1e4), ("p50_us", 150.0), ("call_mean_us", mean), ("call_stddev_us", 23.0)]);
        ours.figures.extend(metrics(&[("call_max_us", 195.0), ("call_min_us", 26.0), ("samples", 11_900.0)]).figures);
        ours.observed = Some(Observed {
            buckets: BTreeMap::from([(5, 90), (6, 9), (900, 1)]),
            percentiles: [(0.5, 55.0, 50), (0.9, 58.0, 90), (0.99, 65.0, 99), (1.0, 9_000.0, 100)]
                .map(|(share, us, count)| Percentile { share, us, count })
                .to_vec(),
            windows: (0..40)
                .map(|n| Window { at_s: f64::from(n) / 10.0, median_us: 150.0, ..Window::default() })
                .collect(),
            discarded_s: 0.5,
            is_steady: true,
            outliers: vec![Outlier { at_s: 1.25, us: 9_000.0 }],
            each_second: vec![9_990.0, 10_010.0],
            ..Observed::default()
        });
        row.add(Side::Ours, ours);
        row.add(Side::Smooth, metrics(&[("rate", 1e4), ("p50_us", 97.0), ("p99_us", 4_000.0)]));
        row.add(Side::Floor, metrics(&[("rate", 1e4), ("p50_us", 48.5)]));
        row.add(Side::Eta, metrics(&[("p50_us", 194.0)]));
        rows.push(row);
    }
    let point = |rate, mean_us| Point { rate, mean_us, stddev_us: 42.06, max_us: 814.0, min_us: None, samples: None };
    let points = vec![point(10_000.0, 379.0), point(100_000.0, 1_216.0), point(200_000.0, 2_000.0)];
    let original =
        Series { label: "RMDS 6".to_owned(), points, highest: 2e5, place: "table 1".to_owned(), ..Series::default() };
    let mut max = Row::new("max");
    max.add(Side::Ours, metrics(&[("rate", 8e6)]));
    max.add(Side::Floor, metrics(&[("rate", 10e6)]));
    let verdict = Verdict::of("max rate >= 9e6".parse().unwrap(), std::slice::from_ref(&max));
    let highest = Series { label: "TREP".to_owned(), highest: 4.7e6, ..Series::default() };
    vec![
        Outcome {
            name: "two".to_owned(),
            title: "Two nodes".to_owned(),
            conditions: "2 nodes".to_owned(),
            rows,
            originals: vec![original],
            notes: vec!["a < b".to_owned()],
            ..Outcome::default()
        },
        Outcome {
            name: "all".to_owned(),
            title: "Throughput".to_owned(),
            rows: vec![max],
            verdicts: vec![verdict],
            originals: vec![highest],
            ..Outcome::default()
        },
    ]
}

#[test]
fn the_key_results_say_what_was_measured_and_what_was_published() {
    let page = page(&environment(), 1, &outcomes());
    for part in [
        "<b>Two nodes</b>: mean latency 68.7 µs at 10k/s, 96.5 µs at 100k/s; published: RMDS 6 379 µs at 10k/s, 1216 µs at 100k/s.",
        "<b>Two nodes</b>: median beside ETA Java, direct 97 µs against 194 µs at 10k/s, 97 µs against 194 µs at 100k/s.",
        "So few runs show that everything works, and support no claim. Medians of 1 run(s)",
        "<td>at least 9.00 M/s</td><td>8.00 M/s</td><td><span class=\"missed\">missed</span></td>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn a_rate_that_was_not_held_is_no_result() {
    let mut all = outcomes();
    let mut late = Row::new("200k");
    let figures = [
        ("rate", 1.2e5),
        ("call_mean_us", 90_000.0),
        ("call_max_us", 190_000.0),
        ("call_stddev_us", 7_000.0),
        ("held", 0.0),
    ];
    late.add(Side::Ours, metrics(&figures));
    all[0].rows.push(late);
    let page = page(&environment(), 1, &all);
    for part in [
        "96.5 µs at 100k/s; published",
        "<td>200000, not held by ours</td>",
        "Rates that were not held are in no chart over the rate: Quoteway 200k/s.",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // In no chart over the rate is a third point of ours.
    let rows = charts::rated(&all[0]);
    for metric in ["call_mean_us", "call_max_us", "call_stddev_us"] {
        let rates: Vec<f64> = charts::series(&rows, Side::Ours, metric).iter().map(|(rate, _)| *rate).collect();
        assert_eq!(rates, [1e4, 1e5], "{metric}");
    }
}

#[test]
fn a_rate_that_was_sought_and_not_held_is_none() {
    let mut late = Row::new("search");
    late.add(Side::Ours, metrics(&[("rate", 6e6), ("held", 0.0)]));
    let verdict = Verdict::of("search rate >= 5e6".parse().unwrap(), std::slice::from_ref(&late));
    let sought = Outcome { rows: vec![late], verdicts: vec![verdict], ..outcomes().remove(1) };
    assert_eq!(charts::held(&sought), None);
    for originals in [sought.originals.clone(), Vec::new()] {
        let page = page(&environment(), 1, &[Outcome { originals, ..sought.clone() }]);
        for part in ["held without a growing queue", ">Quoteway, held<", "search rate 6.00 M/s", "\"met\""] {
            assert!(!page.contains(part), "{part}\n{page}");
        }
    }
}

/// What is published was sustained.
#[test]
fn nothing_unpaced_stands_beside_a_published_rate() {
    let all = outcomes();
    let page = page(&environment(), 1, &all);
    assert!(!page.contains("unpaced") && page.contains(">TREP<") && page.contains(">4.7M/s<"), "{page}");
    let key = |page: &str| {
        let (_, from) = page.split_once("<section class=\"key\">").expect("key results");
        from.split_once("</section>").expect("their end").0.to_owned()
    };
    assert!(key(&page).contains("Two nodes") && !key(&page).contains("8.00 M/s"), "{page}");
    let mut held = Row::new("search");
    held.add(Side::Ours, metrics(&[("rate", 6e6)]));
    held.add(Side::Floor, metrics(&[("rate", 6e6)]));
    let sought = Outcome { rows: vec![held], ..all[1].clone() };
    let text = super::page(&environment(), 1, std::slice::from_ref(&sought));
    for part in [
        "<b>Throughput</b>: 6M/s held without a growing queue; published: 4.7M/s (TREP).",
        ">Quoteway, held<",
        ">bare loop, asked for as much<",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Without a published rate there is nothing to keep it from.
    let own = Outcome { originals: Vec::new(), ..all[1].clone() };
    assert!(key(&super::page(&environment(), 1, &[own])).contains("8M/s unpaced; bare loop: 10M/s unpaced."));
}

#[test]
fn the_tables_hold_the_numbers_of_the_rows() {
    let page = page(&environment(), 1, &outcomes());
    for part in [
        "<tr><td>10000</td><td>68.700</td><td>23.000</td><td>195.000</td><td>26.000</td><td>11900</td><td>379</td><td>42.06</td><td>814</td><td></td><td></td></tr>\n<tr><td>100000</td><td>96.500</td>",
        "<td>1216</td><td>42.06</td>",
        "<th colspan=\"5\">RMDS 6 (table 1)</th></tr>",
        // The bare loop is compared with the evenly paced run, 97.0 / 48.5.
        "<tr><td>p50_us</td><td>150.0 us</td><td>97.00 us</td><td>1.55</td><td>48.50 us</td><td>2.00</td><td>194.0 us</td><td>0.50</td></tr>",
        "<td>steal</td><td class=\"text\">0.1 %</td>",
        "<td>measured</td><td class=\"text\">quoteway, 7 bytes</td>",
        "<li>a &lt; b</li>",
        "1.0 % beyond",
        "steady from 0.50 s on",
        "<td class=\"text\">9990 10010</td><td class=\"text\">9 ms at 1.250 s</td>",
        "Percentile distributions (HDR), Quoteway",
        ">99 %</text>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let csv = csv(&outcomes());
    assert!(csv.contains("two,10k,ours,1,call_mean_us,68.7\n") && csv.contains("all,max,floor,1,rate,10000000\n"));
    assert!(csv.contains("two,10k,ours,1,second_1,10010\n") && csv.contains("two,10k,ours,1,outlier_1_at_s,1.25\n"));
    assert!(csv.contains("two,10k,ours,1,hdr_99,65\n") && csv.contains("two,10k,ours,1,hdr_100,9000\n"));
    assert!(csv.contains("two,200000,\"published: RMDS 6, table 1\",,mean_us,2000\n"));
}

#[test]
fn nothing_is_loaded_and_every_tag_is_closed() {
    let page = page(&environment(), 7, &outcomes());
    assert!(!page.contains("support no claim"));
    for word in ["<script", "http:", "https:", "url(", "@import", "src="] {
        assert!(!page.contains(word), "{word}");
    }
    let body = page.split_once("</style>").unwrap().1;
    let mut open = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        if tag.starts_with('/') {
            let last = open.pop();
            assert!(last == Some(name) || name == "head" || name == "html", "{last:?} is closed by {name}");
            if name == "head" || name == "html" {
                open.extend(last);
            }
        } else if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
    assert!(page.matches("<svg").count() >= 7, "{}", page.matches("<svg").count());
}

#[test]
fn a_call_without_results_is_a_page_too() {
    let page = page(&environment(), 1, &[Outcome { title: "Empty".to_owned(), ..Outcome::default() }]);
    assert!(page.contains("Empty") && !page.contains("Key results") && !page.contains("NaN"));
}

#[test]
fn what_has_goals_alone_is_told_by_them() {
    let mut row = Row::new("server");
    row.add(Side::Ours, metrics(&[("item_bytes", 267.4), ("cpu_ns", 30.0)]));
    row.add(Side::Variant, metrics(&[("cpu_ns", 20.0)]));
    let goals = ["server item_bytes <= 300", "server cpu_ns/variant <= 1.1", "server other >= 1"];
    let verdicts = goals.map(|goal| Verdict::of(goal.parse().unwrap(), std::slice::from_ref(&row))).to_vec();
    let outcome = Outcome { title: "Memory of `serve`".to_owned(), rows: vec![row], verdicts, ..Outcome::default() };
    let page = page(&environment(), 1, &[outcome]);
    let expected =
        "<b>Memory of <code>serve</code></b>: server item_bytes 267.4 B; server cpu_ns, ours : variant, 1.50.";
    assert!(page.contains(expected), "{page}");
}
