//! Items, interest, images and fan-out between providers and consumers, as state machines without I/O.
//!
//! Bytes go left to right: [`distributor`] turns what providers send into a stream of hub messages ([`stream`]), and
//! [`p2ps`] turns that stream into deliveries for each consumer. The two are crates of their own and know each other only by the bytes of the
//! hub stream, so that one process, many threads or many hosts make no difference to either.
//!
//! This crate is the name under which the others use both, and the place of the tests that need both; those of one half are beside that half.
#![forbid(unsafe_code)]

pub use hub_content::{cache, conflation, filter, headlines};
pub use hub_distributor as distributor;
pub use hub_items::{counters, deadlines, faults, hash_seed, item, status_texts};
pub use hub_p2ps as p2ps;
pub use hub_stream as stream;

#[cfg(test)]
mod tests {
    use super::counters::{Counted as _, Kind, Unit};

    #[test]
    fn the_hub_counters_can_be_shown_to_people() {
        for table in [crate::distributor::Counters::TABLE, crate::p2ps::Counters::TABLE] {
            for counter in table {
                let help = counter.help;
                assert!(help.ends_with('.') && !help.contains(['[', '`', '\n']), "{}: {help}", counter.name);
                assert_eq!(counter.name.ends_with("bytes"), counter.unit == Unit::Bytes, "{}", counter.name);
                assert_eq!(table.iter().filter(|c| c.name == counter.name).count(), 1, "{}", counter.name);
            }
        }
    }

    #[test]
    fn a_p2ps_takes_the_handles_of_as_many_items_as_a_source_distributor_has() {
        assert!(crate::p2ps::Config::default().max_handles >= crate::distributor::Config::default().max_items);
    }

    #[test]
    fn kinds_are_those_of_the_fields() {
        let kind = |name: &str| crate::p2ps::Counters::TABLE.iter().find(|c| c.name == name).map(|c| c.kind);
        assert_eq!((kind("items"), kind("updates_in")), (Some(Kind::Gauge), Some(Kind::Total)));
    }
}
