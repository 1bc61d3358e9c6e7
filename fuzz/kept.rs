//! What coverage-guided fuzzing has learnt: inputs that `scripts/fuzz.sh keep TARGET` has written, which the tests run. A crate's tests
//! include this file.

/// Runs a target on each of its kept inputs: the lines of `tests/corpus/TARGET.hex` in the folder of a crate.
///
/// # Panics
/// The file is not there or holds no inputs, or the target panics.
pub(crate) fn run(folder: &str, target: &str, each: fn(&[u8])) {
    let path = format!("{folder}/tests/corpus/{target}.hex");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut inputs = 0;
    for line in text.lines() {
        let digits = line.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
            u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{path}: {pair:?} is no byte"))
        });
        each(&digits.collect::<Vec<u8>>());
        inputs += 1;
    }
    assert!(inputs > 5, "{path} holds {inputs} inputs");
}
