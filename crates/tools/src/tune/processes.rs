//! The processes of Quoteway that run here: where they may run, with which priority, and what the reports gave theirs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::interfaces::names;

/// Load generators; everything else stands between them.
const GENERATORS: [&str; 2] = ["sink-driven-src", "test-client"];
/// `chrt -f`: STAC for Novell 2009 gave load generators less than the distributors.
const DISTRIBUTOR: u32 = 55;
const GENERATOR: u32 = 49;

/// A process of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    id: u32,
    role: String,
    processors: String,
    /// `other`, `fifo 55`.
    scheduling: String,
}

/// What runs here and what to do about it, a line each; what cannot be set by this command is said with its own.
pub(super) fn text(system: &Path) -> String {
    let mut out = String::from(
        "\nProcesses of Quoteway (STAC for Novell 2009, Red Hat 2008: a processor for each distributor, real-time priorities):\n",
    );
    let all = running(system);
    for Running { id, role, processors, scheduling } in &all {
        let priority = if GENERATORS.contains(&role.as_str()) { GENERATOR } else { DISTRIBUTOR };
        let _ = writeln!(
            out,
            "  {id} {role}: on processors {processors}, scheduled {scheduling}  (taskset -a -c -p CPU {id}; chrt -a -f -p {priority} {id})"
        );
    }
    if all.is_empty() {
        out += "  none is running\n";
    }
    out += "  not set by --apply, since it belongs to each process: `bind_main_thread`, `bind_writer_threads`, `priority = \"fifo 55\"` in its configuration\n";
    out
}

fn running(system: &Path) -> Vec<Running> {
    let folder = system.join("proc");
    let mut ids: Vec<u32> = names(&folder).iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    ids.into_iter()
        .filter(|id| *id != std::process::id())
        .filter_map(|id| one(&folder.join(id.to_string()), id))
        .collect()
}

fn one(folder: &Path, id: u32) -> Option<Running> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    if read("comm")?.trim() != "quoteway" {
        return None;
    }
    let words = read("cmdline")?;
    let role =
        words.split('\0').skip(1).find(|word| !word.is_empty() && !word.starts_with('-')).unwrap_or("").to_owned();
    let status = read("status")?;
    let processors = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
    // Behind the name, which may hold anything, `policy` is the 39th field and the real-time priority the one before.
    let stat = read("stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (priority, policy) = (fields.get(37)?, fields.get(38)?);
    let scheduling = match *policy {
        "0" => "other".to_owned(),
        "1" => format!("fifo {priority}"),
        "2" => format!("rr {priority}"),
        policy => format!("policy {policy}"),
    };
    Some(Running { id, role, processors, scheduling })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(priority: u32, policy: u32) -> String {
        let before = "0 ".repeat(36);
        format!("7 (a) b) S {before}{priority} {policy} 0 0\n")
    }

    #[test]
    fn each_process_is_shown_with_what_the_reports_gave_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |id: u32, comm: &str, line: &str, stat: &str| {
            let of = folder.path().join(format!("proc/{id}"));
            fs::create_dir_all(&of).expect("a folder");
            for (name, text) in
                [("comm", comm), ("cmdline", line), ("stat", stat), ("status", "Name:\tx\nCpus_allowed_list:\t0-1\n")]
            {
                fs::write(of.join(name), text).expect("a file");
            }
        };
        make(4_100_001, "quoteway\n", "quoteway\0serve\0--port\x001\0", &stat(0, 0));
        make(4_100_002, "quoteway\n", "/bin/quoteway\0test-client\0", &stat(49, 1));
        make(4_100_003, "other\n", "other\0", &stat(0, 0));
        let text = text(folder.path());
        for part in [
            "4100001 serve: on processors 0-1, scheduled other  (taskset -a -c -p CPU 4100001; chrt -a -f -p 55 4100001)",
            "4100002 test-client: on processors 0-1, scheduled fifo 49  (taskset -a -c -p CPU 4100002; chrt -a -f -p 49",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("4100003") && !text.contains("none is running"), "{text}");
    }

    #[test]
    fn the_kernels_own_file_is_read_right() {
        let stat = fs::read_to_string("/proc/self/stat").expect("this process");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        // A test runs without real-time priority: `policy` 0 (or batch, 3, under a nice build) and priority 0.
        assert!(fields[37] == "0" && ["0", "3"].contains(&fields[38]), "{stat}");
    }
}
