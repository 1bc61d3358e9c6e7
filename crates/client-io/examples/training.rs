//! EMA's training examples for consumers, under their numbers: `training NUMBER HOST:PORT SERVICE ITEM...` prints what comes, and ends when
//! all that the example is about has come. `docs/operating/ema-training.md` has the list.

use client::fields::{self, fields};
use client::members::Kind;
use client::queue::{Message, QueueConfig};
use client::{Arrangement, Event, Interest};
use client_io::{Connection, Notice, Session, SessionConfig, Status, Step, Subscription, Transport};
use omm::consumer::{self, ItemRequest};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Domain, GenericFlags, GenericMsg, MsgClass, PostMsg, Priority};
use rwf::rdm::request::View;
use rwf::{DataType, Primitive};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

/// How long an example waits for what it is about.
const PATIENCE: Duration = Duration::from_secs(20);

struct Example<'a> {
    servers: &'a str,
    service: &'a str,
    items: Vec<String>,
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [number, servers, service, items @ ..] = arguments.as_slice() else {
        return Err("training NUMBER HOST:PORT SERVICE ITEM...".into());
    };
    let example = Example { servers, service, items: items.to_vec() };
    match number.as_str() {
        "100" | "200" => example.watch(|_| {}),
        "101" => example.watch(|request| request.priority = Some(Priority { class: 2, count: 1 })),
        "102" => example.watch(|request| request.streaming = false),
        "120" => example.walk(),
        "130" => example.without_a_thread(),
        "140" | "210" => example.watch(|request| request.domain = Domain::MARKET_BY_ORDER),
        "170" => example.channel(),
        "180" => example.over_websocket(),
        "220" => example.watch(|request| {
            request.domain = Domain::MARKET_BY_PRICE;
            request.private = true;
        }),
        "270" => example.members(Kind::SymbolList),
        "280" => example.count(),
        "300" => example.close_and_open(),
        "301" => example.priority(),
        "320" => example.generic(),
        "330" => example.login(),
        "331" => example.directory(),
        "332" => example.dictionary(),
        "340" => example.post(true),
        "341" => example.post(false),
        "350" => example.pause_all(),
        "360" => example.view(),
        "370" => example.batch(),
        "410" => example.two_sessions(),
        "470" => example.several(Arrangement::StandbyByLogin),
        "500" => example.preferred(),
        "510" => example.several(Arrangement::Routing),
        "chain" => example.members(Kind::Chain),
        other => Err(format!("no example {other}").into()),
    }
}

