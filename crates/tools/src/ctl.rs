//! `quoteway ctl`: looks at a process and steers it, by its administration.

mod dump;
mod list;
mod texts;

use anyhow::anyhow;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHasher as _, SaltString};
use base64ct::{Base64, Encoding as _};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use record::Order;
use serde_json::{Value, json};

use self::list::List;
use self::texts::{image_text, json_text, lines, process_text, shown, table, time_text};
use crate::administration::{Client, Target};

/// Slice of time sharing of the program, which runs for milliseconds in all, by turns with the process that it asks.
const SLICE: Duration = Duration::from_micros(300);

/// The command line.
#[derive(Debug, Clone, ClapArgs)]
#[command(
    after_help = "Examples:\n  quoteway ctl services\n  quoteway ctl clients ann\n  quoteway ctl --at mdhost1:8080 --user ops items IBM\n  \
    quoteway ctl disconnect 0.3 --why \"upgrade at noon\"\n  quoteway ctl password ops operator\n\n\
    The password of --user is taken from QUOTEWAY_PASSWORD."
)]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub process: Process,
    /// The answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub command: Command,
}

/// Which process is meant, and who asks.
#[derive(Debug, Clone, ClapArgs)]
pub struct Process {
    /// HTTP port of the process, as its line "ready" says it: HOST:PORT, PORT, or the path of its Unix socket
    #[arg(long, global = true, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub at: Target,
    /// Name of a user of the process (http.users)
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
}

impl Process {
    /// One who asks it.
    ///
    /// # Errors
    /// A user without a password, or a system without descriptors.
    pub fn client(&self) -> anyhow::Result<Client> {
        let password = match &self.user {
            None => None,
            Some(name) => {
                let password = std::env::var("QUOTEWAY_PASSWORD");
                Some((name.as_str(), password.map_err(|_| anyhow!("--user needs a password: set QUOTEWAY_PASSWORD"))?))
            }
        };
        Client::new(self.at.clone(), password.as_ref().map(|(name, password)| (*name, password.as_str())))
    }
}

