//! Rules of the house that no compiler checks: what each room may use, how large a room may grow, what a tree may name.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn visit(dir: &Path, ending: &str, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).expect("a folder of the workspace").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != ".git" && name != "node_modules" {
                visit(&path, ending, each);
            }
        } else if name.to_string_lossy().ends_with(ending) {
            let text = fs::read_to_string(&path).expect("text");
            each(&path, &text);
        }
    }
}

fn fail_if_any(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn unsafe_code_is_forbidden_outside_net_and_the_c_libraries() {
    let mut found = Vec::new();
    for krate in fs::read_dir(root().join("crates")).unwrap().flatten() {
        if ["net", "lines", "lbm-c", "client-c"].iter().any(|allowed| krate.file_name() == *allowed) {
            continue;
        }
        for top in ["src/lib.rs", "src/main.rs"] {
            let path = krate.path().join(top);
            if let Ok(text) = fs::read_to_string(&path)
                && !text.contains("#![forbid(unsafe_code)]")
            {
                found.push(path.display().to_string());
            }
        }
    }
    fail_if_any(&found, "without #![forbid(unsafe_code)]");
}

#[test]
fn state_machines_know_nothing_of_the_world() {
    let mut found = Vec::new();
    for krate in [
        "rwf",
        "rwf-text",
        "page",
        "names",
        "capture",
        "client",
        "market",
        "rssl",
        "lbm",
        "lbm-queue",
        "lbm-router",
        "lbm-store",
        "lbm-failover",
        "hub-content",
        "hub-distributor",
        "hub-items",
        "hub-p2ps",
        "hub-stream",
        "omm",
        "permissions",
        "marketfeed",
        "venue",
        "scenario",
    ] {
        visit(&root().join("crates").join(krate).join("src"), ".rs", &mut |path, text| {
            for word in
                ["Instant::now", "SystemTime", "std::net::Tcp", "std::net::Udp", "thread::", "println!", "std::env"]
            {
                // Code behind the first test module may print and read the environment.
                let code = text.split("#[cfg(test)]").next().unwrap_or(text);
                let is_test = path.to_string_lossy().contains("tests");
                if !is_test && code.lines().any(|l| !l.trim_start().starts_with("//") && l.contains(word)) {
                    found.push(format!("{}: {word}", path.display()));
                }
            }
        });
    }
    fail_if_any(&found, "clock, socket, thread, log or environment in a crate that must have none");
}

#[test]
fn tables_of_what_peers_choose_are_hashed_with_a_key() {
    // Texts, addresses and numbers of streams come from peers; in these places they are the program's own.
    let own = ["omm/src/consumer/watchlist.rs", "omm/src/consumer/open_streams.rs"];
    let mut found = Vec::new();
    for krate in [
        "rwf",
        "rssl",
        "rssl-io",
        "hub-content",
        "hub-distributor",
        "hub-items",
        "hub-p2ps",
        "hub-stream",
        "omm",
        "permissions",
        "marketfeed",
        "config",
        "hub-io",
        "server",
        "net",
        "lbm",
        "lbm-queue",
        "lbm-router",
        "lbm-store",
        "lbm-failover",
        "lbm-io",
    ] {
        visit(&root().join("crates").join(krate).join("src"), ".rs", &mut |path, text| {
            let of_peers = |line: &str| {
                ["FxHashMap<", "FxHashSet<"].iter().any(|table| {
                    line.split(table).skip(1).any(|rest| {
                        let key = rest.split(['>', ',']).next().unwrap_or(rest);
                        let key = if key.starts_with('(') { rest.split(')').next().unwrap_or(rest) } else { key };
                        ["String", "str", "[u8]", "i32", "IpAddr", "SocketAddr"].iter().any(|peers| key.contains(peers))
                    })
                })
            };
            if !own.iter().any(|own| path.ends_with(own)) {
                let lines = text.lines().enumerate().filter(|(_, line)| of_peers(line));
                found.extend(lines.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
            }
        });
    }
    fail_if_any(&found, "a peer that knows the hash makes all keys fall together (hub::hash_seed, or std's HashMap)");
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    for (krate, allowed) in [
        ("page", &[][..]),
        ("names", &[]),
        ("rwf", &["page"]),
        ("rwf-text", &["rwf"]),
        ("lbm", &[]),
        ("rssl", &["rwf"]),
        ("hub", &["hub-content", "hub-distributor", "hub-items", "hub-p2ps", "hub-stream"]),
        ("config", &["hub", "lbm", "names", "net", "permissions", "record", "rssl", "rwf"]),
        ("hub-distributor", &["hub-content", "hub-items", "hub-stream", "lines", "omm", "permissions", "rwf"]),
        ("hub-io", &["aeron-io", "config", "hub", "lbm-io", "net", "rssl-io"]),
        ("hub-items", &["rwf"]),
        ("hub-p2ps", &["hub-content", "hub-items", "hub-stream", "lines", "permissions", "rwf"]),
        ("hub-content", &["hub-items", "hub-stream", "lines", "names", "permissions", "rwf"]),
        ("hub-stream", &["rwf"]),
        ("lines", &[]),
        ("net", &[]),
        ("lbm-failover", &["lbm"]),
        ("lbm-queue", &["lbm"]),
        ("lbm-queue-io", &["lbm", "lbm-io", "lbm-queue", "net"]),
        ("lbm-router", &["lbm", "names"]),
        ("lbm-router-io", &["lbm", "lbm-io", "lbm-router", "lbm-store", "names", "net"]),
        ("lbm-store", &["lbm"]),
        ("lbm-trials", &[]),
        ("lbm-io", &["lbm", "lbm-failover", "net"]),
        ("lbm-store-io", &["lbm", "lbm-io", "lbm-store", "net", "record"]),
        ("aeron-io", &["net"]),
        ("rssl-io", &["rssl", "net"]),
        ("omm", &["rwf"]),
        ("omm-io", &["net", "omm", "rssl", "rssl-io"]),
        ("client-derive", &[]),
        ("client", &["client-derive", "omm", "rwf"]),
        ("client-c", &["client", "client-io", "omm", "rwf", "rwf-text"]),
        ("client-io", &["client", "net", "omm", "rssl", "rssl-io", "rwf"]),
        ("capture", &[]),
        ("market", &["lines"]),
        ("venue", &["market"]),
        ("permissions", &["names"]),
        ("marketfeed", &["rwf"]),
        ("feed", &["capture", "market", "marketfeed", "omm", "rwf", "venue"]),
        ("feed-io", &["feed", "net", "rssl", "rwf"]),
        ("record", &["lines", "rwf"]),
        ("record-columns", &["record", "rwf"]),
        (
            "record-files",
            &["capture", "feed", "net", "permissions", "record", "record-columns", "record-io", "rssl", "rwf"],
        ),
        ("record-streams", &["names", "record", "record-files", "record-io", "rwf"]),
        ("record-io", &["names", "net", "omm", "omm-io", "record", "rssl", "rssl-io", "rwf"]),
        ("measure", &["net"]),
        ("scenario", &["rwf"]),
        ("scenario-io", &["capture", "net", "rssl", "rwf", "rwf-text", "scenario"]),
        ("floor", &["net"]),
        ("lbmdump", &["capture", "lbm", "net", "rwf-text"]),
        (
            "tools",
            &[
                "capture",
                "client",
                "client-io",
                "feed",
                "feed-io",
                "lbm",
                "lbm-io",
                "lbm-queue-io",
                "lbm-router-io",
                "lbm-store",
                "lbm-store-io",
                "lbmdump",
                "lines",
                "marketfeed",
                "measure",
                "net",
                "omm",
                "omm-io",
                "permissions",
                "record",
                "record-files",
                "record-io",
                "record-streams",
                "rssl",
                "rssl-io",
                "rwf",
                "rwf-text",
                "scenario",
            ],
        ),
    ] {
        for other in uses(krate) {
            assert!(allowed.contains(&other.as_str()), "crates/{krate} must not use {other}");
        }
    }
    // The product knows nothing of who measures it, and is built without what only a measurement needs.
    for krate in fs::read_dir(root().join("crates")).unwrap().flatten() {
        let name = krate.file_name().to_string_lossy().into_owned();
        let found = uses(&name).into_iter().find(|other| other == "quoteway-lab" || other == "floor" && name != "lab");
        assert_eq!(found, None, "crates/{name} must not use it");
    }
    // Only the binary starts servers and tools: neither is built with the other.
    for other in uses("server") {
        assert!(!["tools", "quoteway-lab", "sim"].contains(&other.as_str()), "crates/server must not use {other}");
    }
    for krate in ["quoteway", "server"] {
        let manifest = fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("\"floor\""), "net's feature `floor` is for the crate `floor`");
    }
}

/// The crates of the workspace that a crate is built of.
fn uses(krate: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).unwrap();
    let normal = manifest.split("[dependencies]").nth(1).unwrap_or("").split("\n[").next().unwrap_or("");
    let names = normal.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| !name.is_empty())
        .filter(|name| root().join("crates").join(name).is_dir() || *name == "quoteway-lab")
        .map(str::to_owned)
        .collect()
}

