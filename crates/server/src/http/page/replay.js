// Recordings that the process plays, with a time bar each, and the one that it makes: rate and gaps over its time.

import { api, badge, button, bytes, el, grouped, kept, short, svg, toast } from "./dom.js";

const SPEEDS = ["0.1", "0.25", "0.5", "1", "2", "5", "10", "60", "600", "max"];
const STATES = { running: "good", paused: "warn", waiting: "warn", over: "quiet", ended: "bad", recording: "good", troubled: "bad", failed: "bad" };
/** How far arrows and buttons go, seconds. */
const SKIP = 10;
/** Rate and gaps of a recording that goes on are asked for so often, milliseconds. */
const PROFILE_MS = 10_000;
const LOOK_MS = 500;

/** A time of UTC as an order has it. */
const iso = (ms) => new Date(ms).toISOString();

/** The time of day of UTC, with what of it a span of that length needs. */
function timeText(ms, span) {
  const text = iso(ms);
  const end = span < 120_000 ? 23 : 19;
  return span > 86_400_000 ? text.slice(0, 16).replace("T", " ") : text.slice(11, end);
}

/** Rate over time as an area, with gaps on it: of a profile of `/api/v1`. */
class Picture {
  constructor(label) {
    this.area = svg("path", { class: "area" });
    this.drawing = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, this.area);
    this.gaps = el("div", { class: "gaps" });
    this.element = el("div", { class: "bar-picture", "aria-label": label }, this.drawing, this.gaps);
    this.ends = [el("span"), el("span", { class: "most" }), el("span")];
    this.legend = el("div", { class: "bar-ends quiet" }, this.ends);
  }

  show(profile) {
    const { records, from_ms: from, to_ms: to } = profile;
    const most = Math.max(...records, 1e-9);
    const step = 100 / Math.max(records.length, 1);
    const height = (count) => (count > 0 ? 38 - 36 * (count / most) : 40).toFixed(2);
    // Steps: a part of the time has one rate.
    const line = records.map((count, n) => `L${(n * step).toFixed(3)} ${height(count)}L${((n + 1) * step).toFixed(3)} ${height(count)}`).join("");
    this.area.setAttribute("d", `M0 40${line}L100 40Z`);
    const place = (ms) => Math.min(100, Math.max(0, ((ms - from) / Math.max(to - from, 1e-6)) * 100));
    this.gaps.replaceChildren(...profile.gaps.map((gap) => {
      const missing = gap.messages === null ? "nobody knows how much is missing" : `${grouped(gap.messages)} messages are missing`;
      return el("i", { style: `left:${place(gap.from_ms)}%;width:${place(gap.to_ms) - place(gap.from_ms)}%`, title: `${iso(gap.from_ms)} to ${iso(gap.to_ms)}: ${gap.reason}, ${missing}` });
    }));
    const span = to - from;
    const seconds = span / 1000 / Math.max(records.length, 1);
    this.ends[0].textContent = records.length ? timeText(from, span) : "";
    this.ends[1].textContent = records.length && seconds > 0 ? `at most ${short(most / seconds)}/s${profile.gaps.length ? `, ${gapsText(profile.gaps.length)}` : ""}` : "";
    this.ends[2].textContent = records.length ? timeText(to, span) : "";
  }
}

const gapsText = (count) => `${grouped(count)} gap${count === 1 ? "" : "s"}`;

