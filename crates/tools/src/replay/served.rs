//! The recording behind a provider on sockets: its service as it goes by, and as of other times.

use super::SERVICE_ID;
use super::choice::Choice;
use super::service::ServiceStates;
use super::timeline::{NO_IMAGE, Span, Timeline, Turn};
use crate::source::publisher::{Egress, Feed};
use crate::when;
use feed::provider::noninteractive::Offered;
use feed::provider::{ImagePart, ItemId, Items, Open, Refusal, SessionId};
use feed::session::Nanos;
use feed::shift::Shift;
use record::{By, Error, Folder, Item, Merge, MergedItem, Order, Pace, Recording, ReplayState, Standing, Steering};
use rwf::msg::{Domain, RefreshMsg};
use rwf::{State, StateCode};

/// Bits of an [`ItemId`] for the item; the others are for the timeline.
const ITEM_BITS: u32 = 26;
/// Timelines at a time: each keeps all images.
const TIMELINES: usize = 32;
/// How often others are told how the replay stands when nothing but the time changes.
const TELL_EVERY: Nanos = 50_000_000;

/// What is replayed, and how.
#[derive(Debug)]
pub(super) struct Plan {
    /// The services by their ids, from [`SERVICE_ID`] on; behind them come those of other times, in the same order for each.
    pub(super) services: Vec<String>,
    pub(super) span: Span,
    pub(super) pace: Pace,
    pub(super) by: By,
    /// Items that have to be open before time passes.
    pub(super) begin_with: usize,
    /// Time stands still until somebody says go.
    pub(super) is_paused: bool,
    /// Times of further services.
    pub(super) at: Vec<u64>,
}