/// Both halves of the hub do the same where an invariant is broken: `fault!`, and a legal state. What still ends the process is counted here.
#[test]
fn broken_invariants_are_faults_that_are_counted() {
    for (krate, most) in [("hub-content", 2), ("hub-distributor", 17), ("hub-p2ps", 6)] {
        let (mut silent, mut ends) = (Vec::new(), Vec::new());
        visit(&root().join("crates").join(krate).join("src"), ".rs", &mut |path, text| {
            let is_test = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().starts_with("tests");
            if path.components().any(is_test) || path.ends_with("invariants.rs") {
                return;
            }
            let code = text.split("#[cfg(test)]").next().unwrap_or(text);
            for (line, text) in (1..).zip(code.lines()) {
                let place = || format!("{}:{line}", path.display());
                if text.contains("debug_assert!(false") {
                    silent.push(place());
                }
                if [".expect(", "unreachable!(", "panic!("].iter().any(|end| text.contains(end)) {
                    ends.push(place());
                }
            }
        });
        fail_if_any(&silent, "a fault that a server does not tell of: hub_items::fault! counts it and asserts");
        assert!(ends.len() <= most, "{krate} has {} places that end the process, and {most} are the most", ends.len());
    }
}

#[test]
fn rooms_stay_small() {
    let mut found = Vec::new();
    visit(&root().join("crates"), ".rs", &mut |path, text| {
        let lines = text.lines().count();
        if lines > 1000 {
            found.push(format!("{}: {lines} lines", path.display()));
        }
    });
    fail_if_any(&found, "files that have grown a second room inside");
}

