//! Traces of EMA for Java as recordings. The text is laid out as EMA 3.9.1 writes it with `XmlTraceToFile`.

use record::{Folder, Kind, Recording};
use record_files::{Assumed, Imported, InputForm, import};
use rwf::dictionary::Dictionary;
use rwf::msg::{Msg, RefreshFlags};
use rwf::{FieldList, Map, Primitive, SetScope, StateCode, StreamState};
use std::path::Path;

/// A message with the comments before it.
fn traced(is_incoming: bool, second: u8, message: &str) -> String {
    let way = if is_incoming { "Incoming" } else { "Outgoing" };
    format!(
        "\n<!-- {way} Reactor message -->\n<!-- java.nio.channels.SocketChannel[connected local=/127.0.0.1:59550 remote=localhost/127.0.0.1:24567] -->\n\
         <!-- Sun Nov 29 17:17:{second:02} UTC 2026 -->\n\n<!-- rwfMajorVer=\"14\" rwfMinorVer=\"1\" -->\n{message}\n"
    )
}

const DIRECTORY: &str = r#"<REFRESH domainType="SOURCE" streamId="2" containerType="MAP" flags="0x168 (HAS_MSG_KEY|SOLICITED|REFRESH_COMPLETE|CLEAR_CACHE)" groupId="0" State: Open/Ok/None - text: "" dataSize="211">
    <key flags="0x08 (HAS_FILTER)" filter="11"/>
    <dataBody>
        <map flags="0x00" countHint="0" keyPrimitiveType="UINT" containerType="FILTER_LIST" >
            <mapEntry flags="0x00" action="ADD" key="1" >
                <filterList containerType="ELEMENT_LIST" countHint="0" flags="0x00">
                    <filterEntry id="1" action="SET" flags="0x02 (HAS_CONTAINER_TYPE)" containerType="ELEMENT_LIST">
                        <elementList flags="0x08 (HAS_STANDARD_DATA)">
                            <elementEntry name="Name" dataType="ASCII_STRING" data="FEED"/>
                            <elementEntry name="Capabilities" dataType="ARRAY">
                                <array itemLength="0" primitiveType="UINT">
                                    <arrayEntry data="6"/>
                                    <arrayEntry data="7"/>
                                </array>
                            </elementEntry>
                            <elementEntry name="QoS" dataType="ARRAY">
                                <array itemLength="0" primitiveType="QOS">
                                    <arrayEntry Qos: Realtime/TickByTick/Static - timeInfo: 0 - rateInfo: 0/>
                                </array>
                            </elementEntry>
                        </elementList>
                    </filterEntry>
                    <filterEntry id="2" action="SET" flags="0x02 (HAS_CONTAINER_TYPE)" containerType="ELEMENT_LIST">
                        <elementList flags="0x08 (HAS_STANDARD_DATA)">
                            <elementEntry name="ServiceState" dataType="UINT" data="1"/>
                        </elementList>
                    </filterEntry>
                </filterList>
            </mapEntry>
        </map>
    </dataBody>
</REFRESH>"#;

const REQUEST: &str = r#"<REQUEST domainType="MARKET_PRICE" streamId="3" containerType="NO_DATA" flags="0x46 (HAS_PRIORITY|STREAMING|HAS_QOS)" Qos: Realtime/TickByTick/Static - timeInfo: 0 - rateInfo: 0 priorityClass="1" priorityCount="1" dataSize="0">
    <key flags="0x03 (HAS_SERVICE_ID|HAS_NAME)" serviceId="1" name="A&amp;B.N"/>
    <dataBody>
    </dataBody>
</REQUEST>"#;

const IMAGE: &str = r#"<REFRESH domainType="MARKET_PRICE" streamId="3" containerType="FIELD_LIST" flags="0x168 (HAS_MSG_KEY|SOLICITED|REFRESH_COMPLETE|CLEAR_CACHE)" groupId="0" State: Open/Ok/None - text: "All is well" dataSize="78">
    <key flags="0x03 (HAS_SERVICE_ID|HAS_NAME)" serviceId="1" name="A&amp;B.N"/>
    <dataBody>
        <fieldList flags="0x08 (HAS_STANDARD_DATA)">
            <fieldEntry fieldId="22" data="0C12 78"/>
            <fieldEntry fieldId="11" data=""/>
        </fieldList>
    </dataBody>
</REFRESH>"#;

const UPDATE: &str = r#"<UPDATE domainType="MARKET_PRICE" streamId="3" containerType="FIELD_LIST" flags="0x10 (HAS_SEQ_NUM)" updateType="1" seqNum="7" dataSize="31">
    <dataBody>
        <fieldList flags="0x08 (HAS_STANDARD_DATA)">
            <fieldEntry fieldId="22" data="0C12
            F9"/>
        </fieldList>
    </dataBody>
</UPDATE>"#;

const CLOSED: &str = r#"<STATUS domainType="MARKET_PRICE" streamId="3" containerType="NO_DATA" flags="0x20 (HAS_STATE)" State: Closed, Recoverable/Suspect/Not found - text: "gone" dataSize="0">
    <dataBody>
    </dataBody>
</STATUS>"#;