/// Recordings that are replayed.
pub(super) struct Replay<'a> {
    recordings: Vec<&'a Recording<Folder>>,
    choice: &'a Choice,
    shift: Option<&'a Shift>,
    plan: Plan,
    /// By number: the replay itself, then those of other times, with these times.
    timelines: Vec<Option<(u64, Timeline<'a>)>>,
    states: ServiceStates,
    /// By service: what was told of it.
    told_up: Vec<bool>,
    lines: Vec<String>,
    failure: Option<Error>,
    /// What is to be done in the next turn, and who is told how it stands.
    steering: Steering,
    /// When others were told last, and what.
    told: Option<(Nanos, Standing)>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        recordings: &'a [Recording<Folder>],
        plan: Plan,
        choice: &'a Choice,
        shift: Option<&'a Shift>,
        steering: Steering,
        now: Nanos,
    ) -> Result<Self, Error> {
        let recordings: Vec<&Recording<Folder>> = recordings.iter().collect();
        let merge = Merge::at(&recordings, plan.span.from, plan.by, &|item| choice.serve(item))?;
        let main =
            Timeline::new(merge, plan.span, plan.pace, plan.begin_with, now).shifted(shift).paused(plan.is_paused);
        let states = ServiceStates::new(&recordings, choice, plan.span.from)?;
        let told_up = vec![true; plan.services.len()];
        let timelines = vec![Some((plan.span.from, main))];
        Ok(Self {
            recordings,
            choice,
            shift,
            plan,
            timelines,
            states,
            told_up,
            lines: Vec::new(),
            failure: None,
            steering,
            told: None,
        })
    }

    /// All items, for who publishes them without being asked.
    pub(super) fn offered(&self) -> Vec<Offered> {
        let items = self.timelines.first().and_then(Option::as_ref).map_or(&[][..], |(_, main)| main.merge().items());
        let of = |item: &Item| {
            let place = self.plan.services.iter().position(|service| **service == *item.service)?;
            let service = SERVICE_ID + place as u16;
            Some(Offered { service, domain: Domain(item.domain), name: item.name.to_string() })
        };
        items.iter().filter_map(of).collect()
    }

    /// What could not be read.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Does what users want of the replay itself; times beside it go on as they do.
    fn obey(&mut self, now: Nanos, egress: &mut Egress<'_>, turn: &mut Turn) -> Result<(), Error> {
        let orders = self.steering.take();
        let Some((_, main)) = self.timelines.first_mut().and_then(Option::as_mut) else { return Ok(()) };
        for order in &orders {
            match *order {
                Order::Pause => main.pause(now),
                Order::Go => main.go(now),
                Order::Step(count) => main.step(count, now, egress, turn)?,
                Order::Speed(pace) => main.set_pace(pace, now),
                Order::Seek(to) => {
                    main.seek(to, now, egress)?;
                    self.states.seek(&self.recordings, to)?;
                }
                Order::Skip(distance) => {
                    let played = self.steering.overview();
                    let to = main.position(now).saturating_add_signed(distance).clamp(played.from, played.to);
                    main.seek(to, now, egress)?;
                    self.states.seek(&self.recordings, to)?;
                }
                Order::Loop(repeats) => turn.has_begun |= main.set_repeats(repeats, now, egress)?,
                Order::Where => {}
            }
            let standing = main.standing();
            let time = when::text(main.position(now));
            self.lines.push(format!("the replay is at {time}, {}", state_text(standing)));
        }
        if !orders.is_empty() {
            self.report(now, orders.len());
        }
        Ok(())
    }

    /// Tells others how the replay stands, if that is news.
    pub(super) fn tell(&mut self, now: Nanos) {
        let standing = self.standing();
        let is_news = self.told.is_none_or(|(at, told)| {
            let is_other = Standing { time: told.time, messages: told.messages, ..standing } != told;
            is_other || (standing != told && now >= at.saturating_add(TELL_EVERY))
        });
        if is_news {
            self.report(now, 0);
        }
    }

    fn report(&mut self, now: Nanos, obeyed: usize) {
        let standing = self.standing();
        self.told = Some((now, standing));
        self.steering.tell(standing, obeyed);
    }

    /// How the replay itself stands, with the streams and messages of all times.
    fn standing(&self) -> Standing {
        let main = self.timelines.first().and_then(Option::as_ref).map(|(_, main)| main.standing());
        let all = || self.timelines.iter().flatten();
        let streams = all().map(|(_, it)| it.streams()).sum();
        Standing { streams, messages: all().map(|(_, it)| it.told()).sum(), ..main.unwrap_or_default() }
    }

    /// The services are as they were at the beginning, too; false if that cannot be read.
    fn begins_anew(&mut self) -> bool {
        if let Err(error) = self.states.seek(&self.recordings, self.plan.span.from) {
            self.failure.get_or_insert(error);
            return false;
        }
        self.lines.push("the replay begins anew".to_owned());
        true
    }

    /// What there is to say to the user.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// A service that is not what was told of it last, by its id, and whether it is up.
    pub(super) fn take_service(&mut self) -> Option<(u16, bool)> {
        let (_, main) = self.timelines.first()?.as_ref()?;
        let changed = self.states.are_up(main.merge()).zip(&mut self.told_up).enumerate();
        let (n, is_up) = changed.into_iter().find_map(|(n, (is_up, told))| {
            let was_up = std::mem::replace(told, is_up);
            (was_up != is_up).then_some((n, is_up))
        })?;
        Some((SERVICE_ID + n as u16, is_up))
    }

    /// The timeline of a time, made if there is none.
    fn timeline(&mut self, at: u64) -> Result<usize, Refusal> {
        let others = || self.timelines.iter().enumerate().skip(1);
        let of_time = |it: &Option<(u64, Timeline<'_>)>| it.as_ref().is_some_and(|(time, _)| *time == at);
        let same =
            others().find(|(_, it)| of_time(it)).map(|(n, it)| (n, it.as_ref().is_some_and(|(_, it)| it.is_left())));
        // One that has gone on and is watched by nobody begins anew.
        if let Some((n, false)) = same {
            return Ok(n);
        }
        let free = others().find(|(_, it)| it.as_ref().is_none_or(|(_, it)| it.streams() == 0)).map(|(n, _)| n);
        let free = free.filter(|_| self.timelines.len() >= TIMELINES).unwrap_or(self.timelines.len());
        let n = same.map_or(free, |(n, _)| n);
        if n >= TIMELINES {
            let text = format!("{TIMELINES} times of the recording are watched already, as many as can be at once");
            return Err(Refusal { code: StateCode::TOO_MANY_ITEMS, text });
        }
        let span = Span { from: at, to: u64::MAX, repeats: false };
        let made = Merge::at(&self.recordings, at, self.plan.by, &|item| self.choice.serve(item))
            .map(|merge| Timeline::new(merge, span, self.plan.pace, 1, net::clock::now()).shifted(self.shift));
        match made {
            Ok(made) if n < self.timelines.len() => self.timelines[n] = Some((at, made)),
            Ok(made) => self.timelines.push(Some((at, made))),
            Err(error) => {
                let text = format!("the recording cannot be read: {error}");
                return Err(Refusal { code: StateCode::ERROR, text });
            }
        }
        Ok(n)
    }

    /// Timeline, service and name that are asked for: the name of an item may end in a time.
    fn asked<'n>(&mut self, open: &Open<'n>) -> Result<(usize, usize, &'n str), Refusal> {
        let place = usize::from(open.service.wrapping_sub(SERVICE_ID));
        let (round, service) = (place / self.plan.services.len(), place % self.plan.services.len());
        if let Some(other) = round.checked_sub(1) {
            let at = self.plan.at.get(other).copied();
            return Ok((at.map_or(Ok(0), |at| self.timeline(at))?, service, open.name));
        }
        let time = open.name.rsplit_once('@').and_then(|(name, time)| Some((name, when::parse(time).ok()?)));
        match time {
            Some((name, at)) => Ok((self.timeline(at)?, service, name)),
            None => Ok((0, service, open.name)),
        }
    }

    fn of(&self, item: ItemId) -> Option<(&Timeline<'a>, MergedItem)> {
        let (_, timeline) = self.timelines.get((item.0 >> ITEM_BITS) as usize)?.as_ref()?;
        Some((timeline, MergedItem(item.0 & ((1 << ITEM_BITS) - 1))))
    }

    fn of_mut(&mut self, item: ItemId) -> Option<(&mut Timeline<'a>, MergedItem)> {
        let (_, timeline) = self.timelines.get_mut((item.0 >> ITEM_BITS) as usize)?.as_mut()?;
        Some((timeline, MergedItem(item.0 & ((1 << ITEM_BITS) - 1))))
    }
}

