//! Sites that are each other's providers: what comes through several of them, and what would go in a circle.

use std::path::Path;

use serde_json::Value;

use crate::http::{Process, start};
use crate::steering::{Program, consumer, ctl, program, source};

/// A server of a site whose providers are these.
fn site(dir: &Path, name: &str, routes: &[String]) -> Process {
    let file = configured(dir, name, routes);
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    start(&[&ports[..], &["--config", &file]].concat())
}

fn configured(dir: &Path, name: &str, routes: &[String]) -> String {
    let file = dir.join(format!("{name}.toml"));
    let routes = routes.iter().map(|at| format!("[[route]]\nhost_list = [\"{at}\"]\n")).collect::<Vec<_>>().concat();
    std::fs::write(&file, format!("[p2ps]\nenable_cache = true\n[source_distributor]\nsite = \"{name}\"\n{routes}"))
        .expect("written");
    file.to_str().expect("UTF-8").to_owned()
}

/// Whether the service is up, and the sites that it comes through.
fn feed(body: &str) -> Option<(bool, Vec<String>)> {
    let services: Value = serde_json::from_str(body).expect("JSON");
    let feed = services.as_array()?.iter().find(|service| service["name"] == "DIRECT_FEED")?;
    let path = feed["path"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some((feed["up"].as_bool()?, path))
}

fn is(server: &Process, up: bool, path: &[&str]) {
    let path: Vec<String> = path.iter().map(|&site| site.to_owned()).collect();
    server.wait_for("/api/v1/services", |_, body| feed(body) == Some((up, path.clone())));
}

#[test]
fn three_sites_serve_each_other_and_nothing_goes_in_a_circle() {
    let dir = tempfile::tempdir().expect("a folder");
    let (provider, at) = source();
    let paris = site(dir.path(), "paris", std::slice::from_ref(&at));
    let rome = site(dir.path(), "rome", &[paris.at("rssl")]);
    let oslo = site(dir.path(), "oslo", &[rome.at("rssl")]);
    is(&oslo, true, &["oslo", "rome", "paris"]);
    // The circle is closed.
    configured(dir.path(), "paris", &[at.clone(), oslo.at("rssl")]);
    let (done, said) = ctl(&paris, &["reload", "--why", "another provider"]);
    assert!(done, "{said}");
    paris.wait_for("/api/v1/events", |_, body| body.contains("it goes in a circle (oslo < rome < paris)"));
    let _consumer = consumer(&oslo);
    let all_open = |body: &str| {
        let services: Value = serde_json::from_str(body).expect("JSON");
        services[0]["providers"].as_array().is_some_and(|all| all.len() == 1 && all[0]["open"] == 3)
    };
    for server in [&oslo, &rome, &paris] {
        server.wait_for("/api/v1/services", |_, body| all_open(body));
    }
    oslo.wait_for("/api/v1/items/DIRECT_FEED/RDT1", |status, body| status == 200 && body.contains("\"current\":true"));

    // Nobody has it any more, and everybody knows; and it is back.
    drop(provider);
    is(&paris, false, &["paris"]);
    is(&oslo, false, &["oslo"]);
    let port = at.rsplit(':').next().expect("a port");
    let again = ["sink-driven-src", "--bind", "127.0.0.1", "-N", port, "-K", "-U", "200"];
    let _provider = Program(program(&again).spawn().expect("it starts"));
    is(&paris, true, &["paris"]);
    is(&oslo, true, &["oslo", "rome", "paris"]);
    for server in [&oslo, &rome, &paris] {
        server.wait_for("/api/v1/services", |_, body| all_open(body));
    }
}

/// A site with two servers says how full each is, and the site behind it asks the one that is less so.
#[test]
fn the_site_below_asks_the_server_that_says_it_is_less_full() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_provider, at) = source();
    let above = |name: &str| {
        let file = dir.path().join(format!("{name}.toml"));
        let text = format!(
            "[p2ps]\nmax_mounts = 8\nload_factor_interval_s = 1\n[source_distributor]\nsite = \"above\"\n[[route]]\nhost_list = [\"{at}\"]\n"
        );
        std::fs::write(&file, text).expect("written");
        let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
        start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat())
    };
    let (full, free) = (above("full"), above("free"));
    let _busy = [consumer(&full), consumer(&full), consumer(&full)];
    // By their order and by their counts the full one would be asked first.
    let below = site(dir.path(), "below", &[full.at("rssl"), free.at("rssl")]);
    let providers = |body: &str| -> Vec<(String, u64, u64)> {
        let services: Value = serde_json::from_str(body).expect("JSON");
        let of = |o: &Value| {
            (
                o["address"].as_str().unwrap_or_default().to_owned(),
                o["load_factor"].as_u64().unwrap_or(0),
                o["open"].as_u64().unwrap_or(0),
            )
        };
        services[0]["providers"].as_array().into_iter().flatten().map(of).collect()
    };
    // Three consumers and the site are four of eight mounts, and the site alone is one.
    let told = [(full.at("rssl"), 65_535 / 2), (free.at("rssl"), 65_535 / 8)];
    let is_told = |body: &str| told.iter().all(|(at, load)| providers(body).iter().any(|p| p.0 == *at && p.1 == *load));
    below.wait_for("/api/v1/services", |_, body| is_told(body));
    let _consumer = consumer(&below);
    let is_open = |body: &str| providers(body).iter().all(|p| p.2 == if p.0 == free.at("rssl") { 3 } else { 0 });
    below.wait_for("/api/v1/services", |_, body| is_open(body));
}
