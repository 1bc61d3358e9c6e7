// What the fuzz targets run, and the smoke test in `hostile.rs` with it: any bytes may come, and nothing may panic, hang or take
// memory that the bytes do not justify. Each function takes the fuzzer's bytes.

use lbm::wire::lbmc::{self, Messages};
use lbm::wire::properties::Properties;
use lbm::wire::{Writer, lbmr, lbtrm, lbtru};

fn written(room: usize, f: impl FnOnce(&mut Writer<'_>) -> Result<(), lbm::wire::Full>) -> Option<Vec<u8>> {
    let mut buffer = vec![0; room];
    let mut w = Writer::new(&mut buffer);
    f(&mut w).ok()?;
    Some(w.written().to_vec())
}

/// A list of messages; what can be read can be written again.
pub(crate) fn messages(data: &[u8]) {
    for message in Messages::new(data) {
        let Ok(message) = message else { return };
        let mut headers = message.headers();
        let parts: Result<Vec<_>, _> = headers.by_ref().collect();
        let content = message.content();
        let Ok(parts) = parts else {
            assert!(content.is_err());
            continue;
        };
        let rebuilt = written(data.len(), |w| {
            lbmc::encode(w, message.kind, message.topic, message.sqn, &parts, headers.end(), headers.payload())
        });
        if let (Some(rebuilt), Ok(content)) = (rebuilt, content) {
            let again = Messages::new(&rebuilt).next().expect("a message").expect("good");
            assert_eq!(again.content(), Ok(content));
            let properties = content.payload.len().saturating_sub(content.properties as usize);
            if let Ok(properties) = Properties::decode(&content.payload[properties..]) {
                assert!(properties.iter().count() <= content.payload.len());
            }
        }
    }
}

/// A datagram of any kind.
pub(crate) fn datagram(data: &[u8]) {
    if let Ok(packet) = lbtrm::Packet::decode(data) {
        let rebuilt = written(data.len(), |w| packet.encode(w)).expect("no longer than it was");
        assert_eq!(lbtrm::Packet::decode(&rebuilt), Ok(packet));
        if let lbtrm::Body::Data(data) = packet.body {
            messages(data.messages);
        }
    }
    if let Ok(packet) = lbtru::Packet::decode(data) {
        let rebuilt = written(data.len() + 16, |w| packet.encode(w)).expect("no longer than it was");
        assert_eq!(lbtru::Packet::decode(&rebuilt), Ok(packet));
    }
    if let Ok(packet) = lbmr::Packet::decode(data) {
        if let lbmr::Body::Topics { queries, adverts } = packet.body {
            assert_eq!(queries.iter().count(), queries.len());
            assert_eq!(adverts.iter().count(), adverts.len());
        }
        let rebuilt = written(data.len(), |w| packet.encode(w)).expect("no longer than it was");
        assert_eq!(lbmr::Packet::decode(&rebuilt), Ok(packet));
    }
}
