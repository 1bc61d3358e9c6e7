//! The page's history of before it was opened, and who is not told.

use serde_json::Value;

use crate::http::{demo, serve};
use crate::steering::source;

fn told(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

fn ticks(told: &Value) -> Vec<(u64, f64)> {
    let all = told["ticks"].as_array().into_iter().flatten();
    all.filter_map(|tick| Some((tick["time_ms"].as_u64()?, tick["price"].as_f64()?))).collect()
}

#[test]
fn a_demo_remembers_its_watchlist_from_the_start_and_others_once_somebody_looks() {
    let demo = demo(&["IBM.N"]);
    // Without a question for it: the items that are watched twice are those that are remembered.
    demo.wait_for("/api/v1/clients", |_, body| body.contains("Quoteway history"));
    let path = "/api/v1/history/DIRECT_FEED/IBM.N";
    let early = told(&demo.wait_for(path, |status, body| status == 200 && ticks(&told(body)).len() > 3));
    let since = early["since_ms"].as_u64().expect("a time");
    assert!(early["waiting"].is_null() && since <= ticks(&early)[0].0, "{early}");
    let later = told(&demo.wait_for(path, |_, body| ticks(&told(body)).len() > ticks(&early).len()));
    assert_eq!(later["since_ms"].as_u64(), Some(since), "it goes on");
    assert!(ticks(&later).starts_with(&ticks(&early)), "what was told stays");
    let bar = &later["bars"][0];
    let of = |name: &str| bar[name].as_f64().expect("a price");
    assert!(of("low") <= of("open") && of("open") <= of("high") && of("close") <= of("high"), "{bar}");

    let other = "/api/v1/history/DIRECT_FEED/GOOG.O";
    assert!(ticks(&demo.json(other)).is_empty(), "nothing is known of before");
    let first = told(&demo.wait_for(other, |_, body| ticks(&told(body)).len() > 3));
    assert!(first["since_ms"].as_u64() > Some(since), "{first}");
    // In a time in which nobody looks as well.
    let last = ticks(&first).last().expect("a price").0;
    demo.wait_for(other, |_, body| ticks(&told(body)).last().is_some_and(|(at, _)| at - last > 1_000));
}

#[test]
fn nobody_consumes_for_a_page_that_nobody_has_opened() {
    let (_source, at) = source();
    let server = serve(&["--route", &at]);
    server.wait_for("/readyz", |status, _| status == 200);
    assert_eq!(server.json("/api/v1/process")["totals"]["clients"], 0);
    let path = "/api/v1/history/DIRECT_FEED/RDT0";
    server.wait_for(path, |status, body| status == 200 && !ticks(&told(body)).is_empty());
    assert_eq!(server.json("/api/v1/process")["totals"]["clients"], 1);
}

#[test]
fn who_has_no_right_to_an_item_is_not_told_of_its_past() {
    let rights = |of_web: &str| {
        format!(
            "version = \"{of_web}\"\n[services.DIRECT_FEED]\nid = 1\nguard = \"subject\"\n\
            [services.DIRECT_FEED.subservices]\nEQUITIES = \"exchange\"\nRATES = \"exchange\"\n\
            [services.DIRECT_FEED.subjects]\n\"RDT0\" = \"RATES\"\n\"RDT*\" = \"EQUITIES\"\n\
            [users.web.grants]\nDIRECT_FEED = [\"{of_web}\"]\n"
        )
    };
    let dir = tempfile::tempdir().expect("a folder");
    let (file, config) = (dir.path().join("rights.toml"), dir.path().join("q.toml"));
    let put = |of_web: &str| {
        // In one step: half a file would be a fault.
        let whole = dir.path().join("next");
        std::fs::write(&whole, rights(of_web)).and_then(|()| std::fs::rename(&whole, &file)).expect("written");
    };
    put("EQUITIES");
    let text = format!("[permissions]\nmode = \"on\"\nrights_file = \"{}\"\n", file.display());
    std::fs::write(&config, text).expect("written");
    let (_source, at) = source();
    let server = serve(&["--route", &at, "--config", config.to_str().expect("UTF-8")]);
    let (rates, equities) = ("/api/v1/history/DIRECT_FEED/RDT0", "/api/v1/history/DIRECT_FEED/RDT1");
    let denied = server.wait_for(rates, |status, _| status == 403);
    assert!(denied.contains("not permissioned for RATES"), "{denied}");
    server.wait_for(equities, |status, body| status == 200 && !ticks(&told(body)).is_empty());
    // A right that is taken away takes with it what was remembered, and one that is given does not bring back what was before.
    put("RATES");
    server.wait_for(equities, |status, _| status == 403);
    let given = told(&server.wait_for(rates, |status, body| status == 200 && !ticks(&told(body)).is_empty()));
    assert!(given["since_ms"].as_u64() <= ticks(&given).first().map(|tick| tick.0), "{given}");
}
