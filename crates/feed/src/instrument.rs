//! Kinds of instruments by name: any ordinary name gets one, and always the same.
//!
//! The suffix says the market (`.N` New York, `.L` London, `EUR=` a currency), a hash of the name the rest: price level,
//! liquidity, spread and temper. A few well-known names have levels one would expect.

use super::random::{Random, hash};

/// The fixed traits of an instrument.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The kind of instrument; decides which events and fields there are.
    pub kind: Kind,
    /// Where it is listed.
    pub market: Market,
    /// Digits after the decimal point of every price of this instrument.
    pub decimals: u8,
    /// Smallest price step, in units of the last decimal.
    pub tick: i64,
    /// Price at which it closed the day before the market's first, in units of the last decimal.
    pub base_price: i64,
    /// Sizes are multiples of this.
    pub lot: u32,
    /// Typical size at the best price, in lots.
    pub typical_lots: u32,
    /// Typical spread in ticks, at least 1.
    pub spread_ticks: u32,
    /// Mean events (quotes and trades) a second in the middle of the day, without bursts that others cause.
    pub rate: f64,
    /// Standard deviation of the day's return.
    pub volatility: f64,
    /// How strongly it follows the market: 1 moves as the market does.
    pub beta: f64,
}

/// The kind of instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A share: quotes and trades, an opening and a closing auction.
    Share,
    /// An exchange rate: quotes only.
    Currency,
    /// A computed index: values that appear as trades, no quotes.
    Index,
}

/// A listing market, as the exchange and currency enumerations of the field dictionary number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Market {
    /// `RDN_EXCHID` / `RDN_EXCHD2`.
    pub exchange: u16,
    /// `CURRENCY` (ISO 4217 numeric).
    pub currency: u16,
    /// Venues whose quotes can be best, as `BIDXID` numbers and `BID_MMID1` codes.
    pub venues: &'static [Venue],
}

/// A venue that quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Venue {
    /// `BIDXID`, `ASKXID`.
    pub exchange: u8,
    /// `BID_MMID1`, `ASK_MMID1`: three letters; zeros stand for none.
    pub code: [u8; 3],
}

impl Venue {
    /// Nobody quotes.
    pub const NONE: Self = venue(0, [0; 3]);

    /// The code as text, empty for none.
    pub fn code(&self) -> &str {
        str::from_utf8(&self.code).unwrap_or_default().trim_end_matches('\0')
    }
}

/// A venue by its exchange number and code.
pub const fn venue(exchange: u8, code: [u8; 3]) -> Venue {
    Venue { exchange, code }
}

const US_VENUES: &[Venue] = &[
    venue(2, *b"NYS"),
    venue(43, *b"NAS"),
    venue(5, *b"PSE"),
    venue(3, *b"BOS"),
    venue(1, *b"ASE"),
    venue(43, *b"NAS"),
];
const NEW_YORK: Market = Market { exchange: 2, currency: 840, venues: US_VENUES };
const NASDAQ: Market = Market { exchange: 43, currency: 840, venues: US_VENUES };
const ARCA: Market = Market { exchange: 5, currency: 840, venues: US_VENUES };
const LONDON: Market = Market { exchange: 64, currency: 2008, venues: &[venue(64, *b"LSE")] };
const PARIS: Market = Market { exchange: 74, currency: 978, venues: &[venue(74, *b"PAR")] };
const XETRA: Market = Market { exchange: 202, currency: 978, venues: &[venue(202, *b"GER")] };
const TOKYO: Market = Market { exchange: 106, currency: 392, venues: &[venue(106, *b"TYO")] };
const TORONTO: Market = Market { exchange: 10, currency: 124, venues: &[venue(10, *b"TOR")] };
const HONG_KONG: Market = Market { exchange: 92, currency: 344, venues: &[venue(92, *b"HKG")] };
const INTERBANK: Market = Market { exchange: 0, currency: 840, venues: &[venue(0, *b"FXA"), venue(0, *b"FXB")] };

/// RIC suffixes and the markets that they name.
const SUFFIXES: &[(&str, Market)] = &[
    (".N", NEW_YORK),
    (".O", NASDAQ),
    (".OQ", NASDAQ),
    (".P", ARCA),
    (".L", LONDON),
    (".PA", PARIS),
    (".DE", XETRA),
    (".T", TOKYO),
    (".TO", TORONTO),
    (".HK", HONG_KONG),
];

