//! Marketfeed of providers on its way to the Source Distributor.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::Config;
use hub::distributor::{SessionId, SourceDistributor};
use marketfeed::Converter;
use rwf::DataType;
use rwf::dictionary::Dictionary;
use rwf::peek;

use super::{ServiceOptions, ToldLosses, options};

/// Makes field lists of the records that providers send (`convertMfeedDataToRWF`).
pub(in crate::agents) struct FromProviders {
    dictionary: Arc<Dictionary>,
    converter: Converter,
    /// Whether the records of single services are converted, whatever is said of all or of a route.
    services: BTreeMap<String, bool>,
    options: ServiceOptions,
    told: ToldLosses,
    /// The message that was made last.
    rwf: Vec<u8>,
    converted: u64,
    unconvertible: u64,
}

/// The fate of the records of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agents) enum Conversion {
    /// They stay as they are.
    Off,
    /// They become field lists.
    On,
    /// The service of each says what becomes of it; whether it becomes a field list where that says nothing.
    ByService(bool),
}

impl FromProviders {
    pub(in crate::agents) fn new(dictionary: Arc<Dictionary>, config: &Config) -> Self {
        let (converter, told) = (Converter::new(options(&config.p2ps)), ToldLosses::default());
        let said = config.services.iter();
        let services = said.filter_map(|(name, own)| Some((name.clone(), own.convert_mfeed_data_to_rwf?))).collect();
        let options = ServiceOptions::new(config);
        Self { dictionary, converter, services, options, told, rwf: Vec::new(), converted: 0, unconvertible: 0 }
    }

    /// What becomes of the records of a session, of which `is_on` says what else is said.
    pub(in crate::agents) fn of_session(&self, is_on: bool) -> Conversion {
        match (self.services.is_empty() && self.options.are_of_all(), is_on) {
            (true, false) => Conversion::Off,
            (true, true) => Conversion::On,
            (false, is_on) => Conversion::ByService(is_on),
        }
    }

    /// The message to go on with: one with a field list in place of a record, else `msg` itself. A record that cannot be read is passed
    /// on as the opaque bytes that it is.
    pub(in crate::agents) fn convert<'m>(
        &'m mut self,
        (how, session): (Conversion, SessionId),
        msg: &'m [u8],
        distributor: &SourceDistributor,
    ) -> &'m [u8] {
        if let Conversion::ByService(is_on) = how {
            if !peek::header(msg).is_ok_and(|header| header.container == DataType::OPAQUE) {
                return msg;
            }
            let service = distributor.service_of_message(session, msg).unwrap_or_default();
            if !self.services.get(service).copied().unwrap_or(is_on) {
                return msg;
            }
            self.converter.set_options(self.options.of_name(service));
        }
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
