//! Characters of the graphic sets that have public tables.

/// The line-drawing set of the VT100, 0x5F to 0x7E.
const LINES: [char; 32] = [
    ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤',
    '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

pub(super) fn of(code: u8, set: u8) -> char {
    match (set, code) {
        (b'0', 0x5F..=0x7E) => LINES[usize::from(code - 0x5F)],
        (b'A', b'#') => '£',
        _ => char::from(code),
    }
}
