//! `[record]`: what a server records of its own services.

use names::Pattern;

use super::section::section;
use super::value::DomainList;
use hub::cache::rules::Domains;
use rwf::msg::Domain;

section! {
    /// What a server records of its own services, as a consumer of itself (docs/operating/record.md).
    Record = "record", "record";
    folder: String = String::new(), "", "Folder of the recording; it is made, or gone on with. Empty: nothing is recorded.";
    services: Vec<String> = Vec::new(), "", "Services that are recorded.";
    items: Vec<String> = Vec::new(), "", "Names of the items that are recorded, of each of the services.";
    symbol_lists: Vec<String> = Vec::new(), "", "Symbol lists (domain 10) whose names are recorded, now and when they come: \"0#ALL\".";
    patterns: Vec<String> = Vec::new(), "", "Of the symbol lists only names that match one of these: * stands for any text, ? for one character, and what begins with ^ is a regular expression. Empty means all.";
    domains: DomainList = DomainList(Domains::NONE.with(Domain::MARKET_PRICE)), "", "Domains of the items.";
    generic: bool = false, "", "Record generic messages and acks of the items, too.";
    at_start: bool = true, "", "Record from the start of the process on; else from when it is asked to (quoteway ctl record start).";
    user: String = String::from("record"), "", "User name with which it logs in here; where permissions are on, it has to have rights.";
    items_max: u32 = 1_000_000, "", "Most items of a service; names beyond are left out, and told.";
    keep_megabytes: u32 = 0, "", "Most megabytes of the recording: the oldest segments go. 0 means any number.";
    keep_hours: u32 = 0, "", "Most hours of the recording: older segments go. 0 means any number.";
    segment_megabytes: u32 = 256, "", "Megabytes of a segment, 1 to 4096.";
    pack: bool = true, "", "Pack while recording; else records are written as they came, for rates that packing cannot follow (quoteway record compact packs them later).";
    queue_megabytes: u32 = 64, "", "Most megabytes that wait to be written, of each service, 1 to 4096; what comes beyond is a gap.";
}

/// The key that is at fault, and what it should be.
pub(super) fn fault(record: &Record) -> Option<(&'static str, &'static str)> {
    let is_size = |megabytes: u32| (1..=4096).contains(&megabytes);
    if !is_size(record.segment_megabytes) {
        return Some(("segment_megabytes", "must be from 1 to 4096"));
    }
    if !is_size(record.queue_megabytes) {
        return Some(("queue_megabytes", "must be from 1 to 4096"));
    }
    if record.patterns.iter().any(|text| Pattern::parse(text).is_err()) {
        return Some(("patterns", "must be names, with * and ?, or regular expressions that begin with ^"));
    }
    if record.folder.is_empty() {
        return None;
    }
    if record.services.is_empty() {
        return Some(("services", "must name a service: services = [\"FEED\"]"));
    }
    if record.items.is_empty() && record.symbol_lists.is_empty() {
        return Some(("items", "must name items, or symbol_lists lists of them"));
    }
    if record.domains.0 == Domains::NONE || record.domains.0 == Domains::ALL {
        return Some(("domains", "must name each domain, such as [\"MARKET_PRICE\"]"));
    }
    None
}
