//! Files of exchanges (DBN, ITCH, captures of IEX, recorded connections): what `quoteway feed` would serve, as fast as it is read.

use super::sink::Sink;
use anyhow::{Context as _, anyhow};
use feed::replay::ReplaySpeed;
use feed::replay::venue::{VenueConfig, VenueFile, VenueReplay, date_in_name};
use feed::{Event, InstrumentId, MarketSource, Model, Payload};
use record::{Clocks, Item, Kind, MESSAGE_MAX};
use record_columns::Assumed;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State};
use std::collections::HashMap;
use std::path::Path;

/// Models of an instrument that a file may have.
const MODELS: [Model; 3] = [Model::Price, Model::ByOrder, Model::ByPrice];
/// The service's id in keys: a replay has its own.
const SERVICE_ID: u16 = 1;
/// Days since 1970 of a file that says no day, which `quoteway feed` asks for.
const NO_DATE: &str = "neither the file nor its name says the day: give it a name such as S123019 or 20191230";

/// Whether a file is one of these.
///
/// # Errors
/// It cannot be read.
pub(super) fn is_one(path: &Path) -> std::io::Result<bool> {
    Ok(VenueFile::of(path, false)?.is_some())
}

/// Reads a file to its end.
///
/// # Errors
/// A text for the user: it cannot be read, or the recording cannot be written.
pub(super) fn import(path: &Path, assumed: &Assumed, sink: &mut Sink<'_>) -> anyhow::Result<Vec<String>> {
    let date = date_in_name(path);
    if VenueFile::of(path, false)? == Some(VenueFile::NasdaqDay) && date.is_none() {
        return Err(anyhow!(NO_DATE));
    }
    let config = VenueConfig {
        pace: ReplaySpeed::Unpaced,
        from: None,
        date: date.unwrap_or(0),
        suffix: None,
        beside: None,
        schema: None,
        symbology: None,
        repeat: false,
        pause: 0,
    };
    let replay = VenueReplay::open(path, config, &mut |line| eprintln!("{line}"))?;
    let replay = replay.ok_or_else(|| anyhow!("it is no file of an exchange that is read here"))?;
    Importer { replay, service: &assumed.service, names: Vec::new(), sequences: HashMap::new(), buffer: Vec::new() }
        .run(sink)
}

/// A file, and what of it was begun to be recorded.
struct Importer<'s> {
    replay: VenueReplay,
    service: &'s str,
    /// By instrument.
    names: Vec<Option<String>>,
    sequences: HashMap<(InstrumentId, Model), u32>,
    /// What an event's message is put together in.
    buffer: Vec<u8>,
}

/// An event that was told, to be recorded when the source is not borrowed any more.
struct Happened {
    instrument: InstrumentId,
    model: Model,
    payload: Payload,
    body: Vec<u8>,
}

impl Happened {
    fn of(event: &Event<'_>) -> Self {
        let Event { instrument, model, payload, body } = *event;
        Self { instrument, model, payload, body: body.to_vec() }
    }
}

