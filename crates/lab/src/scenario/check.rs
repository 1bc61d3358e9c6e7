//! Whether the parameters of a scenario are possible, by themselves and beside each other.

use super::{Kind, Point, Scenario, ScenarioError, transports};

/// Subjects that nats-server may be given: their numbers have seven digits.
const SUBJECTS_MAX: u32 = 10_000_000;

impl Scenario {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        self.check_words()?;
        self.check_processes()?;
        self.check_ranges()?;
        self.check_kind()
    }

    /// Rates, goals, peers, and how processes run.
    fn check_words(&self) -> Result<(), ScenarioError> {
        self.points()?;
        for word in self.peer_rates.split_whitespace() {
            word.parse::<Point>()?;
        }
        self.goals()?;
        self.variant().map_err(|why| ScenarioError::Variant(Box::new(why)))?;
        self.peers_at(Point::Max)?;
        for word in self.quick_rates.split_whitespace() {
            word.parse::<Point>()?;
        }
        self.sampled_at(Point::Max)?;
        let is_priority = |w: &str| {
            let number = w.split_once(':').and_then(|(_, n)| n.parse::<u32>().ok());
            number.is_some_and(|n| (1..=99).contains(&n))
        };
        if let Some(word) = self.priority.split_whitespace().find(|w| !is_priority(w)) {
            return Err(ScenarioError::Priority(word.to_owned()));
        }
        if !["", "on", "off"].contains(&self.tso.as_str()) || !(576..=65_535).contains(&self.mtu) {
            return Err(ScenarioError::Parameter("tso is on or off, mtu 576 to 65535"));
        }
        if let Some(word) = self.bind.split_whitespace().find(|w| !w.contains(':')) {
            return Err(ScenarioError::Bind(word.to_owned()));
        }
        Ok(())
    }

    /// Which processes there are, and that the hub can join them.
    fn check_processes(&self) -> Result<(), ScenarioError> {
        let is_stacked = self.paths > 1 || self.p2ps > 1 || self.distributors > 1 || self.rrcpd || self.source_rrcpd;
        let has_room = (1..=8).contains(&self.distributors) && (1..=16).contains(&self.p2ps);
        if !(1..=8).contains(&self.paths) || !has_room || (is_stacked && !self.server) {
            return Err(ScenarioError::Parameter(
                "paths and distributors (1 to 8), p2ps (1 to 16) and rrcpd need a server",
            ));
        }
        if !(1..=8).contains(&self.levels) || (self.levels > 1 && (is_stacked || self.nodes > 1 || !self.server)) {
            return Err(ScenarioError::Parameter(
                "levels (1 to 8) need a server, on one node, without paths, distributors, p2ps or rrcpd",
            ));
        }
        let is_alone = self.source_threads > 0;
        if is_alone && (self.hub != "tcp" || u32::from(self.source_threads) > self.distributors) {
            return Err(ScenarioError::Parameter(
                "source_threads, as many as distributors at most, need hub = \"tcp\"",
            ));
        }
        if self.distributors > 1 && self.hub == "tcp" && !is_alone {
            return Err(ScenarioError::Parameter(
                "several distributors on one hub need hub = \"lbt-rm\" or \"lbt-ru\"",
            ));
        }
        if self.mounts > 1 && !self.mounts.is_multiple_of(self.p2ps) {
            return Err(ScenarioError::Parameter("mounts cannot be divided by p2ps"));
        }
        if (self.rrcpd || self.source_rrcpd) && !self.hub.starts_with("lbt-r") {
            return Err(ScenarioError::Parameter("an rrcpd needs hub = \"lbt-rm\" or \"lbt-ru\""));
        }
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), ScenarioError> {
        if !(1..=3).contains(&self.nodes) {
            return Err(ScenarioError::Parameter("nodes must be 1, 2 or 3"));
        }
        let sound = self.items > 0
            && self.mounts > 0
            && self.stamp_every > 0
            && (1..=SUBJECTS_MAX).contains(&self.subjects)
            && (0.0..=1.0).contains(&self.common)
            && self.seconds > 0.0;
        if !sound || !(0.0..=600.0).contains(&self.warmup) || self.seconds > 86_400.0 {
            return Err(ScenarioError::Parameter("items, mounts, common (0 to 1), seconds or warmup is out of range"));
        }
        if self.loss > 99 || (self.loss > 0 && self.nodes != 3) {
            return Err(ScenarioError::Parameter("loss (percent, below 100) needs three nodes"));
        }
        Ok(())
    }

    /// What a procedure needs.
    fn check_kind(&self) -> Result<(), ScenarioError> {
        if self.kind == Kind::Lbm {
            self.lbm.as_ref().ok_or(ScenarioError::Parameter("a scenario of LBM needs a table `lbm`"))?.cells()?;
        }
        if self.batches()?.is_empty() && self.kind == Kind::Stages {
            return Err(ScenarioError::Parameter("the stages need batches"));
        }
        if self.kind == Kind::Transports {
            let has_search = self.points()?.contains(&Point::Search);
            if transports::cells(self)?.is_empty() || self.rates.trim().is_empty() || has_search {
                return Err(ScenarioError::Parameter(
                    "transports need transports, and rates: 100k max, without search",
                ));
            }
        }
        if self.kind == Kind::Flow && self.rates.trim().is_empty() {
            return Err(ScenarioError::Parameter("a flow needs rates"));
        }
        if self.kind == Kind::Load && (self.load.is_none() || !matches!(self.points()?[..], [Point::Rate(_)])) {
            return Err(ScenarioError::Parameter("a load needs an act (load = \"storm\") and one rate"));
        }
        if matches!(self.kind, Kind::Images | Kind::Late | Kind::Seen | Kind::Conflation)
            && !matches!(self.points()?[..], [Point::Rate(_)])
        {
            return Err(ScenarioError::Parameter(
                "images, late, seen and conflation need one rate, at which clients stream: rates=100k",
            ));
        }
        Ok(())
    }
}
