//! The conformance suite: every scenario of `crates/sim/conformance`, in every variant that it is for.
//!
//! `QUOTEWAY_SCENARIO=text` runs those whose title has the text.

use sim::conformance::{Variant, run, scenarios};
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let entries = std::fs::read_dir(folder).expect("the folder of the scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

#[test]
fn every_scenario_goes_as_it_says() {
    let wanted = std::env::var("QUOTEWAY_SCENARIO").ok();
    let (mut count, mut runs) = (0, 0);
    let mut failures = Vec::new();
    for path in files() {
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a file");
        let all = scenarios(&text).unwrap_or_else(|error| panic!("{file}, line {}: {}", error.line, error.why));
        for scenario in all.iter().filter(|one| wanted.as_ref().is_none_or(|wanted| one.title.contains(wanted))) {
            count += 1;
            for variant in Variant::ALL {
                match run(scenario, variant) {
                    Ok(ran) => runs += usize::from(ran),
                    Err(failure) => failures.push(format!("{file}, {failure}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} scenarios:\n{}", failures.len(), failures.join("\n"));
    assert!(wanted.is_some() || count >= 120 && runs >= 3 * count, "{count} scenarios, {runs} runs");
}

#[test]
fn what_does_not_come_and_what_nobody_expects_is_a_failure() {
    let begin = "scenario: x\nP1 comes up with FEED\nA logs in\nA sends REQUEST 5 item=IBM service=FEED\n";
    let outcome = |steps: &str| {
        let text = format!("{begin}{steps}");
        run(&scenarios(&text).expect("a script")[0], Variant::Plain)
    };
    assert_eq!(outcome("P1 gets REQUEST IBM streaming"), Ok(true));
    let failure = outcome("A gets nothing").expect_err("a request that nobody expects");
    assert!(failure.got.contains("P1 also got REQUEST"), "{failure}");
    let failure = outcome("P1 gets REQUEST IBM snapshot").expect_err("it is streaming");
    assert_eq!(failure.line, 5);
    assert!(failure.got.contains("not snapshot"), "{failure}");
    let answered = "P1 gets REQUEST IBM\nP1 sends REFRESH IBM Open/Ok solicited complete clear-cache 32=1 30=2\n";
    assert_eq!(outcome(&format!("{answered}A gets REFRESH 5 32=1 30=2")), Ok(true));
    let failure = outcome(&format!("{answered}A gets REFRESH 5 32=1")).expect_err("a field is not spoken of");
    assert!(failure.got.contains("there is 30=2, too"), "{failure}");
    let failure = outcome(&format!("{answered}A gets UPDATE 5")).expect_err("another class");
    assert!(failure.got.starts_with("REFRESH 5"), "{failure}");
    let failure = outcome("A sends REQUEST 6 item=IBM service=FEED nonsense").expect_err("a word that is not known");
    assert!(failure.got.contains("nonsense"), "{failure}");
}