/** A replay: what it says of itself, what it is told, and a bar on which its time is shown and chosen. */
class Bar {
  constructor(name, again) {
    this.name = name;
    this.again = again;
    this.picture = new Picture(`Rate of ${name} over time`);
    this.played = el("div", { class: "bar-played" });
    this.head = el("div", { class: "bar-head" });
    this.hint = el("div", { class: "bar-hint", hidden: true });
    this.slider = el("div", { class: "bar", role: "slider", tabindex: 0, "aria-label": `Time of ${name}`, "aria-valuemin": 0, "aria-valuemax": 100 }, this.picture.element, this.played, this.head, this.hint);
    this.time = el("b", { class: "bar-time" });
    this.toggle = button("", () => this.order(this.replay?.state === "running" ? "pause" : "go"), { class: "bar-toggle" });
    this.speed = el("select", { "aria-label": "Speed", title: "Seconds of the recording in a second", onchange: () => this.order(`speed ${this.speed.value}`) });
    this.slider.addEventListener("pointerdown", (event) => this.grab(event));
    this.slider.addEventListener("pointermove", (event) => this.point(event));
    this.slider.addEventListener("pointerup", (event) => this.drop(event));
    this.slider.addEventListener("pointercancel", () => this.leave());
    this.slider.addEventListener("pointerleave", () => this.held === undefined && (this.hint.hidden = true));
    this.slider.addEventListener("keydown", (event) => this.key(event) && event.preventDefault());
  }

  get span() {
    return Math.max(this.replay.to_ms - this.replay.from_ms, 1e-6);
  }

  show(replay) {
    this.replay = replay;
    this.at = performance.now();
    const runs = replay.state === "running";
    this.toggle.textContent = runs ? "❚❚" : "▶";
    this.toggle.title = runs ? "Pause (space)" : "Go (space)";
    this.toggle.setAttribute("aria-label", runs ? "Pause" : "Go");
    this.toggle.disabled = replay.state === "ended";
    if (document.activeElement !== this.speed) {
      const speeds = SPEEDS.includes(replay.speed) ? SPEEDS : [replay.speed, ...SPEEDS];
      this.speed.replaceChildren(...speeds.map((speed) => el("option", { value: speed, selected: speed === replay.speed, text: speed === "max" ? "max" : `× ${Number(speed)}` })));
    }
    this.paint();
  }

  /** Where it is now: between two looks time goes on as the server's does. */
  now() {
    const { state, speed, time_ms: time, to_ms: to } = this.replay;
    return state === "running" && speed !== "max" ? Math.min(to, time + (performance.now() - this.at) * Number(speed)) : time;
  }

  paint() {
    if (!this.replay) return;
    const ms = this.held ?? this.now();
    const part = Math.min(1, Math.max(0, (ms - this.replay.from_ms) / this.span));
    this.played.style.width = this.head.style.left = `${part * 100}%`;
    const text = `${iso(ms).slice(0, 10)} ${iso(ms).slice(11, 23)}`;
    if (this.time.textContent !== text) this.time.textContent = text;
    this.slider.setAttribute("aria-valuenow", Math.round(part * 100));
    this.slider.setAttribute("aria-valuetext", `${text} UTC`);
  }

  /** The time under the pointer. */
  timeOf(event) {
    const box = this.slider.getBoundingClientRect();
    return this.replay.from_ms + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * this.span;
  }

  grab(event) {
    if (!this.replay || this.replay.state === "ended") return;
    this.slider.setPointerCapture(event.pointerId);
    this.held = this.timeOf(event);
    this.point(event);
  }

  point(event) {
    if (!this.replay) return;
    const ms = this.timeOf(event);
    if (this.held !== undefined) {
      this.held = ms;
      this.paint();
    }
    const part = (ms - this.replay.from_ms) / this.span;
    this.hint.hidden = false;
    this.hint.textContent = timeText(ms, this.span);
    this.hint.style.left = `clamp(34px, ${part * 100}%, calc(100% - 34px))`;
  }

  drop(event) {
    if (this.held === undefined) return;
    const ms = this.timeOf(event);
    this.leave();
    this.seek(ms);
  }

  leave() {
    this.held = undefined;
    this.hint.hidden = true;
  }

  /** A page's times have milliseconds, a recording's nanoseconds: at the ends the server's own words are used. */
  seek(ms) {
    const { from, to, from_ms: first, to_ms: last } = this.replay;
    return this.order(`seek ${Math.floor(ms) <= first ? from : ms >= last ? to : iso(ms)}`);
  }

  async order(order) {
    try {
      await api(`replays/${encodeURIComponent(this.name)}`, { order });
    } catch (e) {
      toast(e.message, true);
    }
    await this.again();
  }

