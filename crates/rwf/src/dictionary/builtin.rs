use super::Dictionary;

const FIELDS: &str = include_str!("../../dictionary/fields.def");
const ENUMS: &str = include_str!("../../dictionary/enums.def");

impl Dictionary {
    /// The compact dictionary that comes with this crate: some five hundred fields of market price, order book, symbol
    /// list, chain, page and news records, with the enumerations that people read most. What a feed adds of its own
    /// comes in by [`Dictionary::merge`].
    pub fn builtin() -> Self {
        let mut dictionary = Self::new();
        dictionary.load_fields("built-in fields", FIELDS.as_bytes()).expect("the built-in fields are well formed");
        dictionary
            .load_enums("built-in enumerations", ENUMS.as_bytes())
            .expect("the built-in enumerations are well formed");
        dictionary
    }
}
