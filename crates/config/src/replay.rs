//! `[replay.NAME]`: recordings that a server plays as services of its own.

use ::record::{By, Pace, when};
use names::Pattern;

use super::section::section;
use super::value::DomainList;
use hub::cache::rules::Domains;
use rwf::msg::Domain;

section! {
    /// Recordings that the process plays itself and serves as services of its own, a table [replay.NAME] for each (docs/operating/record.md).
    Replay = "replay", "replay";
    replay_enabled: bool = true, "", "Play it at all.";
    folders: Vec<String> = Vec::new(), "", "Folders of recordings; several are played as one, in the order of their times.";
    recorded_services: Vec<String> = Vec::new(), "", "Only these recorded services; empty means all.";
    served_as: Vec<String> = Vec::new(), "", "Name under which the service is served; OLD=NEW where there are several.";
    rename: Vec<String> = Vec::new(), "", "Other names for items: IBM.N=IBM.XX, *.N=*.XX, *=TEST.*; the first that fits.";
    item_patterns: Vec<String> = Vec::new(), "", "Only items whose recorded names match one of these: * stands for any text, ? for one character, and what begins with ^ is a regular expression. Empty means all.";
    item_domains: DomainList = DomainList(Domains::ALL), "", "Only items of these domains.";
    speed: String = String::from("1"), "", "Seconds of the recording in a second, as \"1\", \"0.5\" or \"60\", or \"max\": as fast as the clients take it.";
    from_time: String = String::new(), "", "Time to begin at, UTC: \"2026-11-27T14:30:00Z\"; empty means the beginning of the recording.";
    to_time: String = String::new(), "", "Time to end at; empty means the end of the recording.";
    replay_clock: String = String::from("receipt"), "", "By which clock time passes: \"receipt\", the recorder's wall clock, or \"source-time\", the source's own.";
    shift_to_now: bool = false, "", "Move times in messages to now.";
    repeat: bool = false, "", "Begin anew at the end.";
    paused: bool = false, "", "Begin with time standing still.";
    start_on_open: u32 = 0, "", "Begin when so many items are open; 0 begins at once.";
    at_times: Vec<String> = Vec::new(), "", "One more service as of each of these times: FEED@2026-11-27T14:30:00Z.";
}

impl Replay {
    /// Numbers of the domains that are played; none means all.
    pub fn domain_numbers(&self) -> Vec<u8> {
        let Self { item_domains: DomainList(domains), .. } = self;
        if *domains == Domains::ALL { Vec::new() } else { (0..=u8::MAX).filter(|&n| domains.has(Domain(n))).collect() }
    }
}

/// The key that is at fault, and what it should be.
pub(super) fn fault(replay: &Replay) -> Option<(&'static str, String)> {
    let key = |key, what: &str| Some((key, what.to_owned()));
    let is_renaming = |text: &String| text.split_once('=').is_some_and(|(from, to)| !from.is_empty() && !to.is_empty());
    let time = |text: &String| (!text.is_empty()).then(|| when::parse(text)).transpose();
    if replay.folders.is_empty() || replay.folders.iter().any(String::is_empty) {
        return key("folders", "must name a recording: folders = [\"/var/lib/quoteway/today\"]");
    }
    if let Err(error) = replay.speed.parse::<Pace>() {
        return Some(("speed", format!("is {:?}: {error}", replay.speed)));
    }
    if let Err(error) = replay.replay_clock.parse::<By>() {
        return Some(("replay_clock", format!("is {:?}: {error}", replay.replay_clock)));
    }
    for (name, text) in [("from_time", &replay.from_time), ("to_time", &replay.to_time)] {
        if let Err(error) = time(text) {
            return Some((name, format!("is {text:?}: {error}")));
        }
    }
    if let Some(text) = replay.at_times.iter().find(|text| when::parse(text).is_err()) {
        return Some(("at_times", format!("has {text:?}: {}", when::NoTime)));
    }
    if let (Ok(Some(from)), Ok(Some(to))) = (time(&replay.from_time), time(&replay.to_time))
        && from > to
    {
        return key("to_time", "must not be before from_time");
    }
    if replay.item_patterns.iter().any(|text| Pattern::parse(text).is_err()) {
        return key("item_patterns", "must be names, with * and ?, or regular expressions that begin with ^");
    }
    if !replay.rename.iter().all(is_renaming) {
        return key("rename", "must be FROM=TO, as IBM.N=IBM.XX or *.N=*.XX");
    }
    if replay.item_domains.0 == Domains::NONE {
        return key("item_domains", "must name a domain, or be left out for all");
    }
    None
}