impl Items for Replay<'_> {
    fn open(&mut self, open: Open<'_>) -> Result<ItemId, Refusal> {
        let (n, service, name) = self.asked(&open)?;
        let refusal = |text: String| Refusal { code: StateCode::NOT_FOUND, text };
        let wanted =
            Item { service: self.plan.services[service].as_str().into(), domain: open.domain.0, name: name.into() };
        let Some((_, timeline)) = self.timelines[n].as_mut() else { return Err(refusal("no such time".to_owned())) };
        let found = timeline.merge().find(&wanted).filter(|item| item.0 < 1 << ITEM_BITS);
        let Some(item) = found else {
            return Err(refusal(format!("the recording has no {name:?} of domain {}", open.domain.0)));
        };
        if open.streaming {
            timeline.watch(item, open.session, open.stream_id, net::clock::now());
        } else if !timeline.has_image(item) {
            let time = when::text(timeline.merge().time());
            return Err(refusal(format!("the recording has no image of {name:?} at {time}")));
        }
        Ok(ItemId((n as u32) << ITEM_BITS | item.0))
    }

    fn image(&mut self, item: ItemId, _: Domain, part: usize, out: &mut Vec<u8>) -> ImagePart {
        let none =
            ImagePart { container: rwf::DataType::NO_DATA, sequence: None, data: rwf::DataState::SUSPECT, more: false };
        self.of_mut(item).map_or(none, |(timeline, item)| timeline.image(item, part, out))
    }

    fn dress<'m>(&'m self, item: ItemId, refresh: RefreshMsg<'m>) -> RefreshMsg<'m> {
        match self.of(item) {
            Some((timeline, item)) => timeline.dress(item, refresh),
            None => refresh,
        }
    }

    fn without_image(&self, item: ItemId) -> Option<State<'static>> {
        let (timeline, item) = self.of(item)?;
        (!timeline.has_image(item)).then_some(NO_IMAGE)
    }

    fn close(&mut self, item: ItemId, session: SessionId, stream_id: i32) {
        if let Some((timeline, item)) = self.of_mut(item) {
            timeline.leave(item, session, stream_id);
        }
    }
}

impl Feed for Replay<'_> {
    fn items(&mut self, _: SessionId) -> &mut dyn Items {
        self
    }

    fn due(&self, _: Nanos, egress: &Egress<'_>) -> Option<Nanos> {
        if self.steering.has_orders() {
            return Some(0);
        }
        self.timelines.iter().flatten().filter_map(|(_, timeline)| timeline.next(egress)).min()
    }

    fn publishes_while_down(&self) -> bool {
        true
    }

    fn publish(&mut self, now: Nanos, egress: &mut Egress<'_>) {
        let mut ordered = Turn::default();
        if let Err(error) = self.obey(now, egress, &mut ordered) {
            self.failure.get_or_insert(error);
            return;
        }
        for (recording, msg) in ordered.directory {
            self.states.receive(recording, &msg);
        }
        if ordered.has_begun && !self.begins_anew() {
            return;
        }
        for n in 0..self.timelines.len() {
            let Some((_, timeline)) = &mut self.timelines[n] else { continue };
            let mut turn = Turn::default();
            if let Err(error) = timeline.advance(now, egress, &mut turn) {
                self.failure.get_or_insert(error);
                return;
            }
            // Another time's stream has ended or begun anew, and the service is as it was: they are for who watches alone.
            if n > 0 {
                continue;
            }
            let time = when::text(timeline.merge().time());
            for (recording, msg) in turn.directory {
                self.states.receive(recording, &msg);
            }
            if turn.is_over {
                self.lines.push(format!("the replay is over, at {time}; items stay as they are"));
            }
            if turn.has_begun && !self.begins_anew() {
                return;
            }
        }
    }
}

/// How a replay stands, but for its time: `running at speed 2`, `paused`.
pub(super) fn state_text(standing: Standing) -> String {
    let speed = match standing.pace {
        Pace::Scaled(speed) => format!("at speed {speed}"),
        Pace::Unpaced => "as fast as clients take it".to_owned(),
    };
    match standing.state {
        ReplayState::Waiting(count) => format!("waiting until {count} items are open"),
        ReplayState::Running => format!("running {speed}"),
        state => state.name().to_owned(),
    }
}
