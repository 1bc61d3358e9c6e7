//! What the reports hold, table by table and figure by figure, in their order, and where each stands on our page or why it does not.

/// A report as published.
#[derive(Debug)]
pub struct Report {
    /// The group of its scenarios, and its name in the files of published figures.
    pub group: &'static str,
    /// Whose it is, and of what.
    pub title: &'static str,
    /// Charts across scenarios that stand above everything: title, and the tables in them.
    pub overviews: &'static [(&'static str, &'static [&'static str])],
    /// The report's tables and figures, in order.
    pub entries: &'static [Entry],
}

/// A table or a figure of a report.
#[derive(Debug)]
pub struct Entry {
    /// As it is called there.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The tables of the published files that hold its cells.
    pub tables: &'static [&'static str],
    /// Where it is here.
    pub place: Place,
}

/// Where something of a report stands on our page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Beside these scenarios.
    Beside(&'static [&'static str]),
    /// Among the charts above everything.
    Above,
    /// In a table of its own, with what is computed of ours.
    Differences,
    /// The cells of the report alone, and why there is nothing of ours.
    NotHere(&'static str),
}

use Place::{Above, Beside, Differences, NotHere};

const fn entry(name: &'static str, about: &'static str, tables: &'static [&'static str], place: Place) -> Entry {
    Entry { name, about, tables, place }
}

const DRAWING: Place =
    NotHere("a drawing of the set-up, without figures; the table of deviations of each scenario says what is here");
const BYPASS: &str = "kernel bypass (OpenOnload) needs its network card; ours takes the kernel's stack";

/// All reports.
pub const REPORTS: [Report; 5] = [REDHAT, CISCO, NOVELL, IBM, INTEL];

const REDHAT: Report = Report {
    group: "redhat-2008",
    title: "Red Hat, 2008: Reuters Market Data System on Red Hat Enterprise Linux",
    overviews: &[
        ("As figure 6 there: two and three nodes", &["5.1", "5.2", "5.3", "5.4"]),
        ("As figure 7 there: two releases of the system", &["6.1", "6.2", "6.3", "6.4"]),
    ],
    entries: &[
        entry(
            "Figure 1",
            "mean latency on Solaris and on RHEL, from reports of others",
            &[],
            NotHere("a picture of other reports' figures, which the report does not print"),
        ),
        entry("Figures 2 to 5", "system and set-up", &[], DRAWING),
        entry("3.12", "segmentation offload on and off", &[], Beside(&["redhat-3node-tso-on", "redhat-3node-tso-off"])),
        entry("Table 5.1", "latency, two nodes, RHEL 4.4, 2.13 GHz", &["5.1"], Beside(&["redhat-2node"])),
        entry("Table 5.2", "the same, bound", &["5.2"], Beside(&["redhat-2node-bound"])),
        entry("Table 5.3", "latency, three nodes", &["5.3"], Beside(&["redhat-3node"])),
        entry("Table 5.4", "the same, bound", &["5.4"], Beside(&["redhat-3node-bound"])),
        entry("Figure 6", "mean latency of the four", &[], Above),
        entry("Table 6.1", "latency, two nodes, RHEL 4.4, 2.66 GHz", &["6.1"], Beside(&["redhat-2node"])),
        entry("Table 6.2", "the same, bound", &["6.2"], Beside(&["redhat-2node-bound"])),
        entry("Table 6.3", "latency, two nodes, RHEL 5.1, 2.66 GHz", &["6.3"], Beside(&["redhat-2node"])),
        entry("Table 6.4", "the same, bound", &["6.4"], Beside(&["redhat-2node-bound"])),
        entry("Figure 7", "mean latency of the four", &[], Above),
        entry("8.2", "throughput without fan-out", &[], Beside(&["redhat-highest"])),
        entry("Figure 8", "P2PS multiplex", &[], Beside(&["redhat-2node-multiplex", "redhat-3node-multiplex"])),
        entry("Figure 9", "P2PS multipath", &[], Beside(&["redhat-2node-multipath", "redhat-3node-multipath"])),
        entry("Figure 10", "P2PS multipath and multiplex", &[], Beside(&["redhat-2node-stacked"])),
        entry(
            "Figure 11",
            "Source Distributor multipath and multiplex",
            &[],
            Beside(&["redhat-2node-source-multiplex", "redhat-3node-source-multiplex"]),
        ),
        entry("Figure 12", "both stacked, for latency", &[], Beside(&["redhat-2node-both-multiplex"])),
        entry("8.5", "real-time priorities", &[], Beside(&["redhat-2node-realtime"])),
        entry("Figures 13 to 16", "how a run settles", &[], Beside(&["redhat-2node"])),
        entry(
            "Summary and appendix II",
            "10 GigE, STAC, March 2008: mean below 0.9 ms and standard deviation below 0.5 ms to 600,000 updates a second",
            &[],
            NotHere(
                "claims of another report, whose latencies this one does not print; redhat-3node has ours at the rates that it prints",
            ),
        ),
        entry(
            "Figures 17 and 18, appendix II",
            "highest rates that STAC reported",
            &["11"],
            Beside(&["redhat-highest", "intel-5050-mtu1500"]),
        ),
    ],
};

