//! `make install`: everything is where shells and man look for it, and can be read.

use std::path::Path;
use std::process::Command;

use crate::{LAB, PRODUCT, said};

#[test]
fn make_install_fills_a_destdir() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("dest");
    let output = Command::new("make")
        // The binary is there: it was built with this test.
        .args(["--old-file=build-lab", "install", "PREFIX=/opt/qw"])
        .arg(format!("BINARY={}", PRODUCT.display()))
        .arg(format!("LAB={LAB}"))
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
    let output = Command::new(at.join("bin/quoteway")).args(["lab", "list"]).output().expect("it runs");
    assert!(said(&output).contains("redhat-2node"), "{}", said(&output));
    let pages =
        ["quoteway", "quoteway-serve", "quoteway-lbmpub", "quoteway-lbmdump", "quoteway-test-client", "quoteway-lab"];
    for page in pages {
        let text = std::fs::read_to_string(at.join(format!("share/man/man1/{page}.1"))).expect(page);
        assert!(text.contains(".TH") && text.contains(".SH"), "{page}");
    }
    let bash = at.join("share/bash-completion/completions/quoteway");
    for file in [&bash, &at.join("share/zsh/site-functions/_quoteway")] {
        assert!(std::fs::read_to_string(file).is_ok_and(|text| text.contains("lbmpub")), "{}", file.display());
    }
    for program in ["quoteway", "quoteway-lab"] {
        assert!(at.join(format!("share/fish/vendor_completions.d/{program}.fish")).exists(), "{program}");
    }
    // The completions as bash itself has them.
    let script = format!(". {} && complete -p quoteway", bash.display());
    if let Ok(output) = Command::new("bash").args(["-c", &script]).output() {
        assert!(output.status.success() && said(&output).contains("quoteway"), "{}", said(&output));
    }
}
