//! `[delay.NAME]`: services that a Source Distributor publishes later than their source.

use names::Pattern;

use super::section::section;
use super::value::DomainList;
use hub::cache::rules::Domains;
use rwf::msg::Domain;

section! {
    /// Services whose data the process publishes later, a table [delay.NAME] for each: NAME is the delayed service (docs/operating/delay.md).
    Delay = "delay", "delay";
    delay_enabled: bool = true, "", "Publish it at all.";
    delayed_service: String = String::new(), "", "The service whose data is published later.";
    delay_s: u32 = 900, "", "How late items are that no rule speaks of.";
    delay_rules: Vec<String> = Vec::new(), "", "Other delays: \"FID=VALUE:SECONDS\" for items whose image has this number in this field, as 4=145:1200, \"name=PATTERN:SECONDS\" for items whose names match. The first that fits holds.";
    delay_rules_file: String = String::new(), "", "File of more rules, one a line, behind those of delay_rules.";
    fee_fields: Vec<String> = Vec::new(), "", "Fields, by number, that are kept back until they are due; the others of an image are shown at once. Empty means all fields.";
    delay_domains: DomainList = DomainList(Domains::NONE.with(Domain::MARKET_PRICE)), "", "Domains of the items.";
    delay_journal: String = String::new(), "", "Folder in which the data is kept until it is due; it is made, or gone on with.";
    delay_journal_megabytes: u32 = 10_000, "", "Most megabytes of the journal beside its newest segment; beyond, the oldest goes, and is a hole.";
    delay_segment_s: u32 = 60, "", "How long a segment of the journal is.";
    delay_items_max: u32 = 100_000, "", "Most items that are asked for at a time; others are refused.";
    delay_unwatched_s: u32 = 3_600, "", "How long an item is kept open at its source that nobody watches any more, so that who comes back finds its data.";
    delay_user: String = String::from("delay"), "", "User name with which the process logs in at its own consumers' side; where permissions are on there, it has to have rights.";
}

impl Delay {
    /// Numbers of the domains that are published.
    pub fn domain_numbers(&self) -> Vec<u8> {
        (0..=u8::MAX).filter(|&number| self.delay_domains.0.has(Domain(number))).collect()
    }

    /// The fields that are kept back until they are due; `None`: all.
    pub fn kept_back(&self) -> Option<impl Iterator<Item = i16>> {
        let fields = self.fee_fields.iter().filter_map(|text| text.trim().parse().ok());
        (!self.fee_fields.is_empty()).then_some(fields)
    }
}

/// The key that is at fault, and what it should be.
pub(super) fn fault(name: &str, delay: &Delay) -> Option<(&'static str, &'static str)> {
    if delay.delayed_service.is_empty() || delay.delayed_service == name {
        return Some(("delayed_service", "must name another service: delayed_service = \"FEED\""));
    }
    if delay.delay_journal.is_empty() {
        return Some(("delay_journal", "must name a folder: delay_journal = \"/var/lib/quoteway/feed15\""));
    }
    if !delay.delay_rules.iter().all(|text| is_rule(text)) {
        return Some(("delay_rules", "must be FID=VALUE:SECONDS, as 4=145:1200, or name=PATTERN:SECONDS"));
    }
    if delay.fee_fields.iter().any(|text| text.trim().parse::<i16>().is_err()) {
        return Some(("fee_fields", "must be numbers of fields"));
    }
    if delay.delay_domains.0 == Domains::NONE || delay.delay_domains.0 == Domains::ALL {
        return Some(("delay_domains", "must name each domain, such as [\"MARKET_PRICE\"]"));
    }
    if delay.delay_segment_s == 0 {
        return Some(("delay_segment_s", "must be at least 1"));
    }
    if delay.delay_items_max == 0 {
        return Some(("delay_items_max", "must be at least 1"));
    }
    None
}

fn is_rule(text: &str) -> bool {
    let Some((what, seconds)) = text.rsplit_once(':') else { return false };
    let Some((field, value)) = what.split_once('=') else { return false };
    let (field, value) = (field.trim(), value.trim());
    let selects = if field == "name" {
        !value.is_empty() && Pattern::parse(value).is_ok()
    } else {
        field.parse::<i16>().is_ok() && value.parse::<u64>().is_ok()
    };
    selects && seconds.trim().parse::<u32>().is_ok()
}
