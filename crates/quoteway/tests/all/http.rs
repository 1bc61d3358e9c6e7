//! The web page's server, metrics and administration of a running process, asked as `curl` asks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A process that ends with the test, and what its `ready` line says.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) ready: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn start(args: &[&str]) -> Process {
    start_with(args, &[])
}

/// The same with variables.
pub(crate) fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Process {
    Process::of(Command::new(env!("CARGO_BIN_EXE_quoteway")).args(args).envs(variables.iter().copied()))
}

impl Process {
    /// The process of a command, once it is ready.
    pub(crate) fn of(command: &mut Command) -> Self {
        let command = command.env("QUOTEWAY_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready")).expect("it is ready");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, ready }
    }

    /// The value behind `key=` in the line that says that it is ready.
    pub(crate) fn at(&self, key: &str) -> String {
        let found = self.ready.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {key} in {}", self.ready)).to_owned()
    }

    pub(crate) fn web(&self) -> String {
        self.at("http").trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String, String) {
        ask(&self.web(), "GET", path, "", &[])
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"))
    }

    /// Asks until the answer is as wanted.
    pub(crate) fn wait_for(&self, path: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
        for _ in 0..600 {
            let (status, _, body) = self.get(path);
            if wanted(status, &body) {
                return body;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{path} never became what was waited for: {:?}", self.get(path))
    }
}

/// Status, head and body of the answer to one request.
pub(crate) fn ask(host: &str, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
    let stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
    exchange(stream, host, method, path, body, headers)
}

pub(crate) fn exchange(
    mut stream: impl std::io::Read + std::io::Write,
    host: &str,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> (u16, String, String) {
    let host =
        if headers.iter().any(|(name, _)| *name == "Host") { String::new() } else { format!("Host: {host}\r\n") };
    let others = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{others}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer, then the end");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), body.to_owned())
}

/// Flags of a server whose ports the system chooses.
pub(crate) const PORTS: [&str; 9] =
    ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];

/// A server on ports that the system chooses.
pub(crate) fn serve(args: &[&str]) -> Process {
    start(&[&PORTS[..], args].concat())
}

pub(crate) fn demo(args: &[&str]) -> Process {
    let all = ["demo", "--no-ui", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let mut process = start_demo(&[&all[..], args].concat());
    process.ready = process.ready.replace("The live market in a browser: ", "http=");
    process
}

/// The demo says where its page is in the line behind `ready`'s.
fn start_demo(args: &[&str]) -> Process {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|line| line.contains("in a browser")).expect("its page");
    std::thread::spawn(move || lines.for_each(drop));
    Process { child, ready }
}

#[test]
fn a_demo_tells_what_it_is_and_does() {
    let demo = demo(&["IBM.N", "EUR="]);
    demo.wait_for("/readyz", |status, _| status == 200);
    assert_eq!(demo.get("/healthz").0, 200);
    let process = demo.json("/api/v1/process");
    assert_eq!((process["role"].as_str(), process["takes_websocket"].as_bool()), (Some("demo"), Some(true)));
    assert!(process["addresses"]["rssl"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{process}");
    let services = demo.json("/api/v1/services");
    assert_eq!((services[0]["name"].as_str(), services[0]["up"].as_bool()), (Some("DIRECT_FEED"), Some(true)));
    assert_eq!(services[0]["providers"].as_array().map(Vec::len), Some(1), "{services}");
    let items = demo.wait_for("/api/v1/items?contains=ibm", |_, body| body.contains("\"state\":\"open\""));
    let items: Value = serde_json::from_str(&items).expect("JSON");
    assert_eq!(items["found"][0]["name"], "IBM.N");
    // The demo's view watches it, beside the page's history.
    let clients = demo.json("/api/v1/clients?contains=quoteway%20demo");
    let own = &clients["found"][0];
    assert_eq!((own["user"].as_str(), own["protocol"].as_str()), (Some("demo"), Some("rssl")), "{clients}");
    let item = format!("/api/v1/items/{}", items["found"][0]["id"].as_str().expect("an id"));
    demo.wait_for(&item, |status, body| status == 200 && body.contains(&format!("\"client\":{}", own["id"])));
    let events = demo.json("/api/v1/events");
    let texts: Vec<&str> = events.as_array().expect("a list").iter().filter_map(|e| e["text"].as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("service DIRECT_FEED")), "{texts:?}");
    // A page of lists: one at a time, and then no more.
    let first = demo.json("/api/v1/items?limit=1");
    let next = first["next"].as_str().expect("there is another").to_owned();
    let second = demo.json(&format!("/api/v1/items?limit=1&after={next}"));
    assert_ne!(first["found"][0]["id"], second["found"][0]["id"]);
    assert_eq!(demo.get("/api/v1/items?limit=9999").0, 400);
    assert_eq!(demo.get("/api/v1/items/0.99999").0, 404);
    assert_eq!(demo.get("/nothing").0, 404);
    assert_eq!(ask(&demo.web(), "DELETE", "/api/v1/items", "", &[]).0, 405);
}

#[test]
fn statistics_are_found_where_scripts_for_rtds_look() {
    let demo = demo(&["IBM.N"]);
    demo.wait_for("/api/v1/items", |_, body| body.contains("\"state\":\"open\""));
    let members = |path: &str| demo.json(path).as_array().expect("a list").clone();
    let services = members("/sharedmem/print/services");
    assert_eq!((&services[0]["Instance"], &services[0]["State"]), (&"DIRECT_FEED".into(), &"Up".into()));
    let user = demo.json("/sharedmem/classes/GlobalUser/instances/demo");
    let mount = user["Children"][0]["Instance"].as_str().expect("it is logged in");
    let mounts = members("/sharedmem/print/mounts");
    assert!(mounts.iter().any(|known| known["Instance"] == mount), "{mounts:?}");
    // From an item to its watcher, and from that to its connection.
    let item = demo.json("/sharedmem/classes/ConsumerDataStream/instances/DIRECT_FEED:IBM.N");
    assert!(item["State"] == "open" && item["Children"].to_string().contains(mount), "{item}");
    let of_mount = demo.json(&format!("/sharedmem/classes/Consumer.SinkDist/instances/{mount}"));
    assert_eq!(of_mount["Children"][0]["Class"], "RIPCClient");
    let process = members("/sharedmem/print/process");
    let counted = process[0]["Variables"].as_array().expect("variables").iter();
    let opened = counted.filter(|variable| variable["Name"] == "openItems").map(|variable| variable["Value"].as_u64());
    assert_eq!(opened.collect::<Vec<_>>(), [Some(1)]);
    let samples =
        process[0]["Variables"].as_array().into_iter().flatten().find(|known| known["Name"] == "latencySamples");
    assert!(samples.is_some_and(|samples| samples["Value"].is_u64()), "{process:?}");
    for class in members("/sharedmem/classes") {
        let path = format!("/sharedmem/classes/{}/instances", class.as_str().expect("a name"));
        for name in members(&path) {
            let found = demo.json(&format!("{path}/{}", name.as_str().expect("a name")));
            assert_eq!((&found["Class"], &found["Instance"]), (&class, &name));
        }
    }
    for path in ["/sharedmem/print/all", "/sharedmem/classes/X/instances", "/sharedmem/classes/GlobalUser/instances/x"]
    {
        assert_eq!(demo.get(path).0, 404, "{path}");
    }
}

#[test]
fn metrics_are_in_the_format_that_is_asked_for() {
    let demo = demo(&["IBM.N"]);
    let counted =
        |text: &str| text.lines().any(|l| l.starts_with("quoteway_turn_latency_seconds_count") && !l.ends_with(" 0"));
    let text = demo.wait_for("/metrics", |status, text| status == 200 && counted(text));
    // The demo's own client speaks RSSL, and nobody JSON.
    let of =
        |protocol: &str| format!("quoteway_client_latency_seconds_count{{protocol=\"{protocol}\",thread=\"server\"}} ");
    let had = |text: &str, protocol: &str| {
        text.lines().find_map(|line| line.strip_prefix(&of(protocol))?.parse::<u64>().ok())
    };
    demo.wait_for("/metrics", |_, text| had(text, "rssl") > Some(0));
    assert_eq!(had(&text, "tr_json2"), Some(0), "{text}");
    for family in [
        "quoteway_p2ps_updates_out_total",
        "quoteway_service_up",
        "quoteway_clients{",
        "quoteway_provider_ready{",
        "quoteway_client_latency_seconds_bucket{protocol=\"tr_json2\",",
    ] {
        assert!(text.contains(family), "{family} is not in\n{text}");
    }
    let (_, head, text) = demo.get("/metrics");
    assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    check_with_promtool(&text);
    let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let (_, head, text) = ask(&demo.web(), "GET", "/metrics", "", &[("Accept", of_prometheus)]);
    assert!(head.to_lowercase().contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(text.ends_with("# EOF\n"));
}

/// `promtool check metrics`, of what `curl` gets.
fn check_with_promtool(text: &str) {
    let Ok(mut child) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        println!("promtool is not installed (Debian: prometheus): the text was not checked with it");
        return;
    };
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

#[test]
fn an_operator_disconnects_and_drains() {
    let server =
        start(&["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"]);
    assert_eq!(server.get("/readyz").0, 503, "no service is up");
    let mut client = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args([
            "test-client",
            "-h",
            "127.0.0.1",
            "-p",
            server.at("rssl").rsplit(':').next().expect("a port"),
            "-il",
            "A",
        ])
        .args(["--seconds", "20"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let found = server.wait_for("/api/v1/clients", |_, body| body.contains("\"protocol\""));
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let id = found["found"][0]["id"].as_str().expect("an id").to_owned();
    let post = |path: &str, body: &str| ask(&server.web(), "POST", path, body, &[]);
    let path = format!("/api/v1/clients/{id}/disconnect");
    assert_eq!(post(&path, "{}").0, 400, "why is wanted");
    let (status, _, body) = post(&path, "{\"why\":\"a test\"}");
    assert_eq!(status, 200, "{body}");
    assert_eq!(post("/api/v1/clients/0.77/disconnect", "{\"why\":\"a test\"}").0, 404);
    let (status, _, told) = post("/api/v1/clients/9.9/disconnect", "{\"why\":\"a test\"}");
    assert!(status == 404 && told.contains("there is no thread 9"), "{status} {told}");
    server.wait_for("/api/v1/events", |_, body| {
        body.contains("audit: operator local") && body.contains("closed by an operator: a test")
    });
    assert_eq!(post("/api/v1/drain", "{\"why\":\"upkeep\",\"clients\":\"close\"}").0, 200);
    assert_eq!(server.json("/api/v1/process")["draining"], true);
    server.wait_for("/api/v1/events", |_, body| body.contains("takes no new clients: upkeep"));
    assert_eq!(post("/api/v1/undrain", "{\"why\":\"done\"}").0, 200);
    assert_eq!(post("/api/v1/log", "{\"level\":\"debug\"}").0, 200);
    assert_eq!(post("/api/v1/log", "{\"level\":\"quoteway=loud\"}").0, 400);
    assert_eq!(post("/api/v1/log", "nonsense").0, 400);
    let _ = client.kill();
    let _ = client.wait();
}

#[test]
fn pages_of_other_servers_and_strangers_get_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, socket) = (dir.path().join("q.toml"), dir.path().join("q.sock"));
    let line = tools::ctl::password_line("ann", tools::ctl::UserRole::Viewer, "open sesame").expect("a hash");
    std::fs::write(&file, format!("[http]\nusers = [{line:?}]\nsocket = {socket:?}\n")).expect("written");
    let args =
        ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0", "--config"];
    let server = start(&[&args[..], &[file.to_str().expect("UTF-8")]].concat());
    let (status, head, _) = server.get("/api/v1/process");
    assert!(status == 401 && head.to_lowercase().contains("www-authenticate: basic"), "{head}");
    assert_eq!(server.get("/healthz").0, 200, "supervisors have no password");
    // "ann:open sesame".
    let ann = ("Authorization", "Basic YW5uOm9wZW4gc2VzYW1l");
    assert_eq!(ask(&server.web(), "GET", "/api/v1/process", "", &[ann]).0, 200);
    assert_eq!(ask(&server.web(), "POST", "/api/v1/drain", "{\"why\":\"x\"}", &[ann]).0, 403, "ann may look");
    let unix = UnixStream::connect(&socket).expect("it listens");
    let (status, _, body) = exchange(unix, "localhost", "POST", "/api/v1/drain", "{\"why\":\"x\"}", &[]);
    assert_eq!(status, 200, "whoever may open the socket is an operator: {body}");
    let open = start(&["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"]);
    assert_eq!(ask(&open.web(), "GET", "/api/v1/process", "", &[("Host", "evil.example")]).0, 403);
    let elsewhere = [("Origin", "http://evil.example")];
    assert_eq!(ask(&open.web(), "POST", "/api/v1/drain", "{\"why\":\"x\"}", &elsewhere).0, 403);
}

#[test]
fn a_port_that_is_taken_stops_nobody_unless_it_was_asked_for() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let serve = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", &port];
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(serve).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--http-port"), "{said}");
    let rssl = ["serve", "--interface", "127.0.0.1", "--nip-port", "0", "--http-port", "off", "--rssl-port", &port];
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(rssl).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("--rssl-port") && said.contains("another program has it"),
        "{said}"
    );
    // Whoever has the usual port: the server is there.
    let _usual = std::net::TcpListener::bind("127.0.0.1:8080");
    let server = start(&["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0"]);
    assert!(!server.ready.contains("http="), "{}", server.ready);
}

#[test]
fn clients_of_websocket_have_a_port_of_their_own_beside_that_of_all() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    std::fs::write(&file, "[p2ps]\nwebsocket_port = 0\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let server = serve(&["--config", file]);
    let (rssl, websocket) = (server.at("rssl"), server.at("websocket"));
    let own = websocket.trim_start_matches("ws://").trim_end_matches("/WebSocket").to_owned();
    assert_ne!(own, rssl);
    for port in [&own, &rssl] {
        let upgrade = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", "tr_json2"),
        ];
        let mut stream = TcpStream::connect(port.as_str()).expect("it listens");
        let headers = upgrade.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
        let request = format!("GET /WebSocket HTTP/1.1\r\nHost: {port}\r\nConnection: Upgrade\r\n{headers}\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
        let mut answer = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 101", "at {port}");
        let (status, _, body) = ask(port, "GET", "/", "", &[]);
        assert!(status >= 400 && body.contains("WebSocket"), "at {port}: {status} {body}");
    }
}

#[test]
fn a_client_at_a_closed_port_says_why_and_ends() {
    let closed = measure::ports::reserve();
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["test-client", "-h", "127.0.0.1", "-p", &closed.to_string(), "-il", "A", "--seconds", "1"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("nothing could be requested"), "{said}");
    assert!(said.to_lowercase().contains("refused"), "{said}");
    let demo = demo(&["A"]);
    let process = demo.json("/api/v1/process");
    let port = process["addresses"]["rssl"].as_str().and_then(|at| at.rsplit(':').next()).expect("a port").to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["test-client", "-h", "127.0.0.1", "-p", &port, "-S", "NO_SUCH", "-il", "A", "--seconds", "1"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("there is no service NO_SUCH; the server has: DIRECT_FEED"), "{said}");
}

#[test]
fn dashboard_and_alerts_name_what_is_counted() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    let demo = demo(&["IBM.N"]);
    let metrics = demo.wait_for("/metrics", |status, text| status == 200 && text.contains("quoteway_service_up"));
    for file in ["alerts.yml", "grafana.json"] {
        let text = std::fs::read_to_string(folder.join(file)).expect(file);
        let words =
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("quoteway_"));
        let mut count = 0;
        for word in words {
            count += 1;
            let is_there =
                metrics.lines().any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(['{', ' '])));
            assert!(is_there, "{file}: {word} is counted nowhere");
        }
        assert!(count > 5, "{file}");
        // A rate needs some readings: with Prometheus' default there is one a minute.
        for range in text.split('[').skip(1).filter_map(|rest| rest.split_once("m]")?.0.parse::<u32>().ok()) {
            assert!(range >= 4, "{file}: a rate over {range} minutes");
        }
    }
    serde_json::from_str::<Value>(&std::fs::read_to_string(folder.join("grafana.json")).expect("there")).expect("JSON");
    match Command::new("promtool").arg("check").arg("rules").arg(folder.join("alerts.yml")).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => println!("promtool is not installed (Debian: prometheus): the rules were not checked with it"),
    }
}