  /** True if the key means something. */
  key(event) {
    if (!this.replay || event.ctrlKey || event.metaKey || event.altKey) return false;
    const skip = Math.max(0.001, Math.min(SKIP, this.span / 20_000));
    const order = {
      " ": this.replay.state === "running" ? "pause" : "go", s: "step", S: "step 10", ArrowLeft: `skip ${-skip}`, ArrowRight: `skip ${skip}`,
      Home: `seek ${this.replay.from}`, End: `seek ${this.replay.to}`, m: "speed max", l: `loop ${this.replay.repeats ? "off" : "on"}`,
    }[event.key];
    if (order) this.order(order);
    return Boolean(order);
  }
}

/** The card of a replay. */
class Card {
  constructor(name, again) {
    this.bar = new Bar(name, again);
    this.state = el("span");
    this.about = el("span", { class: "quiet" });
    this.figures = el("span", { class: "quiet bar-figures" });
    this.trouble = el("p", { class: "why note", hidden: true });
    this.loop = el("button", { class: "plain small loop", type: "button", text: "↻ Loop", title: "Begin anew at the end (l)", onclick: () => this.bar.order(`loop ${this.bar.replay.repeats ? "off" : "on"}`) });
    this.goal = el("input", { type: "text", class: "bar-goal", "aria-label": "Time to go to", title: "Go to a time of UTC (Enter)" });
    this.goal.addEventListener("keydown", (event) => event.key === "Enter" && this.go());
    const step = (count, title) => button(`Step${count > 1 ? ` ${count}` : ""}`, () => this.bar.order(`step ${count}`), { title });
    const skip = (seconds) => button(`${seconds < 0 ? "−" : "+"}${Math.abs(seconds)} s`, () => this.bar.order(`skip ${seconds}`));
    this.root = el("section", { class: "card replay" },
      el("div", { class: "card-head" }, el("h2", { text: name }), this.about, this.state),
      el("div", { class: "bar-line" }, this.bar.toggle, this.bar.time, el("span", { class: "quiet", text: "UTC" }), this.figures),
      this.bar.slider, this.bar.picture.legend,
      el("div", { class: "bar-controls" },
        step(1, "Pause, and give the next message (s)"), step(10, "Ten of them (S)"), skip(-SKIP), skip(SKIP), this.bar.speed, this.loop,
        el("span", { class: "bar-to" }, this.goal, button("Go there", () => this.go()))),
      this.trouble);
  }

  go() {
    const text = this.goal.value.trim();
    if (text) this.bar.order(`seek ${text}`);
  }

  async begin() {
    this.bar.picture.show(await api(`replays/${encodeURIComponent(this.bar.name)}/profile`));
  }

  show(replay) {
    const now = performance.now();
    const last = this.last;
    this.last = { at: now, messages: replay.messages };
    const rate = last && now > last.at ? ((replay.messages - last.messages) * 1000) / (now - last.at) : undefined;
    const waits = replay.state === "waiting" ? "waits for clients" : replay.state;
    this.state.replaceChildren(badge(waits, STATES[replay.state] ?? "quiet"));
    this.about.textContent = `${replay.services.join(", ")} · ${grouped(replay.items)} items`;
    this.figures.textContent = `${grouped(replay.streams)} stream${replay.streams === 1 ? "" : "s"}${rate === undefined ? "" : ` · ${short(Math.max(0, rate))} messages/s`}`;
    this.goal.placeholder = replay.from.replace(/\.\d+Z$/, "Z");
    this.loop.setAttribute("aria-pressed", replay.repeats);
    this.trouble.hidden = replay.state !== "ended";
    this.trouble.textContent = replay.trouble ?? "";
    this.bar.show(replay);
  }
}