#[test]
fn nothing_names_a_machine() {
    let mut found = Vec::new();
    for (dir, ending) in
        [("crates", ".rs"), ("docs", ".md"), ("scripts", ".sh"), ("interop", ".java"), ("crates", ".toml")]
    {
        let dir = root().join(dir);
        if dir.exists() {
            visit(&dir, ending, &mut |path, text| {
                for root in ["work", "root", "home"] {
                    let needle = format!("\"/{root}/");
                    if text.contains(&needle) || text.contains(&format!(" /{root}/")) {
                        found.push(format!("{}: /{root}/", path.display()));
                    }
                }
            });
        }
    }
    fail_if_any(&found, "paths of a machine");
}

#[test]
fn no_conflict_was_left_in_a_text() {
    let mut found = Vec::new();
    for (dir, ending) in [(".", "CHANGELOG.md"), ("docs", ".md"), ("crates", ".rs"), ("crates", ".toml")] {
        visit(&root().join(dir), ending, &mut |path, text| {
            let marks = ["<".repeat(7) + " ", ">".repeat(7) + " "];
            if text.lines().any(|line| marks.iter().any(|mark| line.starts_with(mark))) {
                found.push(path.display().to_string());
            }
        });
    }
    fail_if_any(&found, "marks of a conflict");
}

/// Licences under which what is linked in may be given on with this project.
const LICENCES: [&str; 12] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "Unicode-3.0",
    "BSL-1.0",
];

#[test]
fn every_dependency_comes_from_the_registry_under_a_licence_that_may_be_given_on() {
    // Only what is built here has been downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut found = Vec::new();
    for package in packages.iter().filter(|p| !p["source"].is_null()) {
        let (name, source) = (&package["name"], package["source"].as_str().unwrap_or(""));
        if !source.starts_with("registry+") {
            found.push(format!("{name}: from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or("none");
        // Of several licences a single one suffices; all of those joined by AND are needed.
        let allowed = licence.replace('/', " OR ").split(" OR ").any(|choice| {
            choice.split(" AND ").all(|one| LICENCES.contains(&one.trim_matches(|c| c == '(' || c == ')' || c == ' ')))
        });
        if !allowed {
            found.push(format!("{name}: {licence}"));
        }
    }
    assert!(packages.len() > 50, "the list of packages is complete");
    fail_if_any(&found, "dependencies that need a look");
}
