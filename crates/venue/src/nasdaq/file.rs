//! Day files: messages behind their lengths in two bytes, without session and numbers. A length of 0 is the end of a session.

/// Reads a day file that comes in pieces of any length.
#[derive(Debug, Default)]
pub struct DayFile {
    /// The beginning of a message that has not come whole, with its length.
    partial: Vec<u8>,
    messages: u64,
    ends: u64,
}

impl DayFile {
    /// A file of which nothing has been read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece and gives each message that is whole.
    #[inline]
    pub fn read(&mut self, mut piece: &[u8], mut each: impl FnMut(&[u8])) {
        while !self.partial.is_empty() && !piece.is_empty() {
            let wanted = whole(&self.partial).unwrap_or(2);
            let (more, rest) = piece.split_at((wanted - self.partial.len()).min(piece.len()));
            self.partial.extend_from_slice(more);
            piece = rest;
            if whole(&self.partial) == Some(self.partial.len()) {
                let message = std::mem::take(&mut self.partial);
                self.give(&message[2..], &mut each);
                self.partial = message;
                self.partial.clear();
            }
        }
        while let Some((length, behind)) = piece.split_first_chunk::<2>() {
            let Some((message, rest)) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
                break;
            };
            self.give(message, &mut each);
            piece = rest;
        }
        self.partial.extend_from_slice(piece);
    }

    /// Takes the next piece and gives messages that are whole, as many at a time as `each` is to look at together; their order is the file's.
    #[inline]
    pub fn read_all(&mut self, piece: &[u8], mut each: impl FnMut(&[&[u8]])) {
        let (mut piece, mut together) = (piece, [&[][..]; TOGETHER]);
        // What is left of the piece before starts with the message that is not whole.
        if !self.partial.is_empty() {
            let wanted = |partial: &[u8], piece: &[u8]| {
                let length =
                    [partial.first().or(piece.first()), partial.get(1).or(piece.get(1 - partial.len().min(1)))];
                let [Some(high), Some(low)] = length else { return piece.len() };
                (2 + usize::from(u16::from_be_bytes([*high, *low]))).saturating_sub(partial.len()).min(piece.len())
            };
            let (more, rest) = piece.split_at(wanted(&self.partial, piece));
            self.read(more, |message| each(&[message]));
            piece = rest;
        }
        let mut count = 0;
        while let Some((length, behind)) = piece.split_first_chunk::<2>() {
            let Some((message, rest)) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
                break;
            };
            piece = rest;
            if message.is_empty() {
                self.ends += 1;
                continue;
            }
            self.messages += 1;
            together[count] = message;
            count += 1;
            if count == TOGETHER {
                each(&together);
                count = 0;
            }
        }
        each(&together[..count]);
        self.partial.extend_from_slice(piece);
    }

    #[inline]
    fn give(&mut self, message: &[u8], each: &mut impl FnMut(&[u8])) {
        if message.is_empty() {
            self.ends += 1;
        } else {
            self.messages += 1;
            each(message);
        }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Ends of a session so far.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// Bytes of a message that has not come whole: at the end of a file, how much of a torn message there is.
    pub fn torn(&self) -> usize {
        self.partial.len()
    }
}

/// Messages that are given at a time.
const TOGETHER: usize = 512;

fn whole(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<2>().map(|length| 2 + usize::from(u16::from_be_bytes(*length)))
}
