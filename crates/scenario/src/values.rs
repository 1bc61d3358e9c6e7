//! Values of items of a scenario's server.

use rwf::msg::Domain;

use crate::words;

/// Rows of an image of a domain with rows.
const ROWS: u64 = 6;

/// Whether the server has items in a domain.
pub(crate) fn has_images(domain: Domain) -> bool {
    [Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER, Domain::MARKET_BY_PRICE, Domain::MARKET_MAKER].contains(&domain)
}

/// A domain's name as scripts write it.
pub(crate) fn domain_name(domain: Domain) -> String {
    domain.name().map_or_else(|| domain.to_string(), words::camel)
}

/// Hundredths that an item is worth: of the seed, the item's name and the ticks, so that a run can be repeated.
pub(crate) fn price(seed: u64, values: u64, name: &str, ticks: u64) -> u64 {
    let begin = name.bytes().fold(seed ^ (values << 32), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3).rotate_left(7)
    });
    5_000 + begin % 10_000 + ticks * 7 % 100
}

/// A number of hundredths as scripts write REALs.
fn hundredths(value: u64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// The clock of the time fields at the beginning: 09:30:00, in seconds of a day. Runs are repeated by it, so that it is not the wall's.
const OPENING_S: i64 = 9 * 3_600 + 30 * 60;
/// A day.
const DAY_S: i64 = 86_400;
/// The date at the beginning is this day of the month, of which there are so many at least before and behind it.
const FIRST_DAY: i64 = 15;

/// `TIMACT` and `TRADE_DATE` after so many ticks, with the server's clock set by so many seconds.
pub(crate) fn times(ticks: u64, clock_s: i64) -> Vec<String> {
    let at = OPENING_S + (ticks / 10) as i64 + clock_s;
    let (day, second) = (FIRST_DAY + at.div_euclid(DAY_S), at.rem_euclid(DAY_S));
    vec![
        format!("5={:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60),
        format!("16=2026-01-{:02}", day.clamp(1, 31)),
    ]
}

/// Fields or rows of an image: `TRDPRC_1`, `BID`, `ASK`, `BIDSIZE`, `ASKSIZE`.
pub(crate) fn content(domain: Domain, price: u64, ticks: u64) -> Vec<String> {
    if domain == Domain::MARKET_PRICE {
        let sizes = [1 + ticks % 9, 2 + ticks % 7];
        return vec![
            format!("6={}", hundredths(price)),
            format!("22={}", hundredths(price - 1)),
            format!("25={}", hundredths(price + 1)),
            format!("30={}.0", sizes[0]),
            format!("31={}.0", sizes[1]),
        ];
    }
    (0..ROWS).map(|row| format!("add:R{row}{{{}}}", fields_of_row(price + row))).collect()
}

/// `ORDER_PRC` and `ORDER_SIZE`.
fn fields_of_row(price: u64) -> String {
    format!("3427={},3429=100.0", hundredths(price))
}

/// Content of an update.
pub(crate) fn change(domain: Domain, price: u64, ticks: u64) -> Vec<String> {
    if domain == Domain::MARKET_PRICE {
        return vec![format!("22={}", hundredths(price - 1)), format!("25={}", hundredths(price + 1))];
    }
    vec![format!("update:R{}{{{}}}", ticks % ROWS, fields_of_row(price))]
}
