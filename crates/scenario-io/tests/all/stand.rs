//! A test stand, and a client that stays.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client;
use scenario::verdict::Outcome;
use scenario_io::client::{Client, Start};
use scenario_io::stand::{Run, Stand, choices};

/// Past this, a test has failed; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_client_that_stays_is_played_one_scenario_after_the_other() {
    let stand = Stand::bound(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let over = Arc::new(AtomicBool::new(false));
    let (its, ends) = (stand.clone(), over.clone());
    let served = std::thread::spawn(move || its.serve(&|| !ends.load(Ordering::Relaxed)));
    let start = Start(vec![client().to_string_lossy().into_owned(), "IBM.N".to_owned()]);
    let _client = Client::start(&start, &[stand.standing().listen], true).expect("a client");
    stand.until(LIMIT, |standing| standing.connections == 1).expect("the client");
    for name in ["item-suspect", "connection-reset"] {
        stand.play(name, 7).expect("a scenario that can be played");
        let has_begun = |run: &Run| run.scenario == name && run.done > 0;
        let on = stand.until(LIMIT, |standing| standing.run.as_ref().is_some_and(has_begun)).expect("its steps");
        // On a busy machine it may be over before this thread looks.
        let is_on = |run: &Run| on.is_playing && run.done < run.steps.len();
        assert!(on.run.as_ref().is_some_and(|run| run.outcome.is_some() || is_on(run)), "{on:?}");
        let is_over = |run: &Run| run.scenario == name && run.outcome.is_some();
        let over = stand.until(LIMIT, |standing| standing.run.as_ref().is_some_and(is_over)).expect("its end");
        let run = over.run.expect("a run");
        assert_eq!(run.outcome, Some((Outcome::Passed, String::new())), "{run:?}");
        assert!(
            run.seed == 7 && !run.last.is_empty() && run.steps.iter().all(|step| step.began_ns.is_some()),
            "{run:?}"
        );
    }
    stand.play("server-away", 1).expect("a scenario that can be played");
    let is_on = |run: &Run| run.scenario == "server-away" && run.done > 0;
    stand.until(LIMIT, |standing| standing.run.as_ref().is_some_and(is_on)).expect("it is under way");
    assert!(stand.stop());
    let stopped = stand.until(LIMIT, |standing| !standing.is_playing).and_then(|standing| standing.run).expect("a run");
    assert!(stopped.outcome.is_some_and(|(outcome, why)| outcome == Outcome::NotJudged && why.contains("last step")));
    assert!(!stand.stop(), "nothing is under way");
    over.store(true, Ordering::Relaxed);
    served.join().expect("no panic").expect("it served");
}

#[test]
fn what_a_stand_cannot_play_is_said_with_why() {
    let stand = Stand::bound(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    for (name, why) in [
        ("item-suspct", "did you mean item-suspect?"),
        ("provider-view", "a provider"),
        ("standby-dies", "two servers"),
    ] {
        let said = stand.play(name, 1).expect_err(name);
        assert!(said.contains(why), "{said}");
    }
    assert!(choices().len() > 70 && choices().iter().all(|choice| stand.play(choice.name, 1).is_ok()));
}
