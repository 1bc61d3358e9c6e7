//! `quoteway tune`: what the reports tuned, as it is here, as it should be, and the commands; sets it and sets it back.
//!
//! Only what has an effect on this system's paths is set. What the reports set and we leave alone is shown with the reason.

use anyhow::anyhow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use interfaces::{affinity, interrupts, names, physical};

pub mod interfaces;
mod processes;

/// The command line of `tune`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set what is not as it should be; the values before are recorded (needs root)
    #[arg(long, conflicts_with = "revert")]
    apply: bool,
    /// Set everything back to what it was before the first --apply
    #[arg(long)]
    revert: bool,
    /// Processor that takes the interrupts of the network interfaces
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    interrupts: u32,
    /// Where the values before are recorded
    #[arg(long, value_name = "FILE", default_value = "/var/lib/quoteway/tune.json")]
    state: PathBuf,
    /// Folder that holds proc and sys, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    system: PathBuf,
}

/// What a file should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// A number, at least.
    AtLeast(u64),
    /// The last of several numbers, at least; the others stay.
    LastAtLeast(u64),
    /// This text.
    Text(String),
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Path below the root of the system.
    path: String,
    wanted: Wanted,
    /// Which report set it, and what for.
    why: &'static str,
}

/// A setting as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    setting: Setting,
    /// `None` where this system has no such file.
    here: Option<String>,
    /// What is to be written; `None` if it is as it should be.
    write: Option<String>,
}

/// The values before the first `--apply`, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    before: BTreeMap<String, String>,
}

/// Kernel settings that hold everywhere.
const NUMBERS: &[(&str, Wanted, &str)] = &[
    (
        "net/core/rmem_max",
        Wanted::AtLeast(16_777_216),
        "STAC for Novell 2009: receive buffers as large as LBT-RM asks for (8 MB)",
    ),
    ("net/core/wmem_max", Wanted::AtLeast(16_777_216), "STAC for Novell 2009: send buffers"),
    ("net/ipv4/tcp_rmem", Wanted::LastAtLeast(16_777_216), "STAC for Novell 2009: most that TCP may receive ahead"),
    ("net/ipv4/tcp_wmem", Wanted::LastAtLeast(16_777_216), "STAC for Novell 2009: most that TCP may keep"),
    ("net/ipv4/udp_rmem_min", Wanted::AtLeast(16_384), "IBM 2010: what UDP may always use"),
    ("net/ipv4/udp_wmem_min", Wanted::AtLeast(16_384), "IBM 2010: what UDP may always use"),
];

/// What the reports set and this does not, and why.
const LEFT_ALONE: &[(&str, &str, &str)] = &[
    (
        "net.core.rmem_default, wmem_default, tcp_wmem's default",
        "8388608 in the reports",
        "not set: every byte in a large default buffer is latency (a standing queue of 3 to 11 ms at full load); Quoteway sets the buffers of its sockets itself",
    ),
    (
        "net.ipv4.tcp_timestamps, tcp_sack",
        "0 in IBM 2010",
        "not set: a few bytes a segment; recovery from loss suffers",
    ),
    ("net.ipv4.tcp_low_latency", "1 in IBM 2010", "not set: without effect since Linux 4.14"),
    ("TCP segmentation offload", "on and off in Red Hat 2008", "not set: made no difference there"),
    (
        "net.ipv4.tcp_mem, udp_mem",
        "pages for all sockets: up to 16777216 in Red Hat 2008, STAC for Novell 2009, STAC for Intel 2008, IBM 2010",
        "not set: the kernel derives them from the memory at start; the sockets of these systems stay far below",
    ),
    (
        "net.core.optmem_max",
        "16777216 in IBM 2010",
        "not set: bounds ancillary data, of which each call here has some 100 bytes",
    ),
    ("net.ipv4.tcp_dma_copybreak", "262144 in IBM 2010", "not set: the kernel has no DMA engine for TCP any more"),
    (
        "net.ipv4.ip_local_port_range",
        "32768 to 61000 in STAC for Novell 2009, 34800 to 65535 in STAC for Intel 2008",
        "not set: 28,000 ports are enough for clients on one host; a load generator with more connections needs it",
    ),
    (
        "services of the system",
        "SELinux, crond, ntpd, cpuspeed stopped in Red Hat 2008; nearly all in the reports of STAC",
        "not stopped: that is the operator's to decide; `systemctl list-timers` shows what will run during a measurement",
    ),
    (
        "system management interrupts",
        "switched off by a kernel module in STAC for Novell 2009, by `smictrl -s 0` in STAC for Cisco 2009",
        "not set: no interface of the kernel does it; `turbostat --show SMI` counts them, the firmware's settings avoid them",
    ),
];

