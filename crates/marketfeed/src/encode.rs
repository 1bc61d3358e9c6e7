//! Writing Marketfeed messages.

use rwf::EncodeError;
use rwf::wire::Writer;

use crate::words;
use crate::{FS, GS, RS, Record, RecordType, US};

/// Writes a Marketfeed message: the header, then fields, then its end.
#[derive(Debug)]
#[must_use = "a message that was begun has to be finished"]
pub struct RecordEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    /// A status without a text: what follows would be read as the text, so an empty one goes before the first field.
    owes_text: bool,
}

impl<'w, 'b> RecordEncoder<'w, 'b> {
    /// Begins a message with the header of `record`; its fields are not looked at. A missing tag is written empty, as the
    /// encoders of the old world do.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for a separator within a part.
    pub fn begin(w: &'w mut Writer<'b>, record: &Record<'_>) -> Result<Self, EncodeError> {
        let owes_text = record.record_type == RecordType::STATUS && record.text.is_none();
        let mut encoder = Self { w, owes_text };
        encoder.numbered(FS, record.record_type.0)?;
        encoder.part(US, record.tag.unwrap_or_default())?;
        encoder.part(GS, record.item)?;
        match record.record_type {
            image if image.is_image() => {
                if let Some(status) = record.status {
                    encoder.part(RS, status)?;
                }
                encoder.numbered(US, record.field_list.unwrap_or(0))?;
                encoder.numbered(US, record.rtl.unwrap_or(0))?;
            }
            RecordType::STATUS => {
                if let Some(rtl) = record.rtl {
                    encoder.numbered(US, rtl)?;
                }
                encoder.part(GS, record.code.unwrap_or(b"0"))?;
                if let Some(text) = record.text {
                    encoder.part(RS, text)?;
                }
            }
            RecordType::AGGREGATE => {
                if let Some(delta) = record.delta_rtl {
                    encoder.numbered(US, delta)?;
                }
                encoder.numbered(US, record.rtl.unwrap_or(0))?;
            }
            RecordType::DROP => {}
            _ => {
                if let Some(rtl) = record.rtl {
                    encoder.numbered(US, rtl)?;
                }
            }
        }
        Ok(encoder)
    }

    /// A field.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for a separator in the value. The message is as before
    /// then.
    pub fn field(&mut self, fid: i16, value: &[u8]) -> Result<(), EncodeError> {
        let start = self.w.position();
        let text = if self.owes_text { self.w.u8(RS) } else { Ok(()) };
        let written = text.and_then(|()| self.head(fid)).and_then(|()| crate::value::write_text(self.w, value));
        if !matches!(written, Ok(true)) {
            self.w.rollback(start);
        }
        if written? {
            self.owes_text = false;
            return Ok(());
        }
        Err(EncodeError::Unrepresentable("a separator (0x1C to 0x1F) in a Marketfeed value"))
    }

    /// A field whose value is the first `len` bytes of a word. The message is as before if it fails.
    #[inline]
    pub(crate) fn short_field(&mut self, fid: i16, text: u64, len: usize) -> Result<(), EncodeError> {
        debug_assert!(!self.owes_text, "a status has no fields that are converted");
        let (head, head_len) = crate::value::field_head(fid);
        self.w.short_pair((head.to_le_bytes(), head_len), (text.to_le_bytes(), len))
    }

    /// A field whose value `write` writes, without separators.
    pub(crate) fn field_with(
        &mut self,
        fid: i16,
        write: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        debug_assert!(!self.owes_text, "a status has no fields that are converted");
        self.head(fid)?;
        write(self.w)
    }

    #[inline]
    fn head(&mut self, fid: i16) -> Result<(), EncodeError> {
        let (head, len) = crate::value::field_head(fid);
        self.w.short(head.to_le_bytes(), len)
    }

    /// An encoder that goes on where one has been.
    #[cfg(test)]
    pub(crate) const fn resume(w: &'w mut Writer<'b>) -> Self {
        Self { w, owes_text: false }
    }

    /// The message as far as it is written.
    #[cfg(test)]
    pub(crate) fn written(&self) -> &[u8] {
        self.w.written()
    }

    /// Where the next byte goes.
    pub(crate) const fn position(&self) -> usize {
        self.w.position()
    }

    /// Takes back what was written after a position.
    pub(crate) fn rollback(&mut self, position: usize) {
        self.w.rollback(position);
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`].
    pub fn finish(self) -> Result<(), EncodeError> {
        self.w.u8(FS)
    }

    fn part(&mut self, mark: u8, text: &[u8]) -> Result<(), EncodeError> {
        self.w.u8(mark)?;
        if crate::value::write_text(self.w, text)? {
            return Ok(());
        }
        Err(EncodeError::Unrepresentable("a separator (0x1C to 0x1F) in a Marketfeed header"))
    }

    #[inline]
    fn numbered(&mut self, mark: u8, number: u16) -> Result<(), EncodeError> {
        let (text, len) = words::text_of(number.into(), 1);
        self.w.short((text << 8 | u64::from(mark)).to_le_bytes(), len + 1)
    }
}