/** The card of what the process records of itself. */
class Recorded {
  constructor() {
    this.picture = new Picture("Rate of the recording over time");
    this.state = el("span");
    this.about = el("span", { class: "quiet" });
    this.facts = el("dl", { class: "stats" });
    this.trouble = el("p", { class: "why note", hidden: true });
    this.root = el("section", { class: "card replay" },
      el("div", { class: "card-head" }, el("h2", { text: "Recording" }), this.about, this.state),
      el("div", { class: "bar fixed" }, this.picture.element), this.picture.legend, this.facts, this.trouble);
    this.due = 0;
  }

  async show(recording) {
    this.state.replaceChildren(badge(recording.state, STATES[recording.state] ?? "quiet"));
    this.about.textContent = recording.folder ?? "";
    this.trouble.hidden = !recording.trouble;
    this.trouble.textContent = recording.trouble ?? "";
    const facts = [
      ["Records", grouped(recording.records)], ["On disk", bytes(recording.file_bytes)], ["Lost", grouped(recording.lost)], ["Gaps", grouped(recording.gaps)],
      ["Waiting", bytes(recording.queue_bytes)], ["Disk failures", grouped(recording.disk_failures)], ["Cut off", grouped(recording.disconnects)],
      ["Items", recording.services.map((service) => `${service.name} ${grouped(service.open)} of ${grouped(service.items)}`).join(", ") || "–"],
    ];
    this.facts.replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
    if (performance.now() < this.due) return;
    this.due = performance.now() + PROFILE_MS;
    this.picture.show(await api("recording/profile"));
  }
}

/** The view, and the strip over the market that has the first replay in a line. */
export class Replays {
  constructor(root, strip) {
    this.root = root;
    this.strip = strip;
    this.cards = new Map();
    this.list = el("div", { class: "page" });
    root.append(this.list);
    this.looking = setInterval(() => this.look(), LOOK_MS);
    const frame = () => {
      if (!document.hidden && (this.shown || !this.strip.hidden)) this.paint();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  paint() {
    for (const card of this.cards.values()) card.bar.paint();
    this.line?.paint();
  }

  show() {
    this.shown = true;
    this.strip.hidden = true;
    this.look();
  }

  hide() {
    this.shown = false;
  }

  /** Another view is shown: `market` has the strip. */
  beside(name) {
    this.strip.hidden = name !== "market" || !this.line || kept.get("replay.strip", true) === false;
  }

  async look() {
    if (this.busy || document.hidden || (!this.shown && this.strip.hidden)) return;
    this.busy = true;
    try {
      await this.refresh();
      this.failed = false;
    } catch (e) {
      if (!this.failed) toast(`The replay does not answer: ${e.message}`, true);
      this.failed = true;
    }
    this.busy = false;
  }

  /** What there is to be shown, as the server says it; the first time it makes the cards. */
  async refresh() {
    const [replays, recording] = await Promise.all([api("replays"), api("recording")]);
    for (const replay of replays) {
      let card = this.cards.get(replay.name);
      if (!card) {
        card = new Card(replay.name, () => this.refresh());
        this.cards.set(replay.name, card);
        this.list.append(card.root);
        await card.begin();
      }
      card.show(replay);
    }
    if (replays.length) this.showLine(replays[0]);
    if (recording.state !== "off") {
      if (!this.recorded) {
        this.recorded = new Recorded();
        this.list.append(this.recorded.root);
      }
      if (this.shown) await this.recorded.show(recording);
    }
    return replays.length > 0 || recording.state !== "off";
  }

  showLine(replay) {
    if (!this.line) {
      this.line = new Bar(replay.name, () => this.refresh());
      this.strip.append(this.line.toggle, this.line.time, this.line.slider, this.line.speed);
      const { area, gaps } = this.cards.get(replay.name).bar.picture;
      this.line.picture.drawing.replaceChildren(area.cloneNode());
      this.line.picture.gaps.append(...gaps.cloneNode(true).children);
    }
    this.line.show(replay);
  }

  /** Keys of the view, for the first replay. */
  key(event, typing) {
    const first = this.cards.values().next().value;
    if (!typing && first && event.target.closest?.("button, select, .bar") === null && first.bar.key(event)) event.preventDefault();
  }
}
