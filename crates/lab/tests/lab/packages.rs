//! `make deb`: the package goes in, its program tells systemd what systemd wants to know, upgrades keep what was set, and it goes.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{LAB, PRODUCT, said};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn package(version: &str, folder: &Path) -> PathBuf {
    let output = Command::new(workspace().join("packaging/deb.sh"))
        .arg(folder.join("packages"))
        .envs([("VERSION", version), ("COMPRESS", "none"), ("LAB", LAB)])
        .env("BINARY", &*PRODUCT)
        .env("MAN", folder.join("man"))
        .env_remove("MAKEFLAGS")
        .output()
        .expect("packaging/deb.sh runs");
    assert!(output.status.success(), "{}", said(&output));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).lines().last().expect("it names the package"))
}

/// dpkg with a root of its own: what it does there needs no rights and touches nothing of the machine.
fn dpkg(root: &Path, words: &[&str]) {
    let output = Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .args(["--force-not-root", "--force-script-chrootless", "--force-depends", "--force-confold"])
        .arg(format!("--log={}", root.join("dpkg.log").display()))
        .args(words)
        .output()
        .expect("dpkg runs");
    assert!(output.status.success(), "dpkg {words:?}: {}", said(&output));
}

/// Starts the installed program as systemd would, and reads what it tells the supervisor until each of these was said.
fn supervised(root: &Path, expected: &[&str]) {
    let place = tempfile::tempdir().expect("a folder");
    let socket = place.path().join("notify");
    let supervisor = UnixDatagram::bind(&socket).expect("a socket");
    supervisor.set_read_timeout(Some(Duration::from_mins(1))).expect("a limit");
    let mut process = Command::new(root.join("usr/bin/quoteway"))
        .args(["serve", "--rssl-port", "0", "--nip-port", "0", "--config"])
        .arg(root.join("etc/quoteway/quoteway.toml"))
        .envs([("NOTIFY_SOCKET", socket.as_os_str()), ("WATCHDOG_USEC", "300000".as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the installed program runs");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("ready rssl="), "{line}");
    let mut missing = expected.to_vec();
    let mut message = [0; 1024];
    while !missing.is_empty() {
        let length =
            supervisor.recv(&mut message).unwrap_or_else(|e| panic!("the supervisor never heard {missing:?}: {e}"));
        let text = String::from_utf8_lossy(&message[..length]);
        missing.retain(|word| !text.contains(word));
    }
    process.kill().expect("it can be ended");
    process.wait().expect("it ends");
}

#[test]
fn the_debian_package_installs_starts_upgrades_and_goes() {
    if Command::new("dpkg").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "no dpkg here: CI has to have it");
        eprintln!("no dpkg here: the package was not tested");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("dpkg's folders");
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("dpkg's folders");
    std::fs::write(root.join("var/lib/dpkg/status"), "").expect("dpkg's state");

    let first = package("0.1.0", folder.path());
    dpkg(&root, &["--install", &first.to_string_lossy()]);
    for file in [
        "usr/lib/systemd/system/quoteway.service",
        "usr/lib/sysusers.d/quoteway.conf",
        "usr/share/man/man1/quoteway.1.gz",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    supervised(&root, &["READY=1", "STATUS=ready rssl=", "WATCHDOG=1"]);

    // Settings of the administrator survive an upgrade, and go only with a purge.
    let settings = root.join("etc/quoteway/quoteway.toml");
    std::fs::write(&settings, "[p2ps]\nmax_mounts = 7\n").expect("settings");
    let second = package("0.1.1", folder.path());
    dpkg(&root, &["--install", &second.to_string_lossy()]);
    assert_eq!(std::fs::read_to_string(&settings).expect("settings"), "[p2ps]\nmax_mounts = 7\n");
    supervised(&root, &["READY=1"]);
    dpkg(&root, &["--remove", "quoteway"]);
    assert!(!root.join("usr/bin/quoteway").exists() && settings.exists());
    dpkg(&root, &["--purge", "quoteway"]);
    assert!(!settings.exists());
}

#[test]
fn systemd_units_start_what_the_binary_has() {
    for unit in ["quoteway", "quoteway-source-distributor", "quoteway-p2ps", "quoteway-rrcpd"] {
        let path = workspace().join(format!("packaging/systemd/{unit}.service"));
        let text = std::fs::read_to_string(&path).expect("a unit");
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/quoteway ")).expect("ExecStart");
        let role = start.split(' ').next().expect("a role");
        let output = Command::new(&*PRODUCT).args([role, "--help"]).output().expect("it runs");
        assert!(output.status.success() && said(&output).contains("--config"), "{role}: {}", said(&output));
        for needed in ["Type=notify", "WatchdogSec=", "Restart=always", "LimitNOFILE=", "User=quoteway"] {
            assert!(text.contains(needed), "{unit}: {needed}");
        }
    }
}
