//! The hub's processes in `quoteway lbmstat`: what Source Distributors, P2PSs and daemons of this host tell of themselves.

use super::reports::{Report, Thing};
use super::table::{self, Column};

const COLUMNS: &[Column] = &[
    ("pid", 7),
    ("hub process", 19),
    ("updates/s", 11),
    ("blocks/s", 10),
    ("Mbit/s", 9),
    ("waiting kB", 11),
    ("held", 8),
    ("lost", 8),
];

/// The table of the hub's processes, nothing if there are none. Without `earlier` totals stand where rates would.
pub fn lines(reports: &[Report], earlier: Option<(&[Report], f64)>) -> Vec<String> {
    let mut lines = Vec::new();
    for report in reports {
        for (place, thing) in report.things.iter().enumerate() {
            let before = earlier.and_then(|(all, _)| {
                let things = &all.iter().find(|r| r.socket == report.socket)?.things;
                // Several P2PSs may have one name.
                things.get(place).filter(|t| t.kind == thing.kind && t.name == thing.name)
            });
            let seconds = earlier.map_or(1.0, |(_, s)| s.max(0.001));
            let rate = |name: &str| {
                let was = if earlier.is_some() { before.map_or(thing.get(name), |t| t.get(name)) } else { 0 };
                thing.get(name).saturating_sub(was) as f64 / seconds
            };
            lines.extend(row(report.pid(), thing, &rate));
        }
    }
    if !lines.is_empty() {
        let heading = table::heading(COLUMNS);
        let heading = if earlier.is_some() { heading } else { heading.replace("/s ", "   ") };
        lines.insert(0, format!("{heading}  name"));
    }
    lines
}

fn row(pid: u32, thing: &Thing, rate: &dyn Fn(&str) -> f64) -> Option<String> {
    let sum = |names: &[&str]| names.iter().map(|name| thing.get(name)).sum::<u64>().to_string();
    let show = |name| format!("{:.0}", rate(name));
    let waiting = (thing.get("waiting_bytes") / 1_000).to_string();
    let (updates, waiting, held, lost) = match thing.kind.as_str() {
        "source-distributor" => (show("updates"), waiting, sum(&["waits", "congestions"]), sum(&["p2ps_lost"])),
        "p2ps" => (show("updates_in"), "-".to_owned(), "-".to_owned(), sum(&["hub_messages_lost"])),
        "rrcpd" => ("-".to_owned(), waiting, sum(&["blocked"]), sum(&["lost", "dropped"])),
        "p2ps-of" => {
            // The unread blocks stand where others have what waits.
            let behind = (thing.get("behind_bytes") / 1_000).to_string();
            let left = if thing.get("left_behind") > 0 { ", left behind" } else { "" };
            let dash = || "-".to_owned();
            let cells = [String::new(), "to a p2ps".to_owned(), dash(), dash(), dash(), behind, dash(), dash()];
            return Some(format!("{}  {}{left}", table::row(COLUMNS, cells), thing.name));
        }
        _ => return None,
    };
    let bits = format!("{:.1}", rate("bytes") * 8.0 / 1e6);
    let cells = [pid.to_string(), thing.kind.clone(), updates, show("blocks"), bits, waiting, held, lost];
    Some(format!("{}  {}", table::row(COLUMNS, cells), thing.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "source-distributor\tprod\tupdates=5000\tblocks=70\tbytes=1000000\twaits=3\tp2ps_lost=1\n\
        p2ps-of\trssl port 14002, 10.0.0.2:4711\tnumber=0\tbehind_bytes=9000000\tleft_behind=1\n\
        rrcpd\tprod to the host\tblocks=60\tbytes=900000\tblocked=4\tlost=2\tdropped=5\twaiting_bytes=7000\nend\n";

    #[test]
    fn processes_are_shown_as_totals_and_as_rates() {
        let report = Report::parse("quoteway-hub/9/0", TEXT).expect("whole");
        let all = lines(std::slice::from_ref(&report), None);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&all[1]), "9 source-distributor 5000 70 8.0 0 3 1 prod");
        assert_eq!(words(&all[2]), "to a p2ps - - - 9000 - - rssl port 14002, 10.0.0.2:4711, left behind");
        assert_eq!(words(&all[3]), "9 rrcpd - 60 7.2 7 4 7 prod to the host");
        let mut earlier = report.clone();
        earlier.things[0].counters.insert("updates".into(), 4_000);
        let rates = lines(std::slice::from_ref(&report), Some((std::slice::from_ref(&earlier), 2.0)));
        assert_eq!(words(&rates[1]), "9 source-distributor 500 0 0.0 0 3 1 prod");
        assert_eq!(lines(&[], None), [""; 0]);
    }
}