const CISCO: Report = Report {
    group: "cisco-2009",
    title: "STAC for Cisco, 2009: Latency Busters Messaging 3.3.9 on 10 GigE",
    overviews: &[],
    entries: &[
        entry("Figures 2-1 to 2-3, table 2-1", "set-up and kinds of tests", &[], DRAWING),
        entry("Table 3-1", "1:1, latency-optimised", &["3-1"], Beside(&["cisco-lbm-1to1-latency"])),
        entry("Figures 3-1 to 3-6", "curves and histograms of table 3-1", &[], Beside(&["cisco-lbm-1to1-latency"])),
        entry(
            "2.1.3",
            "the highest rate under a millisecond",
            &[],
            Beside(&["cisco-lbm-1to1-highest", "cisco-lbm-3to3-highest"]),
        ),
        entry("Table 3-2", "3:3, latency-optimised", &["3-2"], Beside(&["cisco-lbm-3to3-latency"])),
        entry("Table 3-3", "3:3 minus 1:1", &["3-3"], Differences),
        entry("Table 3-4, figure 3-9", "highest rates, 1:1", &["3-4"], Beside(&["cisco-lbm-1to1-throughput"])),
        entry("Table 3-5, figure 3-10", "1:1, throughput-optimised", &["3-5"], Beside(&["cisco-lbm-1to1-throughput"])),
        entry("Table 3-6", "highest rates, 3:3, 64 bytes", &["3-6"], Beside(&["cisco-lbm-3to3-throughput"])),
        entry("Table 3-7", "3:3, 64 bytes, kernel bypass", &["3-7"], NotHere(BYPASS)),
        entry("Table 3-8", "3:3, 64 bytes, kernel's stack", &["3-8"], Beside(&["cisco-lbm-3to3-throughput"])),
        entry("Table 3-9", "highest rates, 3:3, 1,024 bytes", &["3-9"], Beside(&["cisco-lbm-3to3-throughput"])),
        entry("Table 3-10", "3:3, 1,024 bytes, kernel bypass", &["3-10"], NotHere(BYPASS)),
        entry("Table 3-11", "3:3, 1,024 bytes, kernel's stack", &["3-11"], Beside(&["cisco-lbm-3to3-throughput"])),
        entry(
            "4.1",
            "the two runs of table 3-1",
            &["4.1"],
            NotHere("table 3-1 combines the two, and stands beside ours"),
        ),
        entry("4.2.1", "path 1 of the 3:3", &["4.2.1"], NotHere("the figures of table 3-2, which stand beside ours")),
        entry("4.2.2, 4.2.3", "paths 2 and 3", &["4.2.2", "4.2.3"], Beside(&["cisco-lbm-3to3-latency"])),
        entry(
            "4.3",
            "the runs of table 3-5",
            &["4.3"],
            NotHere("table 3-5 combines them, and stands beside ours with the rows in which data was lost"),
        ),
        entry("4.4.1", "the two runs of table 3-7", &["4.4.1"], NotHere(BYPASS)),
        entry(
            "4.4.2",
            "the two runs of table 3-8",
            &["4.4.2"],
            NotHere("table 3-8 combines the two, and stands beside ours"),
        ),
        entry("4.5.1", "the two runs of table 3-10", &["4.5.1"], NotHere(BYPASS)),
        entry(
            "4.5.2",
            "the two runs of table 3-11",
            &["4.5.2"],
            NotHere("table 3-11 combines the two, and stands beside ours"),
        ),
    ],
};

