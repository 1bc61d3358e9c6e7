//! Names by a file.

use std::sync::Arc;

use super::web::text;
use super::*;

#[test]
fn items_have_the_names_of_the_file_and_others_the_venues() {
    let subscribed = r#"wss://futures.kraken.com/ws/v1 <- 1.5: {"event":"subscribe","feed":"book","product_ids":["pi_a","pi_b","pi_c"]}"#;
    let came = r#"2.0: {"feed":"book_snapshot","product_id":"PI_A","timestamp":1,"seq":7,"bids":[],"asks":[]}"#;
    let file = file("lines", format!("{subscribed}\n{came}\n").as_bytes());
    // The name of one is the symbol of another that has none.
    let names = Symbology::read("symbol,name,isin\nPI_A,A=,US0378331005\nPI_B,PI_C,\n").expect("names");
    let mut replay = open(&file.path, VenueConfig { symbology: Some(Arc::new(names)), ..config() });
    assert_eq!(replay.symbols(), ["A=", "PI_C"]);
    assert_eq!((replay.find("PI_A"), replay.find("PI_B")), (None, None));
    let mut image = |name: &str| {
        let id = replay.find(name).expect("an item");
        let mut body = Vec::new();
        replay.image(id, Model::Price, 0, &mut body);
        [fid::PROV_SYMB, fid::ISIN_CODE].map(|id| text(&body, id))
    };
    assert_eq!(image("A="), [Some("PI_A".to_owned()), Some("US0378331005".to_owned())]);
    assert_eq!(image("PI_C"), [Some("PI_B".to_owned()), None]);
    let remarks = replay.remarks().expect("remarks");
    assert!(remarks.contains("1 symbols have a name that another one has") && remarks.contains("PI_C"), "{remarks}");
}

/// A table is read through for its names when it is opened, and read again when it is over: what a venue without books has told by then is void.
#[test]
fn what_was_read_for_names_or_before_a_new_beginning_leaves_no_value_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ticks.toml");
    let columns = "columns = { symbol = \"symbol\", time = \"at\", bid = \"bid\", ask = \"ask\" }";
    std::fs::write(&path, format!("[[table]]\nfiles = [\"ticks.csv\"]\n{columns}\n")).expect("a file");
    let rows = "symbol,at,bid,ask\nA,2013-10-07 09:30:00,10.01,10.03\nA,2013-10-07 09:30:01,10.02,\n";
    std::fs::write(folder.path().join("ticks.csv"), rows).expect("a file");
    let mut replay = open(&path, VenueConfig { repeat: true, ..config() });
    let id = replay.find("A").expect("a name");
    let mut image = Vec::new();
    replay.image(id, Model::Price, 0, &mut image);
    let quote = |body: &[u8]| [fid::BID, fid::ASK].map(|id| real_of(body, id, 9).flatten());
    assert_eq!(quote(&image), [None, None], "no row has been played");
    replay.watch(id, Model::Price, true);
    let mut images = 0;
    while images < 3 {
        replay.advance(0, 1, &mut |event| {
            if matches!(event.payload, Payload::ImagePart { .. }) {
                assert_eq!(quote(event.body), [None, None], "a new beginning has nothing of the end before");
                images += 1;
            }
        });
    }
}