/// The length of the interfaces' send queues (Red Hat 2008, STAC for Novell 2009; STAC for Intel 2008 had 10,000).
const QUEUE_LENGTH: u64 = 5_000;

/// Prints, sets or sets back.
///
/// # Errors
/// A text: something could not be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.revert {
        return revert(args);
    }
    let all = look(&args.system, &settings(&args.system, args.interrupts));
    if args.apply {
        apply(args, &all)
    } else {
        print!("{}{}", table(&all), processes::text(&args.system));
        advice(&args.system);
        Ok(())
    }
}

/// Everything that is set on this system.
fn settings(system: &Path, processor: u32) -> Vec<Setting> {
    let mut all: Vec<Setting> = NUMBERS
        .iter()
        .map(|(path, wanted, why)| Setting { path: format!("proc/sys/{path}"), wanted: wanted.clone(), why })
        .collect();
    for cpu in names(&system.join("sys/devices/system/cpu")).iter().filter(|n| is_numbered(n, "cpu")) {
        let path = format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
        // Without one, the first processor's line says so for all.
        if cpu == "cpu0" || system.join(&path).exists() {
            let why = "all reports stop cpuspeed or set the firmware to performance";
            all.push(Setting { path, wanted: Wanted::Text("performance".to_owned()), why });
        }
    }
    for name in physical(system) {
        all.push(Setting {
            path: format!("sys/class/net/{name}/tx_queue_len"),
            wanted: Wanted::AtLeast(QUEUE_LENGTH),
            why: "Red Hat 2008, STAC for Novell 2009: txqueuelen",
        });
        for interrupt in interrupts(system, &name) {
            all.push(Setting {
                path: affinity(interrupt),
                wanted: Wanted::Text(processor.to_string()),
                why: "Red Hat 2008 5.2: interrupts of the network on one processor, the distributors on others",
            });
        }
    }
    all
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// What a file holds, as it is compared and shown; `None` without such a file.
fn value(system: &Path, path: &str) -> Option<String> {
    fs::read_to_string(system.join(path)).ok().map(|t| t.trim().replace('\t', " "))
}

fn look(system: &Path, settings: &[Setting]) -> Vec<Found> {
    let find = |setting: &Setting| {
        let here = value(system, &setting.path);
        let write = here.as_deref().and_then(|here| setting.wanted.instead_of(here));
        Found { setting: setting.clone(), here, write }
    };
    settings.iter().map(find).collect()
}

impl Wanted {
    /// What is to be written where `here` stands; `None` if that will do, or cannot be understood.
    fn instead_of(&self, here: &str) -> Option<String> {
        match self {
            Self::AtLeast(least) => (here.parse::<u64>().ok()? < *least).then(|| least.to_string()),
            Self::LastAtLeast(least) => {
                let mut words: Vec<&str> = here.split_whitespace().collect();
                let enough = words.pop()?.parse::<u64>().ok()? >= *least;
                (!enough).then(|| format!("{} {least}", words.join(" ")))
            }
            Self::Text(text) => (here != text).then(|| text.clone()),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::LastAtLeast(least) => format!("the last at least {least}"),
            Self::Text(text) => text.clone(),
        }
    }
}

fn table(all: &[Found]) -> String {
    let mut out = String::new();
    let width = all.iter().map(|f| f.setting.path.len()).max().unwrap_or(0);
    for found in all {
        let (path, here) = (&found.setting.path, found.here.as_deref().unwrap_or("not on this system, cannot be set"));
        let mark = match (&found.here, &found.write) {
            (None, _) => "-",
            (_, Some(_)) => "CHANGE",
            (_, None) => "ok",
        };
        let (wanted, why) = (found.setting.wanted.shown(), found.setting.why);
        let _ = writeln!(out, "{mark:6} /{path:width$}  {here}  (should be {wanted}; {why})");
    }
    let commands: Vec<String> = all.iter().filter_map(command).collect();
    if commands.is_empty() {
        out += "\nEverything is as it should be.\n";
    } else {
        out += "\nCommands (`quoteway tune --apply` runs them and remembers what was before):\n";
        for command in commands {
            let _ = writeln!(out, "  {command}");
        }
    }
    out += "\nTuned in the reports and left alone here:\n";
    for (name, there, why) in LEFT_ALONE {
        let _ = writeln!(out, "  {name} ({there}): {why}");
    }
    out
}

fn command(found: &Found) -> Option<String> {
    let (value, path) = (found.write.as_ref()?, &found.setting.path);
    Some(match path.strip_prefix("proc/sys/") {
        Some(name) => format!("sysctl -w {}='{value}'", name.replace('/', ".")),
        None => format!("echo {value} > /{path}"),
    })
}

/// What is bound to processes or services and cannot be set here.
fn advice(system: &Path) {
    let is_running = |name: &str| {
        let comm = |pid: &String| fs::read_to_string(system.join("proc").join(pid).join("comm")).unwrap_or_default();
        names(&system.join("proc")).iter().filter(|n| is_numbered(n, "")).any(|pid| comm(pid).trim() == name)
    };
    println!("\nFor the system, by hand:");
    if is_running("irqbalance") {
        println!("  irqbalance is running and would move the interrupts again: systemctl stop irqbalance");
    }
    println!("  shielded processors: boot with isolcpus=, nohz_full=, rcu_nocbs= for those of the distributors");
}

fn apply(args: &Args, all: &[Found]) -> anyhow::Result<()> {
    let changes: Vec<(&Found, &String)> = all.iter().filter_map(|f| Some((f, f.write.as_ref()?))).collect();
    let mut state = read_state(&args.state)?;
    if changes.is_empty() {
        println!("Everything is as it should be; nothing is changed.");
        return Ok(());
    }
    let known: Vec<String> = state.before.keys().cloned().collect();
    for (found, _) in &changes {
        if let Some(here) = &found.here {
            // The value of before the first call counts.
            state.before.entry(found.setting.path.clone()).or_insert_with(|| here.clone());
        }
    }
    // Recorded before anything is changed: a call that is cut off can be set back.
    write_state(&args.state, &state)?;
    let mut faults = Vec::new();
    for (found, wanted) in changes {
        let (path, here) = (&found.setting.path, found.here.as_deref().unwrap_or_default());
        match set(&args.system, path, wanted) {
            Ok(()) => println!("/{path}: {here} -> {wanted}"),
            Err(why) => faults.push(why.to_string()),
        }
        // A setting that could not be changed need not be set back either.
        if !known.contains(path) && value(&args.system, path).as_deref() == Some(here) {
            state.before.remove(path);
        }
    }
    save(&args.state, &state)?;
    if !state.before.is_empty() {
        println!("the values before are in {}; quoteway tune --revert sets them back", args.state.display());
    }
    if faults.is_empty() { Ok(()) } else { Err(anyhow!(faults.join("\n"))) }
}

fn revert(args: &Args) -> anyhow::Result<()> {
    let mut state = read_state(&args.state)?;
    if state.before.is_empty() {
        println!("nothing to set back: {} holds no values", args.state.display());
        return Ok(());
    }
    let mut faults = Vec::new();
    state.before.retain(|path, before| {
        let here = value(&args.system, path);
        // Somebody else may have set it back; some files do not even take the value that they hold.
        if here.as_deref() == Some(before) {
            println!("/{path}: is {before}");
            return false;
        }
        match set(&args.system, path, before) {
            Ok(()) => {
                println!("/{path}: {} -> {before}", here.unwrap_or_default());
                false
            }
            Err(why) => {
                faults.push(why.to_string());
                true
            }
        }
    });
    save(&args.state, &state)?;
    if faults.is_empty() {
        return Ok(());
    }
    faults.push(format!("what could not be set back is still recorded in {}", args.state.display()));
    Err(anyhow!(faults.join("\n")))
}

/// Writes a value and reads it back: the kernel may take less than it was given.
fn set(system: &Path, path: &str, wanted: &str) -> anyhow::Result<()> {
    fs::write(system.join(path), wanted).map_err(|e| {
        let hint = match e.kind() {
            std::io::ErrorKind::PermissionDenied => " (needs root)",
            _ if path.starts_with("proc/irq/") => " (the kernel does not let this interrupt be moved)",
            _ => "",
        };
        anyhow!("/{path}: {e}{hint}")
    })?;
    let now = value(system, path).unwrap_or_default();
    if now == wanted { Ok(()) } else { Err(anyhow!("/{path}: {wanted} was written and {now} is in force")) }
}

/// Keeps what is still to be set back, or no file.
fn save(path: &Path, state: &State) -> anyhow::Result<()> {
    if !state.before.is_empty() {
        return write_state(path, state);
    }
    fs::remove_file(path).map_err(|e| anyhow!("{}: {e}", path.display()))
}

fn read_state(path: &Path) -> anyhow::Result<State> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| anyhow!("{}: {e}", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(State::default()),
        Err(e) => Err(anyhow!("{}: {e}", path.display())),
    }
}

