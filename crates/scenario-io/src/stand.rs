//! A test stand: a server to which a client stays connected, and which plays the scenarios that somebody chooses, one after the other.
//!
//! Between scenarios the server is a good one. A scenario begins as the server of before ends: the client finds its connection closed and connects
//! again, which every consumer does by itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scenario::Play;
use scenario::file::{Judges, ScenarioFile, read};
use scenario::judge::Finding;
use scenario::library::{SHIPPED, shipped};
use scenario::play::Passed;
use scenario::verdict::{Outcome, Verdict};

use crate::stage::{Settings, run_watched};

/// Steps that are shown of a run at most: repetitions are written out in it.
const STEPS_SHOWN: usize = 1_000;
/// What is played while nothing else is: a server that does nothing wrong.
const GOOD: &str = "title = \"a good server\"\nsteps = \"\"\"\nrepeat 1000\nafter 3600 s\nend\n\"\"\"\n";

/// A scenario that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// Title: what it shows.
    pub title: String,
    /// Why it matters, and what a right client does.
    pub about: String,
    /// What is under test.
    pub judges: Judges,
    /// The rules that it gives occasion to.
    pub rules: Vec<String>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Line in the scenario's file.
    pub line: usize,
    /// The step as it stands there.
    pub text: String,
    /// When it began, nanoseconds since the scenario did.
    pub began_ns: Option<u64>,
}

/// A run, under way or over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// Title of the scenario.
    pub title: String,
    /// Why it matters, and what a right client does.
    pub about: String,
    /// The seed.
    pub seed: u64,
    /// Its steps, the first thousand of them.
    pub steps: Vec<Step>,
    /// So many steps are done.
    pub done: usize,
    /// How long it runs, or ran, nanoseconds.
    pub took_ns: u64,
    /// Where rules were broken so far.
    pub findings: Vec<Finding>,
    /// The last messages, oldest first.
    pub last: Vec<Passed>,
    /// The outcome and why nothing was judged, when it is over.
    pub outcome: Option<(Outcome, String)>,
}

/// How a stand is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Connections to the server or servers now.
    pub connections: usize,
    /// A scenario is being played.
    pub is_playing: bool,
    /// The run that is under way, or the last one.
    pub run: Option<Run>,
    /// Why nothing can be played, such as a port that another program has.
    pub trouble: Option<String>,
}

/// What the stand is asked for.
#[derive(Debug)]
struct Wanted {
    scenario: ScenarioFile,
    seed: u64,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    wanted: Option<Wanted>,
    /// The run under way is to end.
    ends: bool,
}

/// A stand. Clones are the same one: [`Stand::serve`] is the body of a thread, the others are for whoever shows and steers it.
#[derive(Debug, Clone)]
pub struct Stand(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The standing may be another one.
    changed: Condvar,
}

/// Scenarios that a stand can play: those in which the client connects, and to one server.
pub fn choices() -> Vec<Choice> {
    let choice = |shipped: &scenario::library::Shipped| {
        // All that ships can be read: a test holds it.
        let file = load(shipped.name).ok().filter(|file| is_playable(file).is_ok())?;
        let ScenarioFile { title, about, judges, rules, .. } = file;
        Some(Choice { name: shipped.name, title, about, judges, rules })
    };
    SHIPPED.iter().filter_map(choice).collect()
}

/// Why a stand cannot play a scenario, if so.
fn is_playable(scenario: &ScenarioFile) -> Result<(), String> {
    let name = &scenario.name;
    if scenario.judges == Judges::Provider {
        return Err(format!(
            "{name} judges a provider, which listens itself: quoteway scenario run {name} -- PROVIDER"
        ));
    }
    if !scenario.standby_services.is_empty() {
        return Err(format!("{name} has two servers, and a stand is one: quoteway scenario run {name} -- CLIENT"));
    }
    Ok(())
}

fn load(name: &str) -> Result<ScenarioFile, String> {
    let shipped = shipped(name).ok_or_else(|| {
        let near = scenario::file::nearest(name, SHIPPED.iter().map(|shipped| shipped.name));
        format!("no scenario {name} ships{near}")
    })?;
    parsed(name, shipped.text)
}

fn parsed(name: &str, text: &str) -> Result<ScenarioFile, String> {
    let include = |file: &str| Err(format!("{file} is not included here"));
    read(name, text, &BTreeMap::new(), &include).map_err(|error| error.to_string())
}

impl Stand {
    /// A stand that is to listen there; the port is named.
    fn new(listen: SocketAddr) -> Self {
        let standing = Standing { listen, connections: 0, is_playing: false, run: None, trouble: None };
        let state = Mutex::new(State { standing, wanted: None, ends: false });
        Self(Arc::new(Shared { state, changed: Condvar::new() }))
    }

