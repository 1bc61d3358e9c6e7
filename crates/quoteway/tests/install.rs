//! `make install`: everything is where shells and man look for it, and can be read.

use std::path::Path;
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn make_install_fills_a_destdir() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("dest");
    let output = Command::new("make")
        // The binary is there: it was built with this test.
        .args(["--old-file=build", "install", "PREFIX=/opt/qw"])
        .arg(format!("BINARY={}", env!("CARGO_BIN_EXE_quoteway")))
        .arg(format!("MAN={}", folder.path().join("man").display()))
        .arg(format!("DESTDIR={}", at.display()))
        .env_remove("MAKEFLAGS")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", said(&output));
    let at = at.join("opt/qw");
    let output = Command::new(at.join("bin/quoteway")).arg("--version").output().expect("it runs");
    assert!(said(&output).starts_with("quoteway "), "{}", said(&output));
    for page in ["quoteway", "quoteway-serve", "quoteway-lbmpub", "quoteway-lbmdump", "quoteway-test-client"] {
        let text = std::fs::read_to_string(at.join(format!("share/man/man1/{page}.1"))).expect(page);
        assert!(text.contains(".TH") && text.contains(".SH"), "{page}");
    }
    let bash = at.join("share/bash-completion/completions/quoteway");
    for file in [&bash, &at.join("share/zsh/site-functions/_quoteway")] {
        assert!(std::fs::read_to_string(file).is_ok_and(|text| text.contains("lbmpub")), "{}", file.display());
    }
    assert!(at.join("share/fish/vendor_completions.d/quoteway.fish").exists());
    // What bash itself says about it.
    let script = format!(". {} && complete -p quoteway", bash.display());
    if let Ok(output) = Command::new("bash").args(["-c", &script]).output() {
        assert!(output.status.success() && said(&output).contains("quoteway"), "{}", said(&output));
    }
}