impl Importer<'_> {
    fn run(mut self, sink: &mut Sink<'_>) -> anyhow::Result<Vec<String>> {
        self.buffer = vec![0; MESSAGE_MAX];
        let mut known = 0;
        loop {
            // Some files tell of instruments all along.
            let symbols = self.replay.names().count();
            if symbols > known {
                self.watch_new(known, sink)?;
                known = symbols;
            }
            if self.replay.due().is_none() {
                break;
            }
            let mut told = Vec::new();
            self.replay.advance(0, 1, &mut |event| told.push(Happened::of(&event)));
            let wall = self.replay.time();
            for event in &told {
                self.event(event, wall, sink)?;
            }
            sink.progress(wall, 0.0)?;
        }
        let left_out = [self.replay.unread(), self.replay.remarks()].into_iter().flatten();
        // That it was played to its end is what was wanted; what was wrong with it is said behind that.
        Ok(left_out.filter(|line| !line.ends_with(" messages")).collect())
    }

    /// Begins with the images of instruments that were told of since.
    fn watch_new(&mut self, known: usize, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let names: Vec<String> = self.replay.names().skip(known).map(str::to_owned).collect();
        let wall = self.replay.time();
        for name in names {
            let Some(id) = self.replay.find(&name) else { continue };
            if self.names.len() <= id.0 as usize {
                self.names.resize(id.0 as usize + 1, None);
            }
            self.names[id.0 as usize] = Some(name);
            for model in MODELS.into_iter().filter(|model| self.replay.offers(id, *model)).collect::<Vec<_>>() {
                self.replay.watch(id, model, true);
                self.image(id, model, wall, sink)?;
            }
        }
        Ok(())
    }

    fn image(&mut self, id: InstrumentId, model: Model, wall: u64, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        for part in 0_u16.. {
            let mut body = Vec::new();
            let more = self.replay.image(id, model, usize::from(part), &mut body);
            let data = self.replay.data_state(id, model);
            let told = Happened { instrument: id, model, payload: Payload::ImagePart { part, more, data }, body };
            self.event(&told, wall, sink)?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn event(&mut self, told: &Happened, wall: u64, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let Some(Some(name)) = self.names.get(told.instrument.0 as usize) else { return Ok(()) };
        let sequence = self.sequences.entry((told.instrument, told.model)).or_default();
        *sequence = sequence.wrapping_add(1);
        let mut w = Writer::new(&mut self.buffer);
        let kind = encode(told, name, *sequence, &mut w).with_context(|| format!("a message of {name}"))?;
        let item = Item { service: self.service.into(), domain: domain_of(told.model).0, name: name.as_str().into() };
        let clocks = Clocks { wall, mono: wall, source: Some(wall) };
        sink.message(kind, &item, clocks, w.written())
    }
}

fn domain_of(model: Model) -> Domain {
    match model {
        Model::Price => Domain::MARKET_PRICE,
        Model::ByOrder => Domain::MARKET_BY_ORDER,
        Model::ByPrice => Domain::MARKET_BY_PRICE,
        Model::SymbolList => Domain::SYMBOL_LIST,
    }
}

/// Writes the message that a provider would send.
fn encode(told: &Happened, name: &str, sequence: u32, w: &mut Writer<'_>) -> Result<Kind, EncodeError> {
    let domain = domain_of(told.model);
    let container = if told.model == Model::Price { DataType::FIELD_LIST } else { DataType::MAP };
    let update = |kind: u8| UpdateMsg {
        container,
        update_type: UpdateType(kind),
        seq_num: Some(sequence),
        body: &told.body,
        ..UpdateMsg::new(domain, 0)
    };
    let image = |flags: RefreshFlags, data: DataState, part_num: Option<u16>| RefreshMsg {
        container,
        flags,
        seq_num: Some(sequence),
        state: State { data, ..State::OPEN_OK },
        qos: Some(Qos::REALTIME_TICK),
        key: Some(MsgKey { name_type: Some(1), ..MsgKey::item(SERVICE_ID, name.as_bytes()) }),
        part_num,
        body: &told.body,
        ..RefreshMsg::new(domain, 0)
    };
    match told.payload {
        Payload::Update(kind) => update(kind as u8).encode(w).map(|()| Kind::Update),
        Payload::Typed(kind) => update(kind).encode(w).map(|()| Kind::Update),
        Payload::Status => match Msg::decode(&told.body) {
            Ok(Msg::Status(status)) => {
                StatusMsg { domain, stream_id: 0, key: None, group_id: None, ..status }.encode(w).map(|()| Kind::Status)
            }
            _ => Err(EncodeError::Unrepresentable("a state that is none")),
        },
        Payload::NewImage => {
            let flags = RefreshFlags::REFRESH_COMPLETE.with(RefreshFlags::CLEAR_CACHE);
            image(flags, DataState::OK, None).encode(w).map(|()| Kind::Refresh)
        }
        Payload::ImagePart { part, more, data } => {
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !more);
            let part_num = Some(part).filter(|_| told.model != Model::Price);
            image(flags, data, part_num).encode(w).map(|()| Kind::Refresh)
        }
    }
}
