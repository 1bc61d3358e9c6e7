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