    /// A stand at an address, of which port 0 is one that is free: it stays the same for all scenarios.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub fn bound(listen: SocketAddr) -> Result<Self, String> {
        let bound = std::net::TcpListener::bind(listen).and_then(|listener| listener.local_addr());
        bound.map(Self::new).map_err(|error| format!("{listen} cannot be listened on (--listen): {error}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is now.
    pub fn standing(&self) -> Standing {
        self.state().standing.clone()
    }

    /// Waits until it is as wanted; `None`: it was not in that time.
    pub fn until(&self, patience: Duration, is_so: impl Fn(&Standing) -> bool) -> Option<Standing> {
        let waits = |state: &mut State| !is_so(&state.standing);
        let waited = self.0.changed.wait_timeout_while(self.state(), patience, waits);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out()).then(|| state.standing.clone())
    }

    /// Has a scenario be played that ships, in place of one that is under way.
    ///
    /// # Errors
    /// There is none of the name, or a provider is judged, which does not connect here.
    pub fn play(&self, name: &str, seed: u64) -> Result<(), String> {
        let scenario = load(name)?;
        is_playable(&scenario)?;
        let mut state = self.state();
        state.wanted = Some(Wanted { scenario, seed });
        state.ends = true;
        Ok(())
    }

    /// Ends the scenario that is under way. Whether there is one.
    pub fn stop(&self) -> bool {
        let mut state = self.state();
        state.ends |= state.standing.is_playing;
        state.standing.is_playing
    }

    /// Serves as long as `goes_on` says so, which is asked four times a second at least.
    ///
    /// # Errors
    /// The port cannot be listened on; later than at the start that is told by [`Stand::standing`], and tried again.
    pub fn serve(&self, goes_on: &dyn Fn() -> bool) -> Result<(), String> {
        let good = parsed("good", GOOD)?;
        let mut has_served = false;
        while goes_on() {
            let wanted = self.begin();
            let seed = wanted.as_ref().map_or(1, |wanted| wanted.seed);
            let most_s = if wanted.is_some() { Settings::default().most_s } else { f64::INFINITY };
            let settings = Settings { seed, most_s, listen: self.standing().listen, ..Settings::default() };
            let scenario = wanted.as_ref().map_or(&good, |wanted| &wanted.scenario);
            let played = run_watched(scenario, &settings, &mut |now, play| self.look(now, play, goes_on));
            match played {
                Ok(verdict) => {
                    has_served = true;
                    self.end(wanted.is_some(), verdict);
                }
                Err(why) if !has_served => return Err(why),
                Err(why) => {
                    self.state().standing.trouble = Some(why);
                    // Another program has the port, or the system no descriptors: asked for again in a while.
                    std::thread::sleep(Duration::from_millis(500));
                }
            }
        }
        Ok(())
    }

    /// Takes what is wanted next.
    fn begin(&self) -> Option<Wanted> {
        let mut state = self.state();
        state.ends = false;
        let wanted = state.wanted.take();
        state.standing.is_playing = wanted.is_some();
        state.standing.connections = 0;
        if let Some(Wanted { scenario, seed }) = &wanted {
            let step =
                |line: &scenario::file::Line| Step { line: line.number, text: line.text.clone(), began_ns: None };
            state.standing.run = Some(Run {
                scenario: scenario.name.clone(),
                title: scenario.title.clone(),
                about: scenario.about.clone(),
                seed: *seed,
                steps: scenario.steps.iter().take(STEPS_SHOWN).map(step).collect(),
                done: 0,
                took_ns: 0,
                findings: Vec::new(),
                last: Vec::new(),
                outcome: None,
            });
        }
        wanted
    }

    /// Notes how a play stands. Whether it goes on.
    fn look(&self, now: u64, play: &Play, goes_on: &dyn Fn() -> bool) -> bool {
        let mut state = self.state();
        let goes_on = goes_on() && !state.ends;
        let standing = &mut state.standing;
        standing.trouble = None;
        standing.connections = play.connections();
        if let (true, Some(run)) = (standing.is_playing, &mut standing.run) {
            run.done = play.steps_done();
            run.took_ns = now;
            // Of steps that take no time several may begin between two looks.
            for step in run.steps.iter_mut().take(run.done + 1).rev().take_while(|step| step.began_ns.is_none()) {
                step.began_ns = Some(now);
            }
            run.findings = play.notes().findings().to_vec();
            if run.last.last() != play.last().back() {
                run.last = play.last().iter().cloned().collect();
            }
        }
        self.0.changed.notify_all();
        goes_on
    }

    fn end(&self, was_scenario: bool, verdict: Verdict) {
        let mut state = self.state();
        state.standing.is_playing = false;
        if let (true, Some(run)) = (was_scenario, &mut state.standing.run) {
            run.findings = verdict.findings;
            run.took_ns = verdict.took_ns;
            run.outcome = Some((verdict.outcome, verdict.why_not));
        }
        self.0.changed.notify_all();
    }
}
