//! Marketfeed of providers on its way to the Source Distributor.

use std::sync::Arc;

use marketfeed::Converter;
use rwf::dictionary::Dictionary;

use super::{ToldLosses, options};

/// Makes field lists of the records that providers send (`convertMfeedDataToRWF`).
pub(in crate::agents) struct FromProviders {
    dictionary: Arc<Dictionary>,
    converter: Converter,
    told: ToldLosses,
    /// The message that was made last.
    rwf: Vec<u8>,
    converted: u64,
    unconvertible: u64,
}

impl FromProviders {
    pub(in crate::agents) fn new(dictionary: Arc<Dictionary>, c: &config::P2ps) -> Self {
        let (converter, told) = (Converter::new(options(c)), ToldLosses::default());
        Self { dictionary, converter, told, rwf: Vec::new(), converted: 0, unconvertible: 0 }
    }

    /// The message to go on with: one with a field list in place of a record, else `msg` itself. A record that cannot be read is passed
    /// on as the opaque bytes that it is.
    pub(in crate::agents) fn convert<'m>(&'m mut self, msg: &'m [u8]) -> &'m [u8] {
        self.rwf.clear();
        match self.converter.read_opaque(&self.dictionary, msg, &mut self.rwf) {
            Ok(true) => {
                self.converted += 1;
                self.told.tell(&self.converter, "RWF");
                &self.rwf
            }
            Ok(false) => msg,
            Err(error) => {
                self.unconvertible += 1;
                if self.unconvertible.is_power_of_two() {
                    tracing::error!("{} records of providers could not become RWF, now: {error}", self.unconvertible);
                }
                msg
            }
        }
    }

    /// Messages that were converted, records that could not be, fields that were dropped.
    pub(in crate::agents) fn counts(&self) -> (u64, u64, u64) {
        (self.converted, self.unconvertible, self.converter.losses().dropped())
    }
}
