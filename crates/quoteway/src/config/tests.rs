use super::{Compression, Config};

fn faults(text: &str) -> Vec<String> {
    Config::parse("q.toml", text).expect_err("must be refused").faults
}

#[test]
fn nothing_means_defaults() {
    assert_eq!(Config::parse("q.toml", "").unwrap(), Config::default());
}

#[test]
fn the_printed_document_reads_back_as_itself() {
    let mut config = Config::default();
    config.p2ps.rssl_port = 7;
    config.p2ps.compression_type = Compression::Lz4;
    config.routes.push(super::Route { host_list: vec!["a:1".into(), "b".into()], ..super::Route::default() });
    assert_eq!(Config::parse("q.toml", &config.document()).unwrap(), config);
    assert_eq!(Config::parse("q.toml", &Config::default().document()).unwrap(), Config::default());
}

#[test]
fn every_kind_of_value_is_read() {
    let c = Config::parse(
        "q.toml",
        "[p2ps]\nrssl_port = 1\ntimed_writes = true\ncompression_type = \"zlib\"\nbind_writer_threads = [\"0\", \"1\"]\n[[route]]\nhost_list = [\"h:2\"]\n",
    )
    .unwrap();
    assert_eq!((c.p2ps.rssl_port, c.p2ps.timed_writes, c.p2ps.compression_type), (1, true, Compression::Zlib));
    assert_eq!(c.p2ps.bind_writer_threads, ["0", "1"]);
    assert_eq!(c.routes[0].host_list, ["h:2"]);
}

#[test]
fn each_fault_names_file_line_and_what_to_write() {
    assert_eq!(
        faults("[p2ps]\nrsslport = 1\nmax_mounts = \"many\"\n[p2pss]\n"),
        [
            "q.toml:2: there is no key in [p2ps] called rsslport: the nearest is rssl_port",
            "q.toml:3: p2ps.max_mounts: expected a whole number from 0 to 4294967295, found \"many\"",
            "q.toml:4: there is no section called p2pss: the nearest is p2ps",
        ]
    );
    assert_eq!(
        faults("[p2ps]\nrssl_port = 70000"),
        ["q.toml:2: p2ps.rssl_port: expected a whole number from 0 to 65535, found 70000"]
    );
    assert_eq!(
        faults("[p2ps]\nguaranteed_output_buffers = 9\nmax_output_buffers = 8\n"),
        ["q.toml:2: p2ps.guaranteed_output_buffers must not be over max_output_buffers (its default is 1600)"]
    );
    assert_eq!(faults("[route]\nhost_list=[]"), ["q.toml:1: routes are written [[route]], with two brackets"]);
    assert!(faults("[p2ps\n")[0].starts_with("q.toml:1: "));
}

/// Compares with a file in `testdata`; `QUOTEWAY_BLESS=1` writes it anew.
pub(super) fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/testdata")).join(name);
    if std::env::var_os("QUOTEWAY_BLESS").is_some() {
        std::fs::write(&path, text).expect("testdata");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "QUOTEWAY_BLESS=1 writes {} anew", path.display());
}
