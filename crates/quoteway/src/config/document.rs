//! The configuration as text: every parameter with its value, default, RMDS name and meaning.

use std::fmt::Write as _;

use super::{AnySection, Config, Route};

impl Config {
    /// Every parameter with default, RMDS name and meaning, as a TOML file that changes nothing.
    pub fn document(&self) -> String {
        let mut out =
            String::from("# Every parameter of Quoteway with its value. A key that is left out has its default.\n");
        for (i, section) in self.sections().into_iter().enumerate() {
            describe(&mut out, "", section);
            if i == 0 {
                self.describe_routes(&mut out);
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
            }
        }
        out
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
