//! `lbmrouter` as its users run it. What it routes is tested in `crates/lbm-router-io`.

use std::path::Path;
use std::process::Command;

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("written");
    file.to_str().expect("a path").to_owned()
}

#[test]
fn a_file_that_cannot_be_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_quoteway")).arg("lbmrouter").args(args).output().expect("it runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout),
        )
    };
    let (good, example) = run(&["--example"]);
    assert!(good, "{example}");
    let file = write(folder.path(), "example.toml", &example);
    let (good, said) = run(&["--check", &file]);
    assert!(
        good && said.contains("endpoint in domain 2") && said.contains("listens on 127.0.0.1:14380 by TCP"),
        "{said}"
    );
    let file = write(folder.path(), "bad.toml", &example.replace("domain = 2", "domain = 1"));
    let (good, said) = run(&["--check", &file]);
    assert!(!good && said.contains("[[endpoint]] 2") && said.contains("a router is in a domain once"), "{said}");
    let (good, said) = run(&["/nowhere/router.toml"]);
    assert!(!good && said.contains("/nowhere/router.toml"), "{said}");
}
