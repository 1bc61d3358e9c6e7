//! Messages that have models of their own beside items: what a consumer says of its servers, what a provider is told of its part, and
//! dictionaries.

use crate::encoding::bytes_of;
use crate::numbers::{DIRECTORY_STREAM, ServiceIds};
use rwf::dictionary::{Dictionary, Verbosity};
use rwf::msg::{GenericMsg, RefreshMsg};
use rwf::rdm::dictionary::{FIELDS, RefreshParts, Request};
use rwf::rdm::directory::{Action, ConsumerStatus, ServiceStatus};
use rwf::rdm::login::{ConnectionStatus, WarmStandby};
use rwf::wire::Writer;

/// Stream of the login.
const LOGIN: i32 = 1;
/// Bytes of a dictionary message of a provider: the whole of a scripted one.
const DICTIONARY_MESSAGE: usize = 60_000;

/// What a consumer says that a server is to it, `active` or `standby`, for all services (`login`) or for one.
///
/// # Errors
/// The service is not known, or the part is neither.
pub fn standby(of: &str, part: &str, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mode = match part {
        "active" => 0,
        "standby" => 1,
        _ => return Err(format!("{part}: active or standby")),
    };
    if of == "login" {
        let warm_standby = Some(WarmStandby { added: true, mode });
        let status = ConnectionStatus { stream_id: LOGIN, warm_standby };
        return bytes_of(|w| status.encode(w));
    }
    let service_id = *services.get(of).ok_or_else(|| format!("the service {of} is not in the directory here"))?;
    let status = ServiceStatus { service_id, action: Action::Add, mirroring: None, warm_standby: Some(mode) };
    let status = ConsumerStatus { stream_id: DIRECTORY_STREAM, services: vec![status] };
    bytes_of(|w| status.encode(w))
}

/// The words of what a provider is told of its part in mirrored sources; none if the message is about something else.
pub fn mirroring_words(msg: &GenericMsg<'_>, services: &ServiceIds) -> Vec<String> {
    let Ok(Some(status)) = ConsumerStatus::decode(msg) else { return Vec::new() };
    let word = |status: &ServiceStatus| {
        let name = services.iter().find(|(_, id)| **id == status.service_id).map_or("", |(name, _)| name);
        let part = match status.mirroring? {
            0 => "ActiveNoStandby",
            1 => "ActiveWithStandby",
            2 => "Standby",
            _ => "unknown",
        };
        Some(format!("mirroring={name}:{part}"))
    };
    status.services.iter().filter_map(word).collect()
}

/// A dictionary of these site fields, `FID:NAME,..`, as a provider answers a request for field definitions.
///
/// # Errors
/// Fields are not written in that way, or are more than one message takes.
pub fn dictionary(stream_id: i32, fields: &str, solicited: bool) -> Result<Vec<u8>, String> {
    let line = |field: &str| {
        let (fid, name) = field.split_once(':').ok_or("fields of a dictionary are FID:NAME")?;
        Ok::<_, String>(format!("{name} \"{name}\" {fid} NULL INTEGER 15 UINT64 8\n"))
    };
    let text = fields.split(',').map(line).collect::<Result<String, String>>()?;
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("the script", text.as_bytes()).map_err(|error| error.to_string())?;
    let request =
        Request { stream_id, streaming: true, service_id: None, name: FIELDS.to_owned(), verbosity: Verbosity::NORMAL };
    let parts = RefreshParts::answer(&dictionary, &request).ok_or("field definitions are known by this name")?;
    let mut parts = if solicited { parts } else { parts.unsolicited() };
    let mut buf = vec![0; DICTIONARY_MESSAGE];
    let mut w = Writer::new(&mut buf);
    parts.write(true, &mut w).map_err(|error| error.to_string())?;
    if parts.is_done() { Ok(w.into_written().to_vec()) } else { Err("more fields than one message takes".to_owned()) }
}

/// A dictionary in which the fields of images have other names and types than their data.
///
/// # Errors
/// None but a line of its own that is not well formed.
pub fn wrong_dictionary() -> Result<Dictionary, String> {
    let line = |fid: i16| format!("WRONG_{fid} \"WRONG {fid}\" {fid} NULL ALPHANUMERIC 17 RMTES_STRING 17\n");
    let text: String = [6, 22, 25, 30, 31].into_iter().map(line).collect();
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("the scenario", text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(dictionary)
}

/// What a part of the field definitions defines: `defines=FID` for each field of a site, whose number is negative.
pub fn dictionary_words(msg: &RefreshMsg<'_>) -> Vec<String> {
    let mut dictionary = Dictionary::new();
    if dictionary.apply_fields("a message", msg.body).is_err() {
        return Vec::new();
    }
    let fids = dictionary.fields().map(rwf::dictionary::FieldDef::fid);
    fids.filter(|fid| *fid < 0).map(|fid| format!("defines={fid}")).collect()
}
