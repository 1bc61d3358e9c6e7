//! Stock Wireshark listens on loopback while a source, a store and receivers talk: no errors. Needs `tshark` (`QUOTEWAY_TSHARK` names another
//! binary, or is `none`) and the right to capture, as root has.

use lbm_trials::capture::Listening;

use crate::processes::{Record, Role, StoreProcess, lines, with_stores};
use crate::roles;

#[test]
fn wireshark_reads_what_passes_between_processes() {
    let lines = lines("lbtrm");
    let mut store = StoreProcess::start(&lines, true);
    let port = store.address.port();
    // Wireshark does not follow all that passes when other tests run beside this one.
    let Some(mut listening) = Listening::start("lbm-store-io", &format!("tcp port {port}")) else { return };
    let options = format!("{}source ume_confirmed_delivery_notification 1\n", with_stores(&lines, [&store]));
    let mut record = Record::default();
    let mut receiver = Role::start("receiver", &options, &[]);
    receiver.wait_for("ready", &mut record);
    let more = [(roles::LIFE, "1".to_owned()), (roles::COUNT, "300".to_owned())];
    let mut source = Role::start("source", &options, &more);
    source.wait_for("done", &mut record);
    record.wait_for_stable(&mut receiver);
    // A receiver that is new asks the store for everything.
    let another = format!("{options}receiver ume_session_id 3\n");
    receiver.kill(&mut record);
    record.begin_receiver();
    let mut second = Role::start("receiver", &another, &[]);
    let mut other = Record::default();
    other.stable.clone_from(&record.stable);
    other.wait_for_stable(&mut second);
    store.kill();
    let preferences = ["low", "high"].map(|end| format!("-olbttcp.store_port_{end}:{port}"));
    let capture = listening.stop(&preferences);
    capture.check(Some(&format!("tcp.port=={port}")));
    for header in ["ume_preg", "ume_preg_resp", "ume_ack", "ume_rxreq", "ume_storeid", "ume_ranged_ack", "sri"] {
        assert!(capture.count(&format!("lbmc.{header} && tcp.port=={port}")) > 0, "no {header} is in the capture");
    }
}
