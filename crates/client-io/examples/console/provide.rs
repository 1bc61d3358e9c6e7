//! A provider: a service that listens, or one that dials a server.

use crate::read_lines;
use crate::values::{columns, written};
use client::publication::{Event, PublicationConfig, Unpublished, Watcher};
use client_io::Publisher;
use rwf::msg::Domain;
use rwf::wire::encode_growing;
use rwf::{DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

enum Input {
    Line(String),
    Event(Event),
}

pub(crate) fn listen(port: u16, service: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut config = config(service);
    config.takes_posts = options.contains(&"takes-posts");
    if options.contains(&"waits") {
        config.unpublished = Unpublished::Wait;
    }
    let at = ([127, 0, 0, 1], port).into();
    let file = |name: &str| options.iter().find_map(|option| option.strip_prefix(name)).map(Path::new);
    let publisher = match (file("certificate="), file("key=")) {
        (Some(certificate), Some(key)) => Publisher::listen_encrypted(config, at, certificate, key)?,
        _ => Publisher::listen(config, at)?,
    };
    if let Some(address) = publisher.address() {
        println!("listening\t{}", address.port());
    }
    run(publisher);
    Ok(())
}

pub(crate) fn dial(servers: &str, service: &str, user: &str) -> Result<(), Box<dyn Error>> {
    run(Publisher::dial(config(service), servers, user)?);
    Ok(())
}

fn config(service: &str) -> PublicationConfig {
    let domains = vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST];
    PublicationConfig { domains, ..PublicationConfig::new(service) }
}

fn run(publisher: Publisher) {
    let publisher = Arc::new(publisher);
    let (give, take) = read_lines(Input::Line, std::thread::current());
    let of_thread = Arc::clone(&publisher);
    std::thread::spawn(move || {
        while of_thread.status().is_over.is_none() {
            if let Some(event) = of_thread.next_event(Duration::from_mins(1))
                && give.send(Some(Input::Event(event))).is_err()
            {
                return;
            }
        }
    });
    let mut asked = None;
    while let Ok(Some(input)) = take.recv() {
        match input {
            Input::Event(event) => print(event, &publisher, &mut asked),
            Input::Line(line) => {
                if let Err(error) = obey(&line, &publisher, asked) {
                    println!("error\t{error}");
                }
            }
        }
    }
}

fn print(event: Event, publisher: &Publisher, asked: &mut Option<Watcher>) {
    let dictionary = publisher.dictionary();
    match event {
        Event::Wanted(item) => println!("wanted\t{}", item.name),
        Event::Unwanted(item) => println!("unwanted\t{}", item.name),
        Event::Posted { item, container, body } => {
            println!("posted\t{}{}", item.name, columns(container, &body, dictionary));
        }
        Event::Generic { item, by, container, body } => {
            *asked = Some(by);
            println!("generic\t{}{}", item.name, columns(container, &body, dictionary));
        }
        Event::Ready => println!("ready"),
        Event::Lost => println!("lost"),
        Event::Refused(why) => println!("refused\t{why}"),
        _ => {}
    }
}

fn obey(line: &str, publisher: &Publisher, asked: Option<Watcher>) -> Result<(), Box<dyn Error>> {
    let dictionary = publisher.dictionary();
    match line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().as_slice() {
        ["publish", name, fields @ ..] => {
            let body = written(fields, dictionary)?;
            publisher.publish_body(Domain::MARKET_PRICE, name, DataType::FIELD_LIST, &body)?;
        }
        ["image", name, fields @ ..] => {
            let body = written(fields, dictionary)?;
            publisher.publish_image(Domain::MARKET_PRICE, name, DataType::FIELD_LIST, &body)?;
        }
        ["list", name, items] => {
            publisher.publish_image(Domain::SYMBOL_LIST, name, DataType::MAP, &list(items)?)?;
        }
        ["answer", fields @ ..] => {
            let to = asked.ok_or("nobody has sent a generic message")?;
            publisher.send_generic(to, DataType::FIELD_LIST, &written(fields, dictionary)?)?;
        }
        ["end", name, text @ ..] => publisher.end(Domain::MARKET_PRICE, name, &text.join(" "))?,
        _ => return Err("publish, image, list, answer or end".into()),
    }
    Ok(())
}

/// A symbol list of names with commas between them.
fn list(names: &str) -> Result<Vec<u8>, EncodeError> {
    let mut body = Vec::new();
    let end = encode_growing(&mut body, 0, 1_024, 1 << 20, |w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
        for name in names.split(',') {
            map.entry(MapAction::ADD, &Primitive::Ascii(name.as_bytes()), |_| Ok(()))?;
        }
        map.finish()
    })?;
    body.truncate(end);
    Ok(body)
}
