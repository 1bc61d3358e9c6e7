//! The verdict as programs read it, and the recording.

use super::{client, load};
use scenario::verdict::{self, Outcome};
use scenario_io::client::Start;
use scenario_io::stage::{Settings, run};

#[test]
fn a_failure_is_in_text_junit_json_and_the_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { record: Some(folder.path().to_owned()), ..Settings::default() };
    let start =
        [client().to_string_lossy().into_owned(), "--wrong".into(), "closed-recover-as-closed".into(), "IBM.N".into()];
    let failed = run(&load("item-closed-recover"), &Start(start.to_vec()), &settings).expect("a run");
    assert_eq!(failed.outcome, Outcome::Failed);
    let dump = |bytes: &[u8]| rwf_text::message(bytes, None).to_string();
    let text = verdict::text(std::slice::from_ref(&failed), &dump);
    for part in ["FAILED", "reopens", "Guide 2.2.2", "the last", "client ->", "ClosedRecover", "0 passed, 1 failed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let junit = verdict::junit(std::slice::from_ref(&failed), &dump).expect("XML");
    let junit = String::from_utf8(junit).expect("UTF-8");
    let mut reader = quick_xml::Reader::from_str(&junit);
    let mut names = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Start(start) => {
                names.push(String::from_utf8(start.name().as_ref().to_vec()).expect("a name"));
            }
            _ => {}
        }
    }
    assert_eq!(names, ["testsuite", "testcase", "failure"]);
    let json = verdict::json(std::slice::from_ref(&failed), &dump);
    assert_eq!(json["scenarios"][0]["findings"].as_array().map(Vec::len), Some(failed.findings.len()));
    let path = failed.recording.expect("a recording");
    let bytes = std::fs::read(&path).expect("the recording");
    let mut reader = capture::Reader::new(bytes.as_slice()).expect("a capture");
    let mut from_client = 0;
    while let Some(frame) = reader.next_frame().expect("a frame") {
        let ip = capture::ip::of_frame(&frame).expect("an IP packet");
        let segment = ip.tcp().expect("a TCP segment");
        from_client += usize::from(segment.source.port() >= 40_000 && !segment.payload.is_empty());
    }
    assert!(from_client >= 3, "handshake, login and request are in it");
}
