//! Pages as brokers published them: ANSI pages of 25 rows and 80 columns (container 134), with a clock in the last row.

use std::fmt::Write as _;

use feed::fields::append;
use rwf::DataType;
use rwf::msg::{Domain, UpdateMsg, UpdateType};

use super::series::Series;

/// Updates of a round: a minute of the clock, and a power of two.
const STEPS: u32 = 64;
/// Rows with quotes, from the third on.
const QUOTES: u32 = 20;
/// First row with a quote, from 1.
const TOP: u32 = 3;

const NAMES: [&str; 5] = ["GBP", "EUR", "JPY", "CHF", "AUD"];
const BROKERS: [&str; 4] = ["LDN", "NYC", "TYO", "SYD"];

/// Pages for every name: each update writes a price, its time and the clock; prices fade.
pub(super) fn series(stamp_all: bool) -> Series {
    let updates: Vec<Vec<u8>> = (0..STEPS).map(update).collect();
    Series::new(Domain::MARKET_PRICE, DataType::ANSI_PAGE, vec![image()], &updates, stamp_all)
}

fn image() -> Vec<u8> {
    let mut page =
        "\x1bc\x1b[1;1H\x1b[7m SPOT RATES   (page mode of sink-driven-src)                                 \x1b[m"
            .to_owned();
    for quote in 0..QUOTES {
        let (name, broker) = (NAMES[quote as usize % NAMES.len()], BROKERS[quote as usize / NAMES.len()]);
        write!(page, "\x1b[{};2H{name}  {}  {broker}  12:00", TOP + quote, price(quote, 0))
            .expect("a string takes all");
    }
    page += "\x1b[25;1H\x1b[4;36mquoteway\x1b[m\x1b[25;73H12:00:00";
    page.into_bytes()
}

fn price(quote: u32, step: u32) -> String {
    let pips = 5_000 + quote * 137 + step * 7 % 90;
    format!("{}.{pips:04}/{:02}", 1 + quote % 3, (pips + 5) % 100)
}

/// Row by row, and over again: a price in reverse green that fades to plain, and the clock.
fn update(step: u32) -> Vec<u8> {
    let quote = step * 7 % QUOTES;
    let (row, minute, second) = (TOP + quote, step / 60, step % 60);
    let body = format!(
        "\x1b[{row};7H\x1b[>7;32m{}\x1b[>m\x1b[{row};23H12:{minute:02}\x1b[25;73H12:{minute:02}:{second:02}",
        price(quote, step + 1)
    );
    let update = UpdateMsg {
        container: DataType::ANSI_PAGE,
        update_type: UpdateType::QUOTE,
        body: body.as_bytes(),
        ..UpdateMsg::new(Domain::MARKET_PRICE, 0)
    };
    let mut out = Vec::new();
    append(&mut out, body.len() + 64, |w| update.encode(w));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::page::{Page, PageSize, style};

    #[test]
    fn an_image_is_what_the_updates_have_made_of_the_page() {
        let mut series = series(false);
        assert_eq!((series.len(), series.container()), (64, DataType::ANSI_PAGE));
        let mut shown = Page::new(PageSize::default());
        let mut bytes = Vec::new();
        assert!(!series.append_image(0, 0, &mut bytes), "one part");
        shown.refresh(&bytes);
        assert_eq!(shown.row_text(2), " GBP  1.5000/05  LDN  12:00");
        assert!(shown.row_text(0).starts_with(" SPOT RATES") && shown.row(0)[0].style == style::REVERSE);
        for updates in 1..150 {
            let body = series.plain[series.step(updates - 1)].body().to_vec();
            assert!(body.len() < 80, "{}", body.len());
            shown.apply(&body);
            let mut image = Vec::new();
            series.append_image(updates, 0, &mut image);
            let mut late = Page::new(PageSize::default());
            late.refresh(&image);
            assert_eq!(late, shown, "after {updates} updates");
        }
        assert_eq!(shown.row_text(24), format!("quoteway{}12:00:20", " ".repeat(64)));
        assert_eq!(shown.row(TOP as u16 - 1)[6].fade_style, style::REVERSE);
        // An update writes each thing where the image has it.
        assert_eq!(shown.row_text(2).len(), " GBP  1.5000/05  LDN  12:00".len(), "{}", shown.row_text(2));
    }
}
