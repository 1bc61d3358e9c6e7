//! The configuration as text: every parameter with its value, default, RMDS name and meaning.

use std::fmt::Write as _;

use super::{AnySection, Config, Delay, Feed, Replay, Route, Section as _, Service};

impl Config {
    /// Every parameter with default, RMDS name and meaning, as a TOML file that changes nothing.
    pub fn document(&self) -> String {
        let mut out =
            String::from("# Every parameter of Quoteway with its value. A key that is left out has its default.\n");
        for (i, section) in self.sections().into_iter().enumerate() {
            describe(&mut out, "", section);
            if i == 0 {
                self.describe_routes(&mut out);
                self.describe_feeds(&mut out);
                self.describe_replays(&mut out);
                self.describe_delays(&mut out);
                self.describe_services(&mut out);
            }
        }
        out
    }

    /// The parameters that differ from their defaults, as TOML without comments.
    pub fn changes(&self) -> String {
        let mut out = String::new();
        for (i, section) in self.sections().into_iter().enumerate() {
            change(&mut out, "", section, false);
            if i == 0 {
                self.routes.iter().for_each(|route| change(&mut out, "[", route, true));
                for (name, feed) in &self.feeds {
                    let mut text = String::new();
                    change(&mut text, "", feed, true);
                    out += &named(&text, Feed::NAME, name);
                }
                for (name, replay) in &self.replays {
                    let mut text = String::new();
                    change(&mut text, "", replay, true);
                    out += &named(&text, Replay::NAME, name);
                }
                for (name, delay) in &self.delays {
                    let mut text = String::new();
                    change(&mut text, "", delay, true);
                    out += &named(&text, Delay::NAME, name);
                }
                for (name, service) in &self.services {
                    let mut text = String::new();
                    change(&mut text, "", service, true);
                    out += &named(&text, Service::NAME, name);
                }
            }
        }
        out
    }

    fn describe_feeds(&self, out: &mut String) {
        if self.feeds.is_empty() {
            let mut example = String::new();
            describe(&mut example, "", &Feed { source: "iex-deep:233.215.21.4:10378".into(), ..Feed::default() });
            for line in named(&example, Feed::NAME, "NAME").lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for (name, feed) in &self.feeds {
            let mut text = String::new();
            describe(&mut text, "", feed);
            *out += &named(&text, Feed::NAME, name);
        }
    }

    fn describe_replays(&self, out: &mut String) {
        if self.replays.is_empty() {
            let mut example = String::new();
            describe(
                &mut example,
                "",
                &Replay { folders: vec!["/var/lib/quoteway/today".into()], ..Replay::default() },
            );
            for line in named(&example, Replay::NAME, "NAME").lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for (name, replay) in &self.replays {
            let mut text = String::new();
            describe(&mut text, "", replay);
            *out += &named(&text, Replay::NAME, name);
        }
    }

    fn describe_delays(&self, out: &mut String) {
        if self.delays.is_empty() {
            let example = Delay {
                delayed_service: "FEED".into(),
                delay_journal: "/var/lib/quoteway/feed15".into(),
                ..Delay::default()
            };
            let mut text = String::new();
            describe(&mut text, "", &example);
            for line in named(&text, Delay::NAME, "NAME").lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for (name, delay) in &self.delays {
            let mut text = String::new();
            describe(&mut text, "", delay);
            *out += &named(&text, Delay::NAME, name);
        }
    }

    fn describe_services(&self, out: &mut String) {
        if self.services.is_empty() {
            let mut example = String::new();
            describe(&mut example, "", &Service::default());
            for line in named(&example, Service::NAME, "NAME").lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for (name, service) in &self.services {
            let mut text = String::new();
            describe(&mut text, "", service);
            *out += &named(&text, Service::NAME, name);
        }
    }

    fn describe_routes(&self, out: &mut String) {
        if self.routes.is_empty() {
            let mut example = String::new();
            describe(&mut example, "[", &Route { host_list: vec!["localhost:14010".into()], ..Route::default() });
            for line in example.lines() {
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { "# " });
            }
        }
        for route in &self.routes {
            describe(out, "[", route);
        }
    }
}

/// The table of a feed, a replay or a service, under its name.
fn named(table: &str, kind: &str, name: &str) -> String {
    table.replacen(&format!("[{kind}]\n"), &format!("{}\n", table_of(kind, name)), 1)
}

/// The head of the table of something that has a name.
pub(super) fn table_of(kind: &str, name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && !name.is_empty();
    let name = if is_bare { name.to_owned() } else { super::Parameter::show(&name.to_owned()) };
    format!("[{kind}.{name}]")
}

fn change(out: &mut String, bracket: &str, section: &dyn AnySection, always: bool) {
    let changed: Vec<(usize, &str)> = (0..)
        .zip(section.infos())
        .filter(|(i, info)| section.show(*i) != (info.default)())
        .map(|(i, info)| (i, info.key))
        .collect();
    if always || !changed.is_empty() {
        let _ = writeln!(out, "{bracket}[{}]{}", section.name(), bracket.replace('[', "]"));
    }
    for (i, key) in changed {
        let _ = writeln!(out, "{key} = {}", section.show(i));
    }
}

fn describe(out: &mut String, bracket: &str, section: &dyn AnySection) {
    let close = bracket.replace('[', "]");
    let _ = write!(out, "\n# {}\n{bracket}[{}]{close}\n", section.about(), section.name());
    for (i, p) in section.infos().into_iter().enumerate() {
        let rmds = if p.rmds.is_empty() { String::new() } else { format!(" RMDS: {}.", p.rmds.replace('|', " or ")) };
        let unit = super::listing::unit(p).map_or(String::new(), |u| format!(" Unit: {u}."));
        let _ =
            writeln!(out, "# {}{unit}{rmds} Default: {}.\n{} = {}", p.meaning, (p.default)(), p.key, section.show(i));
    }
}