/// Where shares of the United States are listed that people know, and that are not in New York; beside those of [`KNOWN`].
const KNOWN_LISTINGS: &[&str] =
    &["AMGN.O", "CSCO.O", "GOOGL.O", "HON.O", "INTC.O", "META.O", "NVDA.O", "QQQ.O", "TSLA.O"];

/// The name of a share of the United States by its symbol, where its listing is known.
pub(crate) fn us_share(symbol: &str) -> Option<&'static str> {
    let mut names = KNOWN.iter().map(|(name, ..)| *name).chain(KNOWN_LISTINGS.iter().copied());
    let is_it = |name: &&str| matches!(name.rsplit_once('.'), Some((known, "N" | "O" | "P")) if known == symbol);
    names.find(is_it)
}

/// Names that people try first: price in currency units and events a second.
const KNOWN: &[(&str, f64, f64)] = &[
    ("IBM.N", 184.50, 12.0),
    ("TRI.N", 163.20, 4.0),
    ("AAPL.O", 212.40, 30.0),
    ("MSFT.O", 418.10, 24.0),
    ("GOOG.O", 171.80, 18.0),
    ("AMZN.O", 186.30, 20.0),
    ("BAC.N", 38.60, 14.0),
    ("AIG.N", 72.90, 6.0),
    ("GE.N", 168.00, 8.0),
    ("SPY.P", 545.30, 40.0),
    ("VOD.L", 70.24, 6.0),
    ("BP.L", 468.50, 5.0),
    ("SAPG.DE", 178.40, 8.0),
    ("7203.T", 2_850.0, 8.0),
    ("EUR=", 1.0872, 10.0),
    ("GBP=", 1.2710, 7.0),
    ("JPY=", 156.42, 9.0),
    ("CHF=", 0.8895, 5.0),
    ("CAD=", 1.3670, 5.0),
    ("AUD=", 0.6625, 5.0),
    ("NZD=", 0.6080, 3.0),
    ("CNY=", 7.2430, 3.0),
    ("HKD=", 7.8120, 2.0),
    ("SEK=", 10.4600, 2.0),
    ("NOK=", 10.6100, 2.0),
    ("EURGBP=", 0.8545, 4.0),
    ("EURJPY=", 170.05, 4.0),
    ("XAU=", 2_335.40, 6.0),
    ("XAG=", 29.45, 3.0),
    (".DJI", 39_150.0, 2.0),
    (".SPX", 5_460.0, 4.0),
];

/// Names that people try first; every market of this source has them.
pub fn well_known() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, ..)| *name)
}

impl Profile {
    /// The instrument that `name` stands for in the market of `seed`, or `None` when the name is not an ordinary one.
    pub fn of(name: &str, seed: u64) -> Option<Self> {
        is_ordinary(name).then(|| Self::derive(name, seed))
    }

    fn derive(name: &str, seed: u64) -> Self {
        let mut random = Random::new(hash(seed, name.as_bytes()));
        let known = KNOWN.iter().find(|(n, ..)| *n == name);
        // Heavy tail: a few instruments make most of the traffic, as on every exchange.
        let drawn_rate = (random.normal() * 1.3 - 0.9).exp().clamp(0.02, 30.0);
        let rate = known.map_or(drawn_rate, |k| k.2);
        let (kind, market) = classify(name);
        let drawn_price = match kind {
            Kind::Share => (random.normal() * 0.9 + 3.6).exp().clamp(0.4, 3_000.0),
            Kind::Currency => (random.normal() * 0.5).exp().clamp(0.2, 8.0),
            Kind::Index => (random.normal() * 0.8 + 8.0).exp().clamp(100.0, 60_000.0),
        };
        let price = known.map_or(drawn_price, |k| k.1);
        let (decimals, tick) = tick_size(kind, market, price);
        let liquidity = rate.max(0.05).ln();
        Self {
            kind,
            market,
            decimals,
            tick,
            base_price: (price * 10f64.powi(i32::from(decimals)) / tick as f64).round().max(1.0) as i64 * tick,
            lot: if kind == Kind::Currency { 1_000_000 } else { 100 },
            typical_lots: (2.0 + 4.0 * (liquidity + 3.0).max(0.2) * 40.0 / price.clamp(10.0, 400.0)).round() as u32,
            spread_ticks: (1.0 + (1.5 - liquidity).max(0.0) * (0.4 + random.unit()) + price / 250.0).round() as u32,
            rate,
            volatility: match kind {
                Kind::Share => 0.012 + 0.02 * random.unit(),
                Kind::Currency => 0.005,
                Kind::Index => 0.009,
            },
            beta: if kind == Kind::Currency { 0.1 } else { 0.5 + random.unit() },
        }
    }
}