fn write_state(path: &Path, state: &State) -> anyhow::Result<()> {
    let failed = |e: std::io::Error| {
        let hint = if e.kind() == std::io::ErrorKind::PermissionDenied { " (needs root)" } else { "" };
        anyhow!("{}: {e}{hint}", path.display())
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(state)?;
    // Whole or not at all: it is what brings the system back.
    let new = path.with_extension("new");
    net::output::write(&new, text).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/core/wmem_max", "33554432\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/x", "\n"),
        ("sys/devices/system/cpu/cpu1/online", "1\n"),
        ("sys/class/net/eth0/device/msi_irqs/24", "msix\n"),
        ("sys/class/net/eth0/tx_queue_len", "1000\n"),
        ("sys/class/net/lo/tx_queue_len", "1000\n"),
        ("proc/irq/24/smp_affinity_list", "0-7\n"),
    ];

    fn system() -> (tempfile::TempDir, Args) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in FILES {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (state, system) = (folder.path().join("state/tune.json"), folder.path().to_owned());
        (folder, Args { apply: true, revert: false, interrupts: 1, state, system })
    }

    fn read(args: &Args, path: &str) -> String {
        fs::read_to_string(args.system.join(path)).unwrap().trim().to_owned()
    }

    #[test]
    fn what_differs_is_shown_with_its_command() {
        let (_folder, args) = system();
        let all = look(&args.system, &settings(&args.system, 1));
        let text = table(&all);
        for part in [
            "CHANGE /proc/sys/net/core/rmem_max",
            "ok     /proc/sys/net/core/wmem_max",
            "-      /proc/sys/net/ipv4/udp_rmem_min",
            "not on this system, cannot be set",
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'",
            "echo performance > /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "echo 1 > /proc/irq/24/smp_affinity_list",
            "echo 5000 > /sys/class/net/eth0/tx_queue_len",
            "left alone",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("net/lo"), "loopback has no queue: {text}");
    }

    #[test]
    fn it_is_set_and_set_back_to_what_was_before_the_first_time() {
        let (_folder, args) = system();
        run(&args).unwrap();
        assert_eq!(read(&args, "proc/sys/net/core/rmem_max"), "16777216");
        assert_eq!(read(&args, "proc/sys/net/ipv4/tcp_rmem"), "4096 131072 16777216");
        assert_eq!(read(&args, "proc/sys/net/core/wmem_max"), "33554432");
        assert_eq!(read(&args, "proc/irq/24/smp_affinity_list"), "1");
        assert!(table(&look(&args.system, &settings(&args.system, 1))).contains("Everything is as it should be"));
        // Somebody changes a value, and it is set again: that is not what was before.
        fs::write(args.system.join("proc/sys/net/core/rmem_max"), "5").unwrap();
        run(&args).unwrap();
        run(&Args { apply: false, revert: true, ..args.clone() }).unwrap();
        for (path, text) in FILES {
            assert_eq!(read(&args, path), text.trim().replace('\t', " "), "{path}");
        }
        assert!(!args.state.exists());
        run(&Args { apply: false, revert: true, ..args }).unwrap();
    }

    #[test]
    fn what_is_as_it_should_be_leaves_no_record() {
        let (_folder, args) = system();
        run(&args).unwrap();
        fs::remove_file(&args.state).unwrap();
        run(&args).unwrap();
        assert!(!args.state.exists(), "nothing was changed");
    }

    #[test]
    fn what_could_not_be_changed_is_not_to_be_set_back() {
        let (_folder, args) = system();
        // A file of the kernel that nobody can write, as those of interrupts that it keeps to itself.
        let stubborn = args.system.join("proc/irq/24/smp_affinity_list");
        fs::remove_file(&stubborn).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ostype", &stubborn).unwrap();
        let fault = run(&args).unwrap_err();
        assert!(fault.to_string().contains("proc/irq/24/smp_affinity_list"), "{fault}");
        assert_eq!(read(&args, "proc/sys/net/core/rmem_max"), "16777216", "the others are set");
        run(&Args { apply: false, revert: true, ..args.clone() }).unwrap();
        assert!(!args.state.exists() && read(&args, "proc/sys/net/core/rmem_max") == "212992");
    }

    #[test]
    fn what_cannot_be_set_back_stays_recorded() {
        let (_folder, args) = system();
        run(&args).unwrap();
        let gone = args.system.join("proc/irq/24");
        fs::remove_dir_all(&gone).unwrap();
        let fault = run(&Args { apply: false, revert: true, ..args.clone() }).unwrap_err();
        assert!(fault.to_string().contains("proc/irq/24"), "{fault}");
        let state = read_state(&args.state).unwrap();
        assert_eq!(
            state.before.into_iter().collect::<Vec<_>>(),
            [("proc/irq/24/smp_affinity_list".to_owned(), "0-7".to_owned())]
        );
        fs::write(&args.state, "x").unwrap();
        assert!(run(&args).is_err(), "a file that cannot be read is not written over");
    }
}
