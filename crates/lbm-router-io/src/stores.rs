//! Words of sources on their stores, on their way through an endpoint: the topic's index is another one in each session.

use lbm::wire::Writer;
use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Message};
use lbm_store::wire::code;

/// Whether a control message is the word of the source with this index on its stores.
pub(crate) fn is_word(message: &Message<'_>, index: u32) -> bool {
    let is_of = |header: &Header<'_>| matches!(header, Header::TopicIndex { index: of, .. } if *of == index);
    let says = |header: &Header<'_>| matches!(header, Header::Unknown { code: code::SOURCE_INFO, .. });
    message.headers().flatten().any(|header| is_of(&header)) && message.headers().flatten().any(|header| says(&header))
}

/// The bytes of a word, as peers get them. `None`: more than a message can have.
pub(crate) fn bytes(word: &Message<'_>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; lbmc::DATA_HEADER + word.tail.len()];
    let mut w = Writer::new(&mut bytes);
    word.encode(&mut w).ok()?;
    Some(w.written().to_vec())
}

/// A word for the receivers of a proxy source that has this index. `None`: it cannot be read.
pub(crate) fn of_proxy(word: &[u8], index: u32) -> Option<Vec<u8>> {
    let (message, _) = Message::decode(word).ok()?;
    let mine = |header| match header {
        Header::TopicIndex { flags, .. } => Header::TopicIndex { flags, index },
        other => other,
    };
    let headers: Vec<Header<'_>> = message.headers().map(|header| header.map(mine)).collect::<Result<_, _>>().ok()?;
    let mut bytes = vec![0; word.len()];
    let mut w = Writer::new(&mut bytes);
    lbmc::encode_control(&mut w, &headers).ok()?;
    Some(w.written().to_vec())
}

#[cfg(test)]
mod tests {
    use lbm_store::wire::{Ume, control};

    use super::*;

    #[test]
    fn a_word_has_the_index_of_its_proxy_and_is_else_as_it_was() {
        let word = |index| {
            let store = Ume::Store { group: 0, port: 14_567, index: 0, address: [10, 0, 0, 1].into(), reg_id: 9 };
            let info = Ume::Info { flags: 2, epoch: 3, low: 4, high: 5 };
            let mut word = Vec::new();
            control(&mut word, &[info, Ume::TopicIndex(index), Ume::Epochs { is_new: false, pairs: &[7; 8] }, store]);
            word
        };
        let encoded = word(42);
        let (message, _) = Message::decode(&encoded).expect("ours");
        assert!(is_word(&message, 42) && !is_word(&message, 43));
        assert_eq!(bytes(&message).as_deref(), Some(&encoded[..]));
        assert_eq!(of_proxy(&encoded, 7), Some(word(7)));
        assert_eq!(of_proxy(&encoded[..encoded.len() - 1], 7), None);
    }
}