/// An ordinary instrument name: up to 32 printable ASCII characters, blanks only at the end, that begin with a letter, a
/// digit or one of `. / < _`. Everything else is answered with "not found".
fn is_ordinary(name: &str) -> bool {
    let trimmed = name.trim_end_matches(' ');
    let starts_well = trimmed.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b"./<_".contains(&b));
    starts_well && name.len() <= 32 && trimmed.bytes().all(|b| b.is_ascii_graphic())
}

fn classify(name: &str) -> (Kind, Market) {
    let name = name.trim_end_matches(' ').trim_start_matches('/');
    if name.ends_with('=') || name.contains("=R") {
        return (Kind::Currency, INTERBANK);
    }
    if name.starts_with('.') {
        return (Kind::Index, NEW_YORK);
    }
    let suffix = name.rfind('.').map_or("", |at| &name[at..]);
    let market = SUFFIXES.iter().find(|(s, _)| *s == suffix).map_or(NEW_YORK, |&(_, market)| market);
    (Kind::Share, market)
}

/// Decimals and tick (in the last decimal) of a market at a price.
fn tick_size(kind: Kind, market: Market, price: f64) -> (u8, i64) {
    match kind {
        Kind::Currency => (if price > 20.0 { 2 } else { 4 }, 1),
        Kind::Share if market == TOKYO => (1, if price < 1_000.0 { 1 } else { 5 }),
        Kind::Share if market == LONDON => (2, if price < 100.0 { 1 } else { 5 }),
        Kind::Share if price < 1.0 => (4, 1),
        Kind::Share | Kind::Index => (2, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_always_the_same_instrument() {
        assert_eq!(Profile::of("TRI.N", 1), Profile::of("TRI.N", 1));
        assert_ne!(Profile::of("RDT17", 1), Profile::of("RDT18", 1));
        assert_ne!(Profile::of("RDT17", 1), Profile::of("RDT17", 2), "the seed is another world");
    }

    #[test]
    fn the_suffix_names_the_market() {
        let profile = |name| Profile::of(name, 1).unwrap();
        assert_eq!(profile("VOD.L").market, LONDON);
        assert_eq!(profile("7203.T").market, TOKYO);
        // A single step of a price is no leap: a share in yen costs thousands of them.
        assert!(profile("7203.T").tick * 1_000 < profile("7203.T").base_price);
        assert_eq!(profile("EUR=").kind, Kind::Currency);
        assert_eq!(profile("EUR=").decimals, 4);
        assert_eq!(profile("JPY=").decimals, 2);
        assert_eq!(profile(".DJI").kind, Kind::Index);
        assert_eq!(profile("IBM.N").base_price, 18_450);
    }

    #[test]
    fn ordinary_names_are_answered_and_others_are_not() {
        for name in ["A", "IBM.N", "RDT349999", "/TRI.N", "_ALL.N", "BRKa.N ", "0700.HK", "<CHAIN", "ESZ4^1"] {
            assert!(Profile::of(name, 1).is_some(), "{name:?}");
        }
        for name in ["", " ", "!NONE", "a b", "\u{1}", "é", "?unknown", &"x".repeat(33)] {
            assert!(Profile::of(name, 1).is_none(), "{name:?}");
        }
    }

    #[test]
    fn ten_thousand_names_make_a_plausible_market() {
        let profiles: Vec<Profile> = (0..10_000).map(|i| Profile::of(&format!("RDT{i}"), 1).unwrap()).collect();
        for p in &profiles {
            assert!(p.base_price > 0 && p.base_price % p.tick == 0 && p.spread_ticks >= 1 && p.typical_lots >= 1);
            let spread = p.tick as f64 * f64::from(p.spread_ticks) / p.base_price as f64;
            assert!(spread < 0.12, "{p:?}");
        }
        let mut rates: Vec<f64> = profiles.iter().map(|p| p.rate).collect();
        rates.sort_by(f64::total_cmp);
        let busiest: f64 = rates[9_000..].iter().sum::<f64>() / rates.iter().sum::<f64>();
        assert!((0.4..0.85).contains(&busiest), "the busiest tenth makes {busiest} of the traffic");
    }
}
