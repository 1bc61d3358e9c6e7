//! The lab as its users run it, and what `make install` installs.

mod install;
mod packages;
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The lab's program.
const LAB: &str = env!("CARGO_BIN_EXE_quoteway-lab");

/// The product that is measured: beside the lab's program, where `cargo test --workspace` has put it; a test of this package alone
/// builds it when it is not there.
static PRODUCT: LazyLock<PathBuf> = LazyLock::new(|| {
    let product = Path::new(LAB).with_file_name("quoteway");
    if !product.is_file() {
        let mut build = Command::new(env!("CARGO"));
        let folder = Path::new(LAB).ancestors().nth(2).expect("the target folder");
        build.args(["build", "--quiet", "--locked", "--package", "quoteway", "--target-dir"]).arg(folder);
        assert!(build.status().expect("cargo runs").success(), "the product cannot be built");
    }
    product
});

/// The lab, by the product's subcommand that starts it.
fn lab(args: &[&str]) -> Output {
    Command::new(&*PRODUCT).arg("lab").args(args).output().expect("the lab runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_product_says_how_to_get_the_lab_where_it_is_not_installed() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("quoteway");
    std::fs::copy(&*PRODUCT, &alone).expect("a copy");
    let output = Command::new(&alone).args(["lab", "smoke", "--quick"]).env("PATH", "").output().expect("it runs");
    assert!(!output.status.success() && said(&output).contains("--package quoteway-lab"), "{}", said(&output));
    // Found by PATH, with all arguments as they are.
    let path = Path::new(LAB).parent().expect("a folder");
    let output = Command::new(&alone).args(["lab", "--help"]).env("PATH", path).output().expect("it runs");
    assert!(output.status.success() && said(&output).contains("Usage: quoteway-lab"), "{}", said(&output));
}