impl Example<'_> {
    /// Connects, and waits for service and dictionary.
    fn session(&self) -> Result<Session, Box<dyn Error>> {
        self.session_of(SessionConfig::new(self.servers, "training")?)
    }

    fn session_of(&self, config: SessionConfig) -> Result<Session, Box<dyn Error>> {
        let session = Session::connect(config)?;
        let is_ready =
            |status: &Status| status.dictionary.is_some() && status.services.iter().any(|up| up == self.service);
        let status = session.wait(PATIENCE, is_ready);
        if is_ready(&status) { Ok(session) } else { Err(format!("{} is not up: {status:?}", self.service).into()) }
    }

    fn open(&self, session: &Session, change: impl FnOnce(&mut ItemRequest)) -> Result<Subscription, Box<dyn Error>> {
        let mut request = ItemRequest::new(self.service, "");
        change(&mut request);
        Ok(session.subscribe_to(Interest { request, names: self.items.clone() }, QueueConfig::default())?)
    }

    /// Items as they are asked for: images, then an update of each that streams.
    fn watch(&self, change: impl FnOnce(&mut ItemRequest)) -> Outcome {
        let session = self.session()?;
        let mut is_streaming = true;
        let mut items = self.open(&session, |request| {
            change(request);
            is_streaming = request.streaming;
        })?;
        print_until(&session, &mut items, |seen| {
            if is_streaming { seen.images > 0 && seen.updates > 0 } else { seen.ends == self.items.len() }
        })
    }

    /// Each field of an image: number, name, type, value.
    fn walk(&self) -> Outcome {
        let session = self.session()?;
        let dictionary = dictionary_of(&session);
        let mut items = self.open(&session, |_| {})?;
        while let Some(message) = items.next(Some(PATIENCE))? {
            if message.class == MsgClass::REFRESH {
                for field in fields(rwf::peek::body(message.msg).unwrap_or_default(), &dictionary) {
                    let field = field?;
                    let kind = field.definition().data_type();
                    println!("field\t{}\t{}\t{kind}\t{}", field.fid(), field.name(), field.value()?);
                }
                return Ok(());
            }
        }
        Err("no image".into())
    }

    /// No thread but this one, and no queue.
    fn without_a_thread(&self) -> Outcome {
        let mut connection = Connection::new(SessionConfig::new(self.servers, "training")?)?;
        let interest = Interest { request: ItemRequest::new(self.service, ""), names: self.items.clone() };
        connection.client.subscribe(net::clock::now(), &interest, &mut |_| {})?;
        let (mut updates, end) = (0, Instant::now() + PATIENCE);
        while updates == 0 {
            if Instant::now() > end {
                return Err("no update".into());
            }
            let deadline = net::clock::now() + 100_000_000;
            connection.turn(Some(deadline), &mut |_, delivery| {
                println!("{:?}\t{}", delivery.class, self.items[delivery.item as usize]);
                updates += usize::from(delivery.class == MsgClass::UPDATE);
            })?;
        }
        Ok(())
    }

    fn channel(&self) -> Outcome {
        let status = self.session()?.status();
        println!("server\t{}\nlost\t{}", status.server.unwrap_or_default(), status.connections_lost);
        Ok(())
    }

    fn over_websocket(&self) -> Outcome {
        let mut config = SessionConfig::new(self.servers, "training")?;
        config.transport = Transport::WebSocket;
        let session = self.session_of(config)?;
        let mut items = self.open(&session, |_| {})?;
        print_until(&session, &mut items, |seen| seen.images > 0)
    }

    /// Members of a symbol list or a chain, opened as they come.
    fn members(&self, kind: Kind) -> Outcome {
        let session = self.session()?;
        let name = self.items.first().ok_or("name a symbol list or a chain")?;
        let mut followed = session.follow(kind, name, ItemRequest::new(self.service, ""), QueueConfig::default())?;
        let mut images = 0;
        while images == 0 || !followed.is_complete() {
            match followed.next(Some(PATIENCE))?.ok_or("nothing more comes")? {
                Step::Joined { item } => println!("joined\t{}", followed.name(item)),
                Step::Left { item } => println!("left\t{}", followed.name(item)),
                Step::Message(message) => {
                    images += usize::from(message.class == MsgClass::REFRESH);
                    println!("{:?}\tplace {}", message.class, message.item);
                }
                Step::Broken { .. } => return Err("the list has ended".into()),
            }
        }
        Ok(())
    }

    /// Messages of a second, taken as they wait.
    fn count(&self) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |_| {})?;
        let (mut count, end) = (0, Instant::now() + Duration::from_secs(1));
        while Instant::now() < end {
            count += items.next_batch(Some(Duration::from_millis(100)))?.count();
        }
        println!("messages\t{count}");
        Ok(())
    }

    fn close_and_open(&self) -> Outcome {
        let session = self.session()?;
        for _ in 0..2 {
            let mut items = self.open(&session, |_| {})?;
            print_until(&session, &mut items, |seen| seen.images > 0)?;
            println!("closed");
        }
        Ok(())
    }

    /// Another priority, on the stream that is open.
    fn priority(&self) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |request| request.priority = Some(Priority { class: 1, count: 1 }))?;
        print_until(&session, &mut items, |seen| seen.images > 0)?;
        let changed = items.reissue(0, |request| request.priority = Some(Priority { class: 5, count: 1 }))?;
        println!("changed\t{changed}");
        print_until(&session, &mut items, |seen| seen.updates > 0)
    }

    /// Everything rests, and goes on with images.
    fn pause_all(&self) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |_| {})?;
        print_until(&session, &mut items, |seen| seen.images > 0)?;
        session.pause(true);
        println!("paused");
        while items.next(Some(Duration::from_secs(1)))?.is_some() {}
        session.pause(false);
        print_until(&session, &mut items, |seen| seen.images + seen.updates > 0)
    }

    fn generic(&self) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |_| {})?;
        print_until(&session, &mut items, |seen| seen.images > 0)?;
        let body = bid(&session)?;
        let (flags, container) = (GenericFlags::MESSAGE_COMPLETE, DataType::FIELD_LIST);
        let generic = GenericMsg { flags, container, body: &body, ..GenericMsg::new(Domain::MARKET_PRICE, 0) };
        println!("sent\t{}", items.send_generic(0, &generic)?);
        Ok(())
    }

    fn login(&self) -> Outcome {
        let session = self.session()?;
        while let Some(notice) = session.next_notice(PATIENCE) {
            let Notice::Client(Event::Consumer { event, .. }) = notice else { continue };
            if let consumer::Event::LoggedIn(refresh) = *event {
                println!("logged in\t{}\t{}\n{:?}", refresh.name, refresh.state.as_state(), refresh.features);
                return Ok(());
            }
        }
        Err("no login".into())
    }

    fn directory(&self) -> Outcome {
        let status = self.session()?.status();
        status.services.iter().for_each(|service| println!("service\t{service}"));
        Ok(())
    }

    fn dictionary(&self) -> Outcome {
        let dictionary = dictionary_of(&self.session()?);
        for field in dictionary.fields().take(10) {
            println!("field\t{}\t{}\t{}", field.fid(), field.acronym(), field.data_type());
        }
        Ok(())
    }

    /// A contribution, and its answer.
    fn post(&self, on_stream: bool) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |_| {})?;
        if on_stream {
            print_until(&session, &mut items, |seen| seen.images > 0)?;
        }
        let body = bid(&session)?;
        let post = PostMsg { container: DataType::FIELD_LIST, body: &body, ..PostMsg::new(Domain::MARKET_PRICE, 0) };
        let name = self.items.first().ok_or("name an item")?;
        let id = if on_stream {
            items.post(0, &post, true)?
        } else {
            session.post_off_stream((self.service, name), &post, true)?
        };
        while let Some(notice) = session.next_notice(PATIENCE) {
            match notice {
                Notice::Client(Event::PostAnswered { id: answered, nak, .. }) if answered == id => {
                    println!("answered\t{}", nak.map_or("taken".to_owned(), |nak| nak.0.to_string()));
                    return Ok(());
                }
                Notice::Client(Event::PostUnanswered { id: of, .. }) if of == id => break,
                _ => {}
            }
        }
        Err("no answer".into())
    }

    fn view(&self) -> Outcome {
        let session = self.session()?;
        let dictionary = dictionary_of(&session);
        let fid = |name| dictionary.field_named(name).map(FieldDef::fid).ok_or("no such field");
        let fids = vec![fid("BID")?, fid("ASK")?];
        let mut items = self.open(&session, |request| request.view = Some(View::Fields(fids)))?;
        print_until(&session, &mut items, |seen| seen.images > 0)
    }

    fn batch(&self) -> Outcome {
        let session = self.session()?;
        let mut items = self.open(&session, |_| {})?;
        print_until(&session, &mut items, |seen| seen.images + seen.ends >= self.items.len())
    }

    /// Two sessions, each with a thread of its own.
    fn two_sessions(&self) -> Outcome {
        std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(|| self.watch(|_| {}).map_err(|error| error.to_string())));
            for thread in threads {
                thread.join().map_err(|_| "a thread has panicked")??;
            }
            Ok(())
        })
    }

    /// Connections to several servers (`a:14002|b:14002`): one serves and the others stand by, or items are where they can be.
    fn several(&self, arrangement: Arrangement) -> Outcome {
        let mut config = SessionConfig::new(self.servers, "training")?;
        config.client.arrangement = arrangement;
        let session = self.session_of(config)?;
        let mut items = self.open(&session, |_| {})?;
        print_until(&session, &mut items, |seen| seen.images > 0 && seen.updates > 0)?;
        for link in session.status().links {
            println!("link\t{}\t{}", link.server.unwrap_or_default(), if link.serves { "serves" } else { "" });
        }
        Ok(())
    }

    /// The last server of the list is preferred, and gone back to after a minute elsewhere, or when that is asked for.
    fn preferred(&self) -> Outcome {
        let mut config = SessionConfig::new(self.servers, "training")?;
        let last = self.servers.rsplit(',').next().unwrap_or_default();
        config.prefer(last, Some(60_000_000_000))?;
        let session = self.session_of(config)?;
        println!("server\t{}\nleft\t{}", session.status().server.unwrap_or_default(), session.fall_back()?);
        Ok(())
    }
}

fn dictionary_of(session: &Session) -> Arc<Dictionary> {
    session.status().dictionary.unwrap_or_else(|| Arc::new(Dictionary::builtin()))
}

fn bid(session: &Session) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut body = Vec::new();
    fields::write(&dictionary_of(session), &[("BID", Primitive::Double(45.55))], &mut body)?;
    Ok(body)
}

#[derive(Default)]
struct Seen {
    images: usize,
    updates: usize,
    ends: usize,
}

/// Prints what comes until it is enough.
fn print_until(session: &Session, items: &mut Subscription, is_enough: impl Fn(&Seen) -> bool) -> Outcome {
    let dictionary = dictionary_of(session);
    let names = items.names().to_vec();
    let mut seen = Seen::default();
    while !is_enough(&seen) {
        let Some(Message { item, class, is_final, msg, .. }) = items.next(Some(PATIENCE))? else {
            return Err("nothing more comes".into());
        };
        seen.images += usize::from(class == MsgClass::REFRESH);
        seen.updates += usize::from(class == MsgClass::UPDATE);
        seen.ends += usize::from(is_final);
        println!("{}\n{}", names[item as usize], rwf_text::message(msg, Some(&dictionary)));
    }
    Ok(())
}
