//! Three publishers and three subscribers minus one of each: ours beside the report's table 3-3.

use std::fmt::Write as _;

use crate::originals::Tables;
use crate::originals::lbm::parse;
use crate::present::html::svg::escape;
use crate::results::published::{COLUMNS, Published};
use crate::results::{Outcome, Side, medians};

/// The table of the report.
const TABLE: &str = "3-3";
/// What is subtracted from what.
const SCENARIOS: [&str; 2] = ["cisco-lbm-3to3-latency", "cisco-lbm-1to1-latency"];

/// The table, as published, and ours where both scenarios were run; empty without either of them.
pub fn html(tables: &Tables, outcomes: &[Outcome]) -> String {
    let find = |name: &str| outcomes.iter().find(|o| o.name == name);
    let [three, one] = SCENARIOS.map(find);
    if three.is_none() && one.is_none() {
        return String::new();
    }
    let table = match parse(tables, TABLE) {
        Ok(table) => table,
        Err(why) => return format!("<p>{}</p>\n", escape(&why.to_string())),
    };
    let mut out = format!(
        "<h2 id=\"differences\">3:3 minus 1:1</h2><p>Microseconds from the call; {} of the report, and ours. Ours is path 1 of {} minus {}, \
         both with the publishers on one host and each subscriber on one of its own, as in the report (unless --loopback).</p>\
         <div class=\"scroll\"><table><tr><th>bytes</th><th>rate of each source</th><th></th>",
        escape(&table.place),
        SCENARIOS[0],
        SCENARIOS[1]
    );
    for (_, _, name) in COLUMNS {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        let cells = row.figures.map(|us| format!("<td>{us}</td>")).concat();
        let rate = row.target.map_or(String::new(), |rate| format!("{rate:.0}"));
        let _ =
            writeln!(out, "<tr class=\"group\"><td>{}</td><td>{rate}</td><td>published</td>{cells}</tr>", row.payload);
        let ours = ours(three, one, row);
        let cells = match ours {
            Some(ours) => ours.map(|us| us.map_or("<td></td>".to_owned(), |us| format!("<td>{us:.3}</td>"))).concat(),
            None => {
                format!(
                    "<td colspan=\"{}\">no figure in this call: both scenarios have to be run, and to hold the rate</td>",
                    COLUMNS.len()
                )
            }
        };
        let _ = writeln!(out, "<tr><td></td><td></td><td>Quoteway</td>{cells}</tr>");
    }
    out + "</table></div>\n"
}

/// Ours of a row, figure by figure; none where one of the two has no figures.
fn ours(three: Option<&Outcome>, one: Option<&Outcome>, row: &Published) -> Option<[Option<f64>; COLUMNS.len()]> {
    let (three, one) = (three?, one?);
    let labels = [three, one].map(|outcome| row.beside(outcome));
    // Runs between hosts and on loopback differ by more than their publishers, and so do rates of which one was not held.
    let is_held = |outcome: &Outcome| outcome.rows.iter().all(|row| row.label != labels[0] || row.is_held(Side::Ours));
    if labels[0] != labels[1] || !is_held(three) || !is_held(one) {
        return None;
    }
    let (three, one) = (medians(three, &labels[0], Side::Ours), medians(one, &labels[1], Side::Ours));
    let all = COLUMNS.map(|(_, figure, _)| Some(three.get(figure)? - one.get(figure)?));
    all.iter().any(Option::is_some).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Metrics, Row};

    fn outcome(name: &str, mean: f64) -> Outcome {
        let metrics: Metrics = [("call_mean_us".to_owned(), mean)].into_iter().collect();
        let mut row = Row::new("lbtrm-64b-25k");
        row.add(Side::Ours, metrics);
        Outcome { name: name.to_owned(), rows: vec![row], ..Outcome::default() }
    }

    #[test]
    fn ours_is_one_minus_the_other_and_theirs_as_printed() {
        let tables = Tables::built_in();
        let page = html(&tables, &[outcome(SCENARIOS[1], 6.5), outcome(SCENARIOS[0], 9.75)]);
        assert!(
            page.contains("<td>3.250</td>") && page.contains("3:3 minus 1:1") && page.contains("table 3-3"),
            "{page}"
        );
        assert_eq!(page.matches("published</td>").count(), 20);
        let alone = html(&tables, &[outcome(SCENARIOS[1], 6.5)]);
        assert!(alone.contains("both scenarios have to be run") && html(&tables, &[]).is_empty());
        let mut late = outcome(SCENARIOS[0], 90_000.0);
        late.rows[0].add(Side::Ours, [("held".to_owned(), 0.0)].into_iter().collect());
        assert!(!html(&tables, &[outcome(SCENARIOS[1], 6.5), late]).contains("<td>89993.500</td>"));
    }
}
