//! Where and when something was measured, and what else the machine was doing.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::product;
use rwf::Date;
use tools::tune::interfaces;

/// Facts that stand above every report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The machine.
    pub host: String,
    /// Socket buffer limits and congestion control.
    pub sockets: String,
    /// Version and commit of this program.
    pub program: String,
    /// The file of this program: a commit does not tell two builds of a checkout with changes apart, and an installed program knows none.
    pub lab: String,
    /// The file of the product that is measured.
    pub product: String,
    /// The command line.
    pub command: String,
    /// When, in UTC.
    pub at: String,
    /// More of the machine, by name.
    pub facts: Vec<(String, String)>,
}

impl Environment {
    /// Of this process, now.
    pub fn read() -> Self {
        let host = net::host::Host::read();
        let bytes = |limit: Option<u64>| limit.map_or("unknown".to_owned(), |b| b.to_string());
        Self {
            sockets: format!(
                "wmem_max {}, rmem_max {}, TCP congestion control {}",
                bytes(host.send_buffer_max),
                bytes(host.receive_buffer_max),
                congestion_control()
            ),
            host: host.to_string(),
            program: format!("quoteway-lab {}, commit {}", env!("CARGO_PKG_VERSION"), commit()),
            lab: std::env::current_exe().map_or("unknown".to_owned(), |path| build(&path)),
            product: product::binary().map_or("not found".to_owned(), |path| build(&path)),
            command: command(std::env::args().skip(1)),
            at: utc(net::clock::wall()),
            facts: facts(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let Self { host, sockets, program, lab, product, command, at, facts } = self;
        let facts: serde_json::Map<String, Value> = facts.iter().map(|(n, v)| (n.clone(), json!(v))).collect();
        json!({
            "host": host, "sockets": sockets, "program": program, "lab": lab, "product": product, "command": command, "at": at,
            "facts": facts,
        })
    }

    /// The product, for a report: without its folder, which is the machine's own business.
    pub fn measured(&self) -> &str {
        self.product.rsplit('/').next().unwrap_or_default()
    }

    /// Whether what was measured in an environment, as [`json`](Self::json) writes it, may stand beside what is measured in this one: by the same files of
    /// both programs, on the same machine.
    pub fn is_same_build(&self, other: &Value) -> bool {
        let Self { host, program, lab, product, .. } = self;
        [("host", host), ("program", program), ("lab", lab), ("product", product)]
            .into_iter()
            .all(|(name, value)| other[name] == *value.as_str())
    }
}

/// The command line, as a shell takes it: who copies it repeats the call.
fn command(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@+%".contains(c);
    let quoted = words.map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    ["quoteway-lab".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// What else bears on figures: processors and their frequency, interrupts, steal, mitigations.
fn facts() -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.push((name.to_owned(), value.unwrap_or_else(|| "not told by this system".to_owned())));
    };
    add("processors online", read("/sys/devices/system/cpu/online"));
    add("simultaneous multithreading", read("/sys/devices/system/cpu/smt/control"));
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let hidden = "no frequency scaling visible (a virtual machine's host decides)".to_owned();
    add("frequency governor", Some(governor.unwrap_or(hidden)));
    add("isolated processors", Some(read("/sys/devices/system/cpu/isolated").unwrap_or_else(|| "none".to_owned())));
    add("clock source", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("kernel", read("/proc/version").and_then(|t| t.split(" (").next().map(str::to_owned)));
    add("boot parameters that bear on figures", read("/proc/cmdline").map(|line| tuning_words(&line)));
    add("transparent huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    let limits = ["rmem_default", "rmem_max", "wmem_default", "wmem_max"];
    let limits =
        limits.map(|name| format!("{name} {}", read(&format!("/proc/sys/net/core/{name}")).unwrap_or_default()));
    add("socket limits (net.core)", Some(limits.join(", ")));
    add(
        "net.ipv4.tcp_rmem / tcp_wmem",
        read("/proc/sys/net/ipv4/tcp_rmem")
            .zip(read("/proc/sys/net/ipv4/tcp_wmem"))
            .map(|(r, w)| format!("{r} / {w}").replace('\t', " ")),
    );
    add("interrupts may run on (default_smp_affinity)", read("/proc/irq/default_smp_affinity"));
    add(
        "interrupts of network cards",
        Some(interfaces::affinities(Path::new("/")).unwrap_or_else(|| "none".to_owned())),
    );
    add("stolen time since the start", Some(format!("{:.2} %", Disturbance::now().stolen_percent())));
    facts
}

/// The words of the kernel's command line that bear on figures; the others are the machine's own business.
fn tuning_words(line: &str) -> String {
    const NAMES: [&str; 12] = [
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "mitigations",
        "idle",
        "nosmt",
        "intel_idle.max_cstate",
        "processor.max_cstate",
        "hugepages",
        "transparent_hugepage",
        "preempt",
        "clocksource",
    ];
    let is_meant = |word: &&str| NAMES.contains(&word.split('=').next().unwrap_or_default());
    let words: Vec<&str> = line.split_whitespace().filter(is_meant).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

/// By which algorithm TCP decides when to send, on loopback too.
fn congestion_control() -> String {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    if text.trim().is_empty() { "unknown".to_owned() } else { text.trim().to_owned() }
}

/// The commit of the checkout that this program was built in; `+` if files differ from it, and a word where it was built before that commit was
/// made. An installed program knows none.
fn commit() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&folder).args(args).output().ok()?;
        let output = Some(output).filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(id) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let is_changed = git(&["status", "--porcelain", "-uno"]).is_some_and(|text| !text.is_empty());
    let built = fs::metadata(&program).and_then(|data| data.modified()).ok();
    let built = built.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).map(|since| since.as_secs());
    let made = git(&["show", "-s", "--format=%ct", "HEAD"]).and_then(|seconds| seconds.parse::<u64>().ok());
    let is_older = built.zip(made).is_some_and(|(built, made)| built < made);
    let mark = if is_changed { "+" } else { "" };
    format!("{id}{mark}{}", if is_older { " (built before it)" } else { "" })
}

/// A program's file, its length and when it was written: builds differ in one of them.
fn build(path: &Path) -> String {
    let data = fs::metadata(path);
    let written = data.as_ref().ok().and_then(|data| data.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
    let written = written.map_or("unknown".to_owned(), |since| utc(since.as_nanos() as u64));
    format!("{}, {} bytes, written {written}", path.display(), data.map_or(0, |data| data.len()))
}

/// Wall-clock nanoseconds as `2026-11-20T10:15:00Z`.
pub fn utc(wall: u64) -> String {
    let seconds = wall / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let Date { year, month, day } = Date::from_days(u32::try_from(days).expect("a day of these millennia"));
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

/// What else the machine does: runnable tasks, and processor time by kind since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Runnable tasks, averaged over a minute by the kernel.
    pub load: f64,
    ticks: u64,
    stolen: u64,
}

impl Disturbance {
    /// The state now; zero where the kernel does not say.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg").split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0.0);
        let ticks: Vec<u64> = read("/proc/stat")
            .lines()
            .next()
            .map(|l| l.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect())
            .unwrap_or_default();
        Self { load, ticks: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// Share of the time that the hypervisor gave to others.
    pub fn stolen_percent(&self) -> f64 {
        self.stolen as f64 * 100.0 / self.ticks.max(1) as f64
    }

    /// From `self` until now.
    #[must_use]
    pub fn since(&self) -> Self {
        let now = Self::now();
        Self { load: now.load, ticks: now.ticks - self.ticks, stolen: now.stolen - self.stolen }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load average {:.1}, {:.1} % stolen", self.load, self.stolen_percent())
    }
}

/// Nanoseconds that a line of the cache took between two processors and back, the least and the most of the looks so far. The host of a virtual
/// machine moves its processors, and what goes through shared memory is up to nine times faster within a cache than across.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance(Option<(f64, f64)>);

impl Distance {
    /// With one look more. It takes the first two processors for a millisecond.
    #[must_use]
    pub fn look(self) -> Self {
        self.with(floor::distance::line_round_trip())
    }

    fn with(self, ns: Option<f64>) -> Self {
        let Some(ns) = ns else { return self };
        Self(Some(self.0.map_or((ns, ns), |(least, most)| (least.min(ns), most.max(ns)))))
    }
}

/// Stands behind a [`Disturbance`]; nothing where none was had.
impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some((least, most)) if most < 1.3 * least => {
                write!(f, ", a cache line between processors and back {most:.0} ns")
            }
            Some((least, most)) => write!(f, ", a cache line between processors and back {least:.0} to {most:.0} ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_can_be_copied() {
        let words = ["redhat-2node", "--set", "rates=10k 100k", "--out", "it's"].map(str::to_owned);
        let expected = "quoteway-lab redhat-2node --set 'rates=10k 100k' --out 'it'\\''s'";
        assert_eq!(command(words.into_iter()), expected);
    }

    #[test]
    fn times_are_civil() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_169_700, "2026-11-20T10:15:00Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn only_what_bears_on_figures_is_taken_from_the_command_line() {
        assert_eq!(tuning_words("root=/dev/sda isolcpus=1 quiet mitigations=off"), "isolcpus=1 mitigations=off");
        assert_eq!(tuning_words("quiet"), "none");
    }

    #[test]
    fn the_least_and_the_most_distance_are_told() {
        let one = Distance::default().with(Some(55.0));
        assert_eq!(one.with(None).to_string(), ", a cache line between processors and back 55 ns");
        assert_eq!(one.with(Some(510.0)).with(Some(100.0)), Distance(Some((55.0, 510.0))));
        assert!(one.with(Some(510.0)).to_string().ends_with(" 55 to 510 ns"));
        assert_eq!(Distance::default().to_string(), "");
    }

    #[test]
    fn builds_are_told_apart_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quoteway");
        let mut all = vec![build(&path)];
        for text in ["one", "two", "three"] {
            fs::write(&path, text).unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(all.len() as u64);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
            let now = build(&path);
            assert!(!all.contains(&now) && now == build(&path), "{now}");
            all.push(now);
        }
    }

    #[test]
    fn the_environment_names_the_machine_and_the_command() {
        let environment = Environment::read();
        assert!(
            environment.host.contains("Linux")
                && environment.command.starts_with("quoteway-lab")
                && environment.program.starts_with("quoteway-lab ")
        );
        assert!(Disturbance::now().since().to_string().contains("load average"));
    }
}
