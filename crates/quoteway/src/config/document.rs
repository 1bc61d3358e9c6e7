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
