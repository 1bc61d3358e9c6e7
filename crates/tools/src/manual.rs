//! Man pages and shell completions, made from what the command line declares.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;

/// Writes the page of a program (`quoteway.1`) and of each subcommand (`quoteway-serve.1`) into `dir`, which is made if it is not there.
/// Returns the files.
///
/// # Errors
/// A file cannot be written.
pub fn man_pages(command: Command, name: &str, dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    let mut written = Vec::new();
    let mut command = command.disable_help_subcommand(true);
    command.build();
    page(&command, name, dir, &mut written)?;
    Ok(written)
}

fn page(command: &Command, name: &str, dir: &Path, written: &mut Vec<PathBuf>) -> io::Result<()> {
    let file = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone().display_name(name));
    man.manual("Quoteway").source(concat!("quoteway ", env!("CARGO_PKG_VERSION"))).render(&mut text)?;
    net::output::write(&file, complete(&String::from_utf8_lossy(&text), command, name))?;
    written.push(file);
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        page(sub, &format!("{name}-{}", sub.get_name()), dir, written)?;
    }
    Ok(())
}

/// The page with the values of options in its synopsis, and with the environment.
fn complete(page: &str, command: &Command, name: &str) -> String {
    let heading = ".SH SYNOPSIS\n";
    let (before, rest) = page.split_once(heading).unwrap_or((page, ""));
    let rest = rest.find(".SH ").map_or("", |next| &rest[next..]);
    let (rest, version) = rest.find(".SH VERSION").map_or((rest, ""), |at| rest.split_at(at));
    format!("{before}{heading}{}{rest}{}{version}", synopsis(command, name), environment(name))
}

/// Every option with its value, then the arguments, as `man-pages(7)` writes them.
fn synopsis(command: &Command, name: &str) -> String {
    let escape = |text: &str| text.replace('-', "\\-");
    let mut out = format!("\\fB{}\\fR", escape(name));
    let (places, options): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    for arg in options.into_iter().chain(places) {
        let flag = arg.get_long().map(|long| format!("--{long}")).or(arg.get_short().map(|short| format!("-{short}")));
        let values = if arg.get_action().takes_values() { arg.get_value_names().unwrap_or_default() } else { &[] };
        let words = flag.iter().map(|flag| format!("\\fB{}\\fR", escape(flag)));
        let words = words.chain(values.iter().map(|value| format!("\\fI{}\\fR", escape(value))));
        let words = words.collect::<Vec<_>>().join(" ");
        let _ = if arg.is_required_set() { write!(out, " {words}") } else { write!(out, " [{words}]") };
    }
    if command.has_subcommands() {
        out.push_str(if command.is_subcommand_required_set() {
            " \\fISUBCOMMAND\\fR"
        } else {
            " [\\fISUBCOMMAND\\fR]"
        });
    }
    out + "\n"
}

/// The programs that a supervisor starts.
const SERVERS: [&str; 5] =
    ["quoteway-serve", "quoteway-source-distributor", "quoteway-p2ps", "quoteway-desktop", "quoteway-rrcpd"];
/// Those that ask a process, perhaps as a user of it.
const ASKING: [&str; 2] = ["quoteway-ctl", "quoteway-top"];

/// Those that look for servers by name.
const CLIENTS: [&str; 5] = [
    "quoteway-test-client",
    "quoteway-sink-driven-src",
    "quoteway-page",
    "quoteway-delay",
    "quoteway-marketfeed-lines",
];

/// The variables that a program looks at.
fn environment(name: &str) -> String {
    let mut text = "\
.SH ENVIRONMENT
.TP
\\fBQUOTEWAY_LOG\\fR
How much of the log goes to standard error: off, error, warn, info (the default), debug or trace; also for a part of the program,
as in server::agents=debug.
"
    .to_owned();
    if SERVERS.contains(&name) {
        text += "\
.TP
\\fBNOTIFY_SOCKET\\fR, \\fBWATCHDOG_USEC\\fR
Set by a supervisor such as systemd, which is told when the ports are open and that the process goes on.
";
    }
    if CLIENTS.contains(&name) || (SERVERS.contains(&name) && name != "quoteway-rrcpd") {
        text += "\
.TP
\\fBQUOTEWAY_NAME_SERVERS\\fR
Name servers (ADDRESS or ADDRESS:PORT, with commas between) to ask for srv: names instead of those of /etc/resolv.conf.
";
    }
    if ASKING.iter().any(|program| name.strip_prefix(program).is_some_and(|sub| sub.is_empty() || sub.starts_with('-')))
    {
        text += "\
.TP
\\fBQUOTEWAY_PASSWORD\\fR
Password of the user that \\-\\-user names.
";
    }
    text
}

/// The completions of a program for a shell, to be put where it looks for them.
pub fn completions(mut command: Command, name: &str, shell: clap_complete::Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}
