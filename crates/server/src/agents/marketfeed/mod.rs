//! Marketfeed at the edges of the servers: the hub knows RWF alone.
//!
//! ```text
//! provider --OPAQUE--> [FromProviders] --field lists--> Source Distributor ==> P2PS --field lists--> [ToClients] --OPAQUE--> client
//! ```
//!
//! A record travels as the OPAQUE payload of an RWF message (`docs/wire/marketfeed.md`): the SSL connection of old programs is not spoken.

mod from_providers;
mod of_services;
mod to_clients;

pub(super) use from_providers::{Conversion, FromProviders};
pub(super) use to_clients::{ToClients, Wants};

use marketfeed::{Converter, Loss, Options, PriceStyle, RtlRule};
use of_services::ServiceOptions;
use rustc_hash::FxHashSet;

const fn price_style(is_idn: bool) -> PriceStyle {
    if is_idn { PriceStyle::Idn } else { PriceStyle::Plain }
}

fn options(c: &config::P2ps) -> Options {
    let rtl = if c.seq_num_follows_marketfeed_rules { RtlRule::SequenceNumber } else { RtlRule::Counted };
    let (prices, keeps_templates) = (price_style(c.convert_to_idn_style), c.use_template_number);
    Options { rtl, expands_enums: c.expanded_enum_fields, prices, keeps_templates }
}

/// The losses that the log has told of: each field and reason once, since they come with every message.
#[derive(Default)]
struct ToldLosses(FxHashSet<(i16, Loss)>);

impl ToldLosses {
    /// Tells of what is new; `whither` says what the fields were to become.
    fn tell(&mut self, converter: &Converter, whither: &str) {
        if converter.losses().kinds() == self.0.len() {
            return;
        }
        for (fid, loss, _) in converter.losses().all() {
            if self.0.insert((fid, loss)) {
                tracing::warn!("field {fid} cannot become {whither}: {} (told once)", loss.name());
            }
        }
    }
}