const BOOK: &str = r#"<REFRESH domainType="MARKET_BY_ORDER" streamId="4" containerType="MAP" flags="0x168 (HAS_MSG_KEY|SOLICITED|REFRESH_COMPLETE|CLEAR_CACHE)" groupId="0" State: Open/Ok/None - text: "" dataSize="60">
    <key flags="0x03 (HAS_SERVICE_ID|HAS_NAME)" serviceId="1" name="BOOK"/>
    <dataBody>
        <map flags="0x02 (HAS_SUMMARY_DATA)" countHint="0" keyPrimitiveType="ASCII_STRING" containerType="FIELD_LIST" >
            <summaryData>
                <fieldList flags="0x08 (HAS_STANDARD_DATA)">
                    <fieldEntry fieldId="15" data="0348"/>
                </fieldList>
            </summaryData>
            <mapEntry flags="0x00" action="ADD" key="17" >
                <fieldList flags="0x08 (HAS_STANDARD_DATA)">
                    <fieldEntry fieldId="22" data="0C12 78"/>
                </fieldList>
            </mapEntry>
            <mapEntry flags="0x00" action="DELETE" key="18" >
            </mapEntry>
        </map>
    </dataBody>
</REFRESH>"#;

fn imported(folder: &Path, text: &str) -> anyhow::Result<Imported> {
    let path = folder.join("EmaTrace_1.xml");
    std::fs::write(&path, text)?;
    let form = InputForm::of(&path)?;
    assert_eq!(form, InputForm::Trace);
    let assumed = Assumed { service: "UNUSED".to_owned(), domain: 6 };
    import(&folder.join("made"), &[(&path, form)], &Dictionary::builtin(), &assumed)
}

/// Kind, item and message of all records of items, with the second of the clock.
fn records(folder: &Path) -> Vec<(Kind, String, Vec<u8>, u64)> {
    let recording = Recording::open(Folder::to_read(&folder.join("made"))).expect("a recording");
    let mut cursor = recording.from_time(0);
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("readable") {
        let second = entry.record.clocks.wall / 1_000_000_000 % 60;
        match entry.item {
            Some(item) if !matches!(entry.record.kind, Kind::Directory | Kind::Dictionary) => {
                let name = format!("{}/{}", item.service, item.name);
                found.push((entry.record.kind, name, entry.record.body.to_vec(), second));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn messages_of_a_trace_are_those_that_came() {
    let folder = tempfile::tempdir().unwrap();
    let text = [
        traced(true, 1, DIRECTORY),
        traced(false, 2, REQUEST),
        traced(true, 3, IMAGE),
        traced(true, 4, UPDATE),
        traced(true, 5, BOOK),
        traced(true, 6, CLOSED),
    ]
    .concat();
    let done = imported(folder.path(), &text).expect("an import");
    let records = records(folder.path());
    let seen: Vec<(Kind, &str, u64)> = records.iter().map(|r| (r.0, r.1.as_str(), r.3)).collect();
    assert_eq!(
        seen,
        [
            (Kind::Refresh, "FEED/A&B.N", 3),
            (Kind::Update, "FEED/A&B.N", 4),
            (Kind::Refresh, "FEED/BOOK", 5),
            (Kind::Status, "FEED/A&B.N", 6),
        ]
    );
    let Msg::Refresh(image) = Msg::decode(&records[0].2).unwrap() else { panic!("an image") };
    assert!(image.flags.contains(RefreshFlags::REFRESH_COMPLETE) && image.flags.contains(RefreshFlags::SOLICITED));
    assert_eq!((image.state.text, image.group_id), (&b"All is well"[..], &[0, 0][..]));
    let fields: Vec<(i16, Vec<u8>)> = FieldList::decode(image.body, &SetScope::NONE)
        .unwrap()
        .entries()
        .map(|entry| entry.map(|entry| (entry.fid, entry.data.to_vec())).unwrap())
        .collect();
    assert_eq!(fields, [(22, vec![0x0C, 0x12, 0x78]), (11, vec![])]);
    let Msg::Update(update) = Msg::decode(&records[1].2).unwrap() else { panic!("an update") };
    assert_eq!((update.update_type.0, update.seq_num), (1, Some(7)));
    let Msg::Refresh(book) = Msg::decode(&records[2].2).unwrap() else { panic!("a book") };
    let map = Map::decode(book.body, &SetScope::NONE).unwrap();
    assert!(map.summary().is_some());
    let keys: Vec<Primitive<'_>> =
        map.entries().map(|entry| entry.unwrap().key_value(rwf::DataType::ASCII_STRING).unwrap()).collect();
    assert_eq!(keys, [Primitive::Ascii(b"17"), Primitive::Ascii(b"18")]);
    let Msg::Status(closed) = Msg::decode(&records[3].2).unwrap() else { panic!("a status") };
    let state = closed.state.unwrap();
    assert_eq!((state.stream, state.code), (StreamState::CLOSED_RECOVER, StateCode::NOT_FOUND));
    assert_eq!(done.left_out, ["1 elements of lists, whose values a trace does not tell whole"]);
    let recording = Recording::open(Folder::to_read(&folder.path().join("made"))).unwrap();
    assert!(record_io::is_up_at(&recording, "FEED", u64::MAX).unwrap());
}

#[test]
fn what_a_trace_does_not_tell_is_counted_and_the_rest_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let decoded = UPDATE.replace("fieldId=\"22\"", "fieldId=\"22\" dataType=\"REAL\"");
    let text = [
        traced(true, 1, DIRECTORY),
        traced(true, 3, IMAGE),
        traced(true, 4, &decoded),
        traced(true, 5, "<POST domainType=\"MARKET_PRICE\" streamId=\"3\" containerType=\"NO_DATA\" flags=\"0x00\" dataSize=\"0\">\n</POST>"),
        traced(true, 6, &UPDATE[..UPDATE.len() - 20]),
    ]
    .concat();
    let done = imported(folder.path(), &text).expect("an import");
    assert_eq!(records(folder.path()).len(), 1);
    let told = done.left_out.join("\n");
    assert!(told.contains("2 messages cannot be made again"), "{told}");
    assert!(told.contains("not told by their bytes"), "{told}");
    assert!(told.contains("1 posts, acks and generic messages"), "{told}");
}
