//! The output of `dump`: messages in the form that was asked for, and notes about what is around them.

use super::Form;
use rssl::Sink;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut, Settings};
use rwf_text as text;
use std::fmt::Write as _;

/// Where messages go.
pub(super) struct Sheet<'d> {
    form: Form,
    with_bytes: bool,
    dictionary: &'d Dictionary,
    converter: Converter<'d>,
    left_out: LeftOut,
    /// Said around each message as JSON: when it was sent, and by whom to whom.
    envelope: Option<Envelope>,
    /// Goes before the next thing that is written.
    heading: Option<String>,
    text: String,
    raw: Vec<u8>,
    /// Contents that could not be written in this form; for standard error.
    problems: Vec<String>,
    messages: usize,
}

/// A capture's knowledge of a message.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// Seconds since the first packet.
    pub(super) at: f64,
    pub(super) from: String,
    pub(super) to: String,
}

impl<'d> Sheet<'d> {
    pub(super) fn new(form: Form, with_bytes: bool, dictionary: &'d Dictionary, settings: Settings) -> Self {
        let converter = Converter::new(dictionary).with_settings(settings);
        Self {
            form,
            with_bytes,
            dictionary,
            converter,
            left_out: LeftOut::default(),
            envelope: None,
            heading: None,
            text: String::new(),
            raw: Vec::new(),
            problems: Vec::new(),
            messages: 0,
        }
    }

    /// Facts of the messages that follow.
    pub(super) fn set_envelope(&mut self, envelope: Envelope) {
        self.envelope = Some(envelope);
    }

    /// A line to be written before the next note.
    pub(super) fn set_heading(&mut self, heading: String) {
        self.heading = Some(heading);
    }

    /// Messages written so far, or that could not be.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// The text to read JSON by.
    pub(super) fn converter(&self) -> Converter<'d> {
        self.converter
    }

    /// A line for people; the other forms hold nothing but messages.
    pub(super) fn note(&mut self, line: &str) {
        if self.form == Form::Text {
            if let Some(heading) = self.heading.take() {
                self.text.push_str(&heading);
                self.text.push('\n');
            }
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Bytes in which there is no message.
    pub(super) fn unreadable(&mut self, bytes: &[u8], what: &str) {
        if self.form == Form::Text {
            let _ = write!(self.text, "{}", text::hex_dump(bytes));
        } else {
            self.problems.push(format!("{} bytes: {what}", bytes.len()));
        }
    }

    /// Losses of what was to be shown; for standard error, and the exit status.
    pub(super) fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    /// A message.
    pub(super) fn message(&mut self, msg: &[u8]) {
        self.messages += 1;
        match self.form {
            Form::Text => {
                let _ = write!(self.text, "{}", text::message(msg, Some(self.dictionary)));
                if self.with_bytes {
                    let _ = write!(self.text, "{}", text::hex_dump(msg));
                }
            }
            Form::Json => self.json(msg),
            Form::Hex => {
                for byte in msg {
                    let _ = write!(self.text, "{byte:02x}");
                }
                self.text.push('\n');
            }
            Form::Raw => self.raw.extend_from_slice(msg),
        }
    }

    fn json(&mut self, msg: &[u8]) {
        let start = self.text.len();
        if let Some(Envelope { at, from, to }) = &self.envelope {
            let _ = write!(self.text, "{{\"at\":{at:.6},\"from\":\"{from}\",\"to\":\"{to}\",\"message\":");
        }
        match self.converter.counting(&self.left_out).message(msg, &mut self.text) {
            Ok(()) => self.text.push_str(if self.envelope.is_some() { "}\n" } else { "\n" }),
            Err(e) => {
                self.text.truncate(start);
                self.problems.push(format!("a message of {} bytes has no JSON: {e}", msg.len()));
            }
        }
    }

    /// Messages that were written, and those that could not be.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<String>) {
        let left_out = self.left_out.fields();
        if left_out > 0 {
            eprintln!(
                "note: {left_out} fields are left out, since the dictionary does not have them (--dictionary FOLDER names another)"
            );
        }
        let bytes = if self.form == Form::Raw { self.raw } else { self.text.into_bytes() };
        (bytes, self.problems)
    }
}

impl Sink for Sheet<'_> {
    fn message(&mut self, msg: &[u8]) {
        Sheet::message(self, msg);
    }
}