/// What is asked or done.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// What the process is, where its ports are, how much it does
    Process,
    /// The services, and who serves them
    Services,
    /// The providers
    Providers,
    /// Those at the other end of the hub: P2PSs at a Source Distributor, Source Distributors at a P2PS
    Hub,
    /// The clients, or those with a text in address, user, application, position
    Clients {
        /// The text, whatever the case
        contains: Option<String>,
    },
    /// The items that clients watch, or those with a text in the name
    Items {
        /// The text, whatever the case
        contains: Option<String>,
        /// Only of this service
        #[arg(long, value_name = "NAME")]
        service: Option<String>,
        /// Only of this state, as open or suspect
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// One item: where it stands, who watches it, what its watchers were told last, its image where it is cached
    Item {
        /// Its id, as `items` shows it, or its service
        #[arg(value_name = "ID|SERVICE")]
        id: String,
        /// Its name, behind the service
        name: Option<String>,
    },
    /// The items that are blocked
    Blocked,
    /// Have nobody get an item: its watchers are told, later requests refused
    Block {
        /// Its service
        service: String,
        /// Its name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Let an item be watched again
    Unblock {
        /// Its service
        service: String,
        /// Its name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// The items that operators have locked
    Locked,
    /// Have an item give its place at a provider to nobody (preemption)
    Lock {
        /// Its service
        service: String,
        /// Its name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Let an item give its place to another again
    Unlock {
        /// Its service
        service: String,
        /// Its name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Write what a client sends and gets for a while to a file that `quoteway dump` reads
    Trace {
        /// The client's id, as `clients` shows it; with --item, an item's, as `items` shows it
        id: String,
        /// What the first watcher of an item gets of it
        #[arg(long)]
        item: bool,
        /// For how long
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        seconds: u64,
        /// Where to write; nothing is overwritten
        #[arg(short, long, value_name = "FILE")]
        output: std::path::PathBuf,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Read the configuration again, as SIGHUP has it done; a fault in it changes nothing
    Reload {
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Who may see what: who is on, why somebody may see an item, who may see a product
    #[command(subcommand)]
    Permissions(Permissions),
    /// The statistics as RTDS's scripts read them: class, instance, state, and each variable in a line
    Print {
        /// Which
        what: Statistics,
    },
    /// Write what there is to know now to files of a new folder: the process, services, providers, the hub, clients, items and the last lines of the log
    Dump {
        /// The folder, which must not be there yet
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// The last lines of the log
    Events,
    /// Whether the process is ready, and what is in the way
    Ready,
    /// Close a client's connection
    Disconnect {
        /// The client's id, as `clients` shows it
        id: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// End the session with a provider: its items go to others, and a route is dialled again
    EndProvider {
        /// The provider's id, as `providers` shows it
        id: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Have the items of a service asked for at one of its providers, until that one is gone
    Switch {
        /// The service
        service: String,
        /// The provider's address, as `providers` shows it; without one the order of the routes counts again
        provider: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Take no new clients
    Drain {
        /// Close those that are there
        #[arg(long)]
        close: bool,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Take new clients again
    Undrain {
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// What a process records of itself, and how that goes; begin or end it
    Record {
        /// What is to be done [default: show how it goes]
        #[arg(value_enum, requires = "record_why")]
        what: Option<Recording>,
        /// Goes to the log
        #[arg(id = "record_why", long = "why", value_name = "TEXT", requires = "what")]
        why: Option<String>,
    },
    /// The recordings that a process plays, and where each is; or steer one
    #[command(
        after_help = "Orders: pause, go, step, step 10, speed 2, speed max, seek 2026-11-27T14:30:00Z, skip 10, skip -10 (seconds),\n\
        loop on, loop off, where. Each is answered when it is done."
    )]
    Replay {
        /// What is to be done [default: show how they stand]
        #[arg(value_name = "ORDER", allow_negative_numbers = true)]
        order: Vec<String>,
        /// Which replay, where there are several
        #[arg(long = "of", value_name = "NAME")]
        of: Option<String>,
        /// Goes to the log
        #[arg(id = "replay_why", long = "why", value_name = "TEXT")]
        why: Option<String>,
    },
    /// Change how much is logged, until the process ends
    #[command(alias = "log-level")]
    Log {
        /// error, warn, info, debug, trace, or by module as `QUOTEWAY_LOG`
        level: String,
    },
    /// Print an entry for http.users; the password is read from standard input
    Password {
        /// The user's name
        name: String,
        /// What the user may do
        role: UserRole,
    },
}

/// What is asked and done about permissions.
#[derive(Debug, Clone, Subcommand)]
pub enum Permissions {
    /// Who is on, by user and position
    Users,
    /// Why a user may, or may not, see an item
    Explain {
        /// The user
        // Its name in the parser: the one who asks is "user".
        #[arg(id = "whom", value_name = "USER")]
        user: String,
        /// The item's service
        service: String,
        /// Its name
        item: String,
        /// Where the user sits
        #[arg(long, default_value = "")]
        position: String,
        /// Application id
        #[arg(long, default_value_t = 256)]
        application: u32,
    },
    /// Who may see a product of a service, by its number, or a subservice
    Who {
        /// The service
        service: String,
        /// The product's number (PE), or the subservice's name
        what: String,
    },
    /// How often items were opened today
    Usage,
    /// End all logins of a user
    Logout {
        /// The user
        // Its name in the parser: the one who asks is "user".
        #[arg(id = "whom", value_name = "USER")]
        user: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
    /// Check again what a user, or everybody, has open
    Repermission {
        /// The user
        #[arg(id = "whom", value_name = "USER")]
        user: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        why: Why,
    },
}

impl Permissions {
    fn ask(&self, client: &Client) -> anyhow::Result<Value> {
        let api = |path: &str| client.get(&format!("/api/v1/permissions/{path}"));
        let act = |path: &str, body: Value| client.post(&format!("/api/v1/permissions/{path}"), &body);
        let query =
            |pairs: &[(&str, &str)]| form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        match self {
            Self::Users => api("users"),
            Self::Explain { user, service, item, position, application } => {
                let application = application.to_string();
                let pairs = [("user", user), ("service", service), ("item", item), ("position", position)];
                let pairs = pairs.map(|(name, value)| (name, value.as_str()));
                api(&format!("explain?{}&{}", query(&pairs), query(&[("application", &application)])))
            }
            Self::Who { service, what } => {
                let kind = if what.parse::<u32>().is_ok() { "pe" } else { "subservice" };
                api(&format!("who?{}", query(&[("service", service), (kind, what)])))
            }
            Self::Usage => api("usage"),
            Self::Logout { user, why } => act("logout", json!({ "user": user, "why": why.why })),
            Self::Repermission { user: Some(user), why } => {
                act("repermission", json!({ "user": user, "why": why.why }))
            }
            Self::Repermission { user: None, why } => act("repermission", json!({ "why": why.why })),
        }
    }

    fn text(&self, answer: &Value) -> String {
        match self {
            Self::Users => {
                table(answer, &["user", "position", "application", "shard", "connection", "seconds", "items"])
            }
            Self::Explain { .. } => {
                let verdict = if answer["granted"] == true { "granted" } else { "denied" };
                let note = answer["note"].as_str().map_or(String::new(), |note| format!(": {note}"));
                table(&answer["findings"], &["who", "needs", "met_by"]) + &format!("{verdict}{note}\n")
            }
            Self::Who { .. } => {
                let users = answer.as_array().into_iter().flatten();
                users.map(|user| shown(user) + "\n").collect()
            }
            Self::Usage => table(answer, &["user", "service", "subservice", "opens"]),
            Self::Logout { .. } | Self::Repermission { .. } => {
                answer["done"].as_str().unwrap_or_default().to_owned() + "\n"
            }
        }
    }
}

/// Why something is done.
#[derive(Debug, Clone, ClapArgs)]
pub struct Why {
    /// Goes to the log, and to the peer
    #[arg(long, value_name = "TEXT")]
    pub why: String,
}

/// Statistics that are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "clap would show it")]
pub enum Statistics {
    Process,
    Services,
    Mounts,
    Users,
}

/// What can be done with a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Recording {
    /// Begin, or go on
    Start,
    /// End
    Stop,
}

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UserRole {
    /// Look
    Viewer,
    /// Act
    Operator,
}

/// Asks, and prints the answer.
///
/// # Errors
/// Nobody answers, or what the process says instead.
pub fn run(args: &Args) -> anyhow::Result<String> {
    if let Command::Password { name, role } = &args.command {
        return password_line(name, *role, &read_password()?).map(|line| line + "\n");
    }
    // Beside busy servers each answer waits less for a processor. Without it, it waits as others do.
    let _ = net::affinity::set_slice(SLICE);
    let client = args.process.client()?;
    if let Some(list) = List::of(&args.command) {
        return if args.json { list.json(&client) } else { list.text(&client) };
    }
    let answer = ask(&client, &args.command)?;
    if args.json {
        return Ok(json_text(&answer));
    }
    Ok(text(&args.command, &answer))
}

/// The entry of `http.users` for a name, a role and a password, of which an argon2 hash is kept.
///
/// # Errors
/// The name cannot be one, or the password is too long.
pub fn password_line(name: &str, role: UserRole, password: &str) -> anyhow::Result<String> {
    if name.is_empty() || name.contains(':') {
        return Err(anyhow!("a name has no colon in it, and is not empty"));
    }
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt).map_err(|e| anyhow!(e))?;
    let role = match role {
        UserRole::Viewer => "viewer",
        UserRole::Operator => "operator",
    };
    Ok(format!("{name}:{role}:{hash}"))
}

fn read_password() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        eprintln!("Password (it is shown as it is typed; better: quoteway ctl password NAME ROLE < FILE):");
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|e| anyhow!("standard input: {e}"))?;
    let password = line.trim_end_matches(['\n', '\r']).to_owned();
    if password.len() < 8 { Err(anyhow!("a password has at least 8 characters")) } else { Ok(password) }
}

fn ask(client: &Client, command: &Command) -> anyhow::Result<Value> {
    let api = |path: &str| client.get(&format!("/api/v1/{path}"));
    let act = |path: &str, body: Value| client.post(&format!("/api/v1/{path}"), &body);
    match command {
        Command::Process => api("process"),
        Command::Services => api("services"),
        Command::Providers => api("providers"),
        Command::Hub => api("hub"),
        Command::Item { id, name: None } => api(&format!("items/{}", escaped(id))).map(|item| Value::Array(vec![item])),
        Command::Item { id: service, name: Some(name) } => {
            api(&format!("items/{}/{}", escaped(service), escaped(name)))
        }
        Command::Blocked => api("blocked"),
        Command::Block { service, name, why } => {
            act("block", json!({ "service": service, "name": name, "why": why.why }))
        }
        Command::Unblock { service, name, why } => {
            act("unblock", json!({ "service": service, "name": name, "why": why.why }))
        }
        Command::Locked => api("locked"),
        Command::Lock { service, name, why } => {
            act("lock", json!({ "service": service, "name": name, "why": why.why }))
        }
        Command::Unlock { service, name, why } => {
            act("unlock", json!({ "service": service, "name": name, "why": why.why }))
        }
        Command::Trace { id, item, seconds, output, why } => {
            let body = json!({ "seconds": seconds.to_string(), "why": why.why });
            let kind = if *item { "items" } else { "clients" };
            trace(client, &act(&format!("{kind}/{}/trace", escaped(id)), body)?, *seconds, output)
        }
        Command::Reload { why } => act("reload", json!({ "why": why.why })),
        Command::Permissions(what) => what.ask(client),
        Command::Print { what } => client.get(&format!("/sharedmem/print/{}", format!("{what:?}").to_lowercase())),
        Command::Events => api("events"),
        Command::Ready => client.get("/readyz"),
        Command::Disconnect { id, why } => {
            act(&format!("clients/{}/disconnect", escaped(id)), json!({ "why": why.why }))
        }
        Command::EndProvider { id, why } => {
            act(&format!("providers/{}/disconnect", escaped(id)), json!({ "why": why.why }))
        }
        Command::Switch { service, provider, why } => {
            act("switch", json!({ "service": service, "provider": provider, "why": why.why }))
        }
        Command::Drain { close: true, why } => act("drain", json!({ "why": why.why, "clients": "close" })),
        Command::Drain { close: false, why } => act("drain", json!({ "why": why.why })),
        Command::Undrain { why } => act("undrain", json!({ "why": why.why })),
        Command::Record { what: None, .. } => api("recording"),
        Command::Record { what: Some(Recording::Start), why } => act("recording/start", json!({ "why": why })),
        Command::Record { what: Some(Recording::Stop), why } => act("recording/stop", json!({ "why": why })),
        Command::Replay { order, .. } if order.is_empty() => api("replays"),
        Command::Replay { order, of, why } => {
            let order: Order = order.join(" ").parse()?;
            let name = match of {
                Some(name) => name.clone(),
                None => only_replay(&api("replays")?)?,
            };
            act(&format!("replays/{}", escaped(&name)), json!({ "order": order.to_string(), "why": why }))
        }
        Command::Log { level } => act("log", json!({ "level": level })),
        Command::Dump { folder } => dump::write(client, folder),
        Command::Clients { .. } | Command::Items { .. } => Err(anyhow!("lists come page by page")),
        Command::Password { .. } => Err(anyhow!("no process is asked for a password")),
    }
}

/// The name of the replay, if there is but one.
fn only_replay(all: &Value) -> anyhow::Result<String> {
    let names: Vec<String> = all.as_array().into_iter().flatten().map(|replay| shown(&replay["name"])).collect();
    match &names[..] {
        [name] => Ok(name.clone()),
        [] => {
            Err(anyhow!("this process plays nothing: [replay.NAME] of its configuration, or quoteway replay --serve"))
        }
        names => Err(anyhow!("say which, with --of: there are {}", names.join(", "))),
    }
}

/// Waits for a trace that has begun, and writes it.
fn trace(client: &Client, begun: &Value, seconds: u64, output: &std::path::Path) -> anyhow::Result<Value> {
    let failed = |e: &dyn std::fmt::Display| anyhow!("{}: {e}", output.display());
    let mut file = net::output::create_new(output).map_err(|e| failed(&e))?;
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    let id = begun["trace"].as_str().unwrap_or_default();
    let taken = client.post(&format!("/api/v1/traces/{}/take", escaped(id)), &json!({}))?;
    let capture = Base64::decode_vec(taken["capture"].as_str().unwrap_or_default()).map_err(|e| failed(&e))?;
    file.write_all(&capture).map_err(|e| failed(&e))?;
    let (done, port) = (shown(&taken["done"]), shown(&taken["port"]));
    Ok(json!({ "done": format!("{done}: quoteway dump --port {port} {}", output.display()) }))
}

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

fn text(command: &Command, answer: &Value) -> String {
    match command {
        Command::Process => process_text(answer),
        Command::Record { what: None, .. } => {
            let services = table(&answer["services"], &["name", "up", "items", "open"]);
            let Value::Object(mut members) = answer.clone() else { return services };
            members.remove("services");
            lines("", &Value::Object(members)) + &services
        }
        Command::Replay { order, .. } if order.is_empty() => {
            let columns = ["name", "state", "time", "speed", "repeats", "streams", "messages", "from", "to"];
            let trouble = answer.as_array().is_some_and(|all| all.iter().any(|replay| replay["trouble"].is_string()));
            let trouble = if trouble { &["trouble"][..] } else { &[] };
            table(answer, &[&columns, trouble].concat())
        }
        Command::Services => {
            let mut columns = vec!["name", "up", "accepting", "waiting", "suspect", "providers"];
            // A service that comes from no other site has this one on its way, and nothing to tell.
            let is_far = |service: &Value| service["path"].as_array().is_some_and(|path| path.len() > 1);
            if answer.as_array().is_some_and(|services| services.iter().any(is_far)) {
                columns.push("path");
            }
            table(answer, &columns)
        }
        Command::Providers => {
            let has_name = |provider: &Value| provider["server_id"].as_str().is_some_and(|id| !id.is_empty());
            let is_named = answer.as_array().is_some_and(|providers| providers.iter().any(has_name));
            let name = if is_named { &["server_id"][..] } else { &[] };
            table(answer, &[&["id", "kind", "address"], name, &["state", "services"]].concat())
        }
        Command::Hub => table(answer, &["kind", "name", "state", "behind_bytes"]),
        Command::Item { .. } => {
            let one = |detail: &Value| {
                let changes = table(&detail["changes"], &["ago_s", "stream", "data", "code", "text"]);
                let denied = &detail["image_denied"];
                let about = json!({ "source": detail["source"], "blocked": detail["blocked"], "image denied": denied });
                let about = lines("", &about);
                let watchers = table(&detail["watchers"], &["client", "stream"]);
                let image = image_text(&detail["image"]);
                lines("", &detail["item"]) + &about + "\n" + &watchers + "\n" + &changes + &image
            };
            answer.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join("\n")
        }
        Command::Blocked | Command::Locked => table(answer, &["service", "name", "why"]),
        Command::Permissions(what) => what.text(answer),
        Command::Print { .. } => answer.as_array().into_iter().flatten().map(texts::instance_text).collect(),
        Command::Dump { .. } => table(answer, &["file", "rows", "left_out"]),
        Command::Events => {
            let of = |event: &Value| {
                let (number, level) = (shown(&event["number"]), shown(&event["level"]));
                format!("{number:>5}  {}  {level:5}  {}\n", time_text(&event["time_ms"], 1_000), shown(&event["text"]))
            };
            answer.as_array().map_or(String::new(), |events| events.iter().map(of).collect())
        }
        Command::Ready => "ready\n".to_owned(),
        _ => answer["done"].as_str().unwrap_or_default().to_owned() + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_an_instance_a_block() {
        let variables = json!([{ "Name": "mounts", "Type": "Gauge", "Value": 2 }]);
        let user = json!({ "Class": "GlobalUser", "Instance": "ann", "State": "Up", "Variables": variables,
            "Children": [{ "Class": "Consumer.SinkDist", "Instance": "0.3" }] });
        let shown = text(&Command::Print { what: Statistics::Users }, &json!([user]));
        assert_eq!(shown, "GlobalUser ann Up\n  mounts: 2\n  > Consumer.SinkDist 0.3\n");
    }

    #[test]
    fn services_of_other_sites_have_their_way() {
        let list = json!([{ "name": "A", "path": ["oslo"] }, { "name": "B", "path": ["oslo", "rome"] }]);
        let shown = text(&Command::Services, &list);
        assert!(shown.contains("path\n") && shown.contains("oslo, rome\n"), "{shown}");
        assert!(!text(&Command::Services, &json!([{ "name": "A", "path": ["oslo"] }])).contains("path"));
    }

    #[test]
    fn answers_steer_no_terminal() {
        let hostile = json!({ "user": "a\u{9b}2J\u{2028}b\n" });
        assert_eq!(json_text(&hostile), "{\n  \"user\": \"a\\u009b2J\\u2028b\\n\"\n}\n");
        assert_eq!(serde_json::from_str::<Value>(&json_text(&hostile)).ok(), Some(hostile.clone()));
        assert_eq!(lines("", &hostile), "user: a?2J?b?\n");
        assert_eq!(table(&json!([hostile]), &["user"]), "user\na?2J?b?\n");
    }

    #[test]
    fn answers_are_tables_and_lines() {
        let offers = json!([{ "address": "h:1", "up": true, "silent": true, "open": 0 }, { "address": "h:2", "up": true, "open": 1200 },
            { "address": "h:3", "up": false, "open": 0 }]);
        let list = json!([{ "name": "A", "up": true, "providers": offers },
            { "name": "LONGER", "up": false, "providers": [] }]);
        assert_eq!(
            table(&list, &["name", "up", "providers"]),
            "name    up   providers\nA       yes  h:1 (silent, 0), h:2 (1200), h:3 (down, 0)\nLONGER  no\n"
        );
        let of_group = json!({ "address": "h:1", "served_from": "FEED_B", "up": true, "open": 3 });
        assert_eq!(crate::administration::offer_text(&of_group).as_deref(), Some("h:1 (FEED_B, 3)"));
        let event = json!([{ "number": 7, "time_ms": 1_764_316_800_123_u64, "level": "info", "text": "ready" }]);
        assert_eq!(text(&Command::Events, &event), "    7  2025-11-28 08:00:00.123Z  info   ready\n");
        let begun = json!({ "started": 1_764_316_800, "uptime_s": 90_061 });
        assert_eq!(text(&Command::Process, &begun), "started: 2025-11-28 08:00:00Z\nuptime: 1 d 1 h 1 min 1 s\n");
        let process = json!({ "role": "serve", "addresses": { "rssl": "h:1", "nip": null }, "threads": [{ "name": "server", "answers": true }] });
        assert_eq!(
            lines("", &process),
            "addresses.rssl: h:1\nrole: serve\nthreads.server.answers: yes\nthreads.server.name: server\n"
        );
    }
}