const NOVELL: Report = Report {
    group: "novell-2009",
    title: "STAC for Novell, 2009: RMDS 6.3 on SUSE Linux Enterprise",
    overviews: &[("As figures 3-1 to 3-3 there", &["2", "3", "4", "5"])],
    entries: &[
        entry(
            "Key results",
            "highest rates with a mean below 0.67 or 1 ms and a deviation below 0.5 ms; differences in per cent",
            &[],
            Beside(&["novell-latency"]),
        ),
        entry("Figures 2-1 to 2-4", "set-up", &[], DRAWING),
        entry("Table 1", "Producer 50/50", &["1"], Beside(&["novell-5050"])),
        entry("Figures 3-1 to 3-3", "mean and highest latency", &[], Above),
        entry("Tables 2 and 3", "latency, InfiniBand", &["2", "3"], Beside(&["novell-latency"])),
        entry("Tables 4 and 5", "latency, 1 GigE", &["4", "5"], Beside(&["novell-latency"])),
        entry("Figure 3-4", "standard deviation over the rate", &[], Beside(&["novell-latency"])),
        entry("Figures 3-5 to 3-8", "histograms by 10 µs", &[], Beside(&["novell-latency"])),
    ],
};

const IBM: Report = Report {
    group: "ibm-2010",
    title: "IBM, 2010: TREP 2.1 on 10 GigE blades",
    overviews: &[("Latency to 1.65 million updates a second", &["3.2.1"])],
    entries: &[
        entry(
            "1.1.1",
            "mean below 180 µs at 500,000 and below 1 ms at 1.6 million updates a second",
            &[],
            Beside(&["ibm-latency", "ibm-latency-held"]),
        ),
        entry("3.1.1", "highest rates", &["3.1.1"], Beside(&["ibm-nofanout", "ibm-5050"])),
        entry("3.2.1", "latency", &["3.2.1"], Beside(&["ibm-latency", "ibm-latency-held"])),
    ],
};

const INTEL: Report = Report {
    group: "intel-2008",
    title: "STAC for Intel, 2008: RMDS 6.3 on 24 cores",
    overviews: &[],
    entries: &[
        entry("Figure 2-1", "set-up", &[], DRAWING),
        entry("Table 1", "Producer 50/50", &["1"], Beside(&["intel-5050-mtu1500", "intel-5050-mtu9000"])),
        entry(
            "Figure 3-1",
            "the same test in earlier reports",
            &[],
            NotHere(
                "bars of other reports without figures at them; those of 2008 and 2009 that are printed stand on the pages of their reports",
            ),
        ),
    ],
};

/// The report of a group.
pub fn of(group: &str) -> Option<&'static Report> {
    REPORTS.iter().find(|report| report.group == group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::originals::Tables;
    use crate::scenario::{BUILT_IN, read};

    #[test]
    fn every_published_table_has_one_place_in_its_report() {
        let mut names = Tables::built_in().names();
        for report in &REPORTS {
            for table in report.entries.iter().flat_map(|e| e.tables) {
                let at = names.iter().position(|(r, t)| r == report.group && t == table);
                names.remove(at.unwrap_or_else(|| panic!("{} {table} is there twice, or not published", report.group)));
            }
        }
        assert!(names.is_empty(), "no place for {names:?}");
    }

    #[test]
    fn what_is_said_to_stand_beside_a_scenario_is_there() {
        let all = read(BUILT_IN).unwrap();
        for report in &REPORTS {
            for entry in report.entries {
                let Place::Beside(names) = entry.place else { continue };
                for name in names {
                    assert!(
                        all.iter().any(|s| s.name == *name),
                        "{}, {}: no scenario {name}",
                        report.group,
                        entry.name
                    );
                }
            }
        }
        let is_told = |s: &&crate::scenario::Scenario| {
            let beside = |e: &Entry| matches!(e.place, Place::Beside(names) if names.contains(&s.name.as_str()));
            of(&s.group).is_none_or(|report| report.entries.iter().any(beside))
        };
        let untold: Vec<&str> = all.iter().filter(|s| !is_told(s)).map(|s| s.name.as_str()).collect();
        assert!(untold.is_empty(), "in no report's contents: {untold:?}");
    }
}
