// The system: who provides, who serves, who watches; what happens; and what an operator can do about it.

import { api, badge, button, bytes, clock, duration, el, grouped, short, toast } from "./dom.js";
import { act, blockItem, switchService, trace, unblockItem } from "./act.js";
import { Inspector, stateBadge } from "./inspect.js";
import { down, paint, sides } from "./topology.js";

const STATES = ["open", "view", "waiting", "opening", "suspect", "recovering"];

export class System {
  /** `feed` gives the page's session for market data, if there is one. */
  constructor(root, process, feed) {
    this.root = root;
    this.process = process;
    this.events = [];
    this.last = null;
    this.rates = {};
    /** What clients (`cID`) and providers (`pID`) have sent and received: bytes, and bytes a second. */
    this.traffic = new Map();
    this.known = new Map();
    this.inspector = new Inspector(document.getElementById("sheet"), feed, (id) => this.known.get(id));
    this.build();
  }

  build() {
    this.cards = el("div", { class: "cards" });
    this.picture = el("div", { class: "picture card" });
    this.services = table(["Service", "State", "Waiting", "Suspect", "Served by", ""]);
    this.providers = table(["Provider", "Kind", "State", "Services", "Rate", ""]);
    this.clients = table(["Client", "User", "Application", "Protocol", "Items", "Waiting", "Rate", "Round trip", "Here for", ""]);
    this.clients.element.classList.add("clients");
    this.items = table(["Item", "Service", "State", "Watchers"]);
    this.blocked = table(["Blocked", "Service", "Why", ""]);
    this.log = el("div", { class: "log" });
    this.clientSearch = el("input", { type: "search", class: "search", placeholder: "Filter clients", "aria-label": "Filter clients", oninput: () => this.refresh() });
    this.itemSearch = el("input", { type: "search", class: "search", placeholder: "Filter items", "aria-label": "Filter items", oninput: () => this.refresh() });
    this.stateSearch = el("select", { "aria-label": "Items of one state", onchange: () => this.refresh() },
      el("option", { value: "", text: "all states" }), STATES.map((state) => el("option", { value: state, text: state })));
    this.block = el("button", { class: "plain", text: "Block…", title: "Have nobody get an item", onclick: () => blockItem(this.process.default_service, "", () => this.refresh()) });
    this.drain = el("button", { class: "plain", text: "Drain", title: "Take no new clients", onclick: () => this.askDrain() });
    this.level = el("select", { "aria-label": "Level of the log", onchange: (event) => this.setLevel(event.target.value) },
      el("option", { value: "", text: "log level" }), ["error", "warn", "info", "debug"].map((level) => el("option", { value: level, text: level })));
    this.root.append(el("div", { class: "page" },
      this.cards, this.picture,
      el("div", { class: "columns" },
        el("section", { class: "card" }, el("h2", { text: "Services" }), this.services.element),
        el("section", { class: "card" }, el("h2", { text: "Providers" }), this.providers.element)),
      el("section", { class: "card" }, el("div", { class: "card-head" }, el("h2", { text: "Clients" }), this.clientSearch, this.drain), this.clients.element),
      el("div", { class: "columns" },
        el("section", { class: "card" }, el("div", { class: "card-head" }, el("h2", { text: "Items" }), this.stateSearch, this.itemSearch, this.block), this.items.element, this.blocked.element),
        el("section", { class: "card" }, el("div", { class: "card-head" }, el("h2", { text: "Events" }), this.level), this.log))));
  }

  show() {
    if (this.timer) return;
    this.refresh();
    this.timer = setInterval(() => this.refresh(), 1000);
  }

  hide() {
    clearInterval(this.timer);
    this.timer = null;
  }

  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      const after = this.events.at(-1)?.number ?? 0;
      const wanted = (text) => encodeURIComponent(text.value.trim());
      const state = this.stateSearch.value ? `&state=${this.stateSearch.value}` : "";
      const [process, services, providers, clients, items, blocked, peers, events] = await Promise.all([
        api("process"), api("services"), api("providers"), api(`clients?limit=200&contains=${wanted(this.clientSearch)}`),
        api(`items?limit=100&contains=${wanted(this.itemSearch)}${state}`), api("blocked"), api("hub"), api(`events?after=${after}`),
      ]);
      this.measure(process);
      this.measureTraffic(clients.found, providers);
      this.process = process;
      this.known = new Map(clients.found.map((client) => [client.id, client]));
      this.paintCards(process);
      paint(this.picture, process, this.rates, sides({ services, providers, clients: clients.found, peers, rates: this.traffic }));
      this.paintServices(services);
      this.paintProviders(providers, services);
      this.paintClients(clients);
      this.paintItems(items);
      this.paintBlocked(blocked);
      this.paintEvents(events);
      this.failed = false;
    } catch (e) {
      if (!this.failed) toast(`The process does not answer: ${e.message}`, true);
      this.failed = true;
    }
    this.root.classList.toggle("stale", this.failed);
    this.busy = false;
  }

  measure(process) {
    const now = performance.now();
    if (this.last) {
      const seconds = (now - this.last.at) / 1000;
      const rate = (of) => Math.max(0, (of(process) - of(this.last.process)) / seconds);
      const sum = (name) => (p) => p.threads.reduce((total, thread) => total + thread[name], 0);
      this.rates = {
        in: rate((p) => p.totals.updates_in), out: rate((p) => p.totals.updates_out),
        received: rate(sum("bytes_received")), sent: rate(sum("bytes_sent")),
      };
    }
    this.last = { at: now, process };
  }

  paintCards(process) {
    const { totals, threads } = process;
    const worst = Math.max(...threads.map((thread) => thread.latency_p99_us ?? 0));
    const median = Math.max(...threads.map((thread) => thread.latency_p50_us ?? 0));
    const silent = threads.filter((thread) => !thread.answers);
    const cards = [
      ["Updates in", short(this.rates.in), "a second"],
      ["Updates out", short(this.rates.out), "a second, to all clients"],
      ["Clients", grouped(totals.clients), totals.clients_behind ? `${totals.clients_behind} behind` : nearLimits(totals), totals.clients_behind > 0 || totals.mounts_burdened > 0],
      ["Items", grouped(totals.items || totals.source_items), itemsAbout(totals), totals.items_waiting > 0 || heavy(totals.load) || heavy(totals.open_queue)],
      ["Latency in here", worst ? `≤ ${micros(worst)}` : "–", worst ? `99 %; half ≤ ${micros(median)}` : "no samples yet"],
      ["Traffic", `${bytes(this.rates.sent)}/s`, `out; ${bytes(this.rates.received)}/s in`],
      ["Up", duration(process.uptime_s), `${process.role} ${process.version} on ${process.host}`, silent.length > 0 || process.draining],
    ];
    this.cards.replaceChildren(...cards.map(([title, value, about, bad]) =>
      el("div", { class: "card figure" + (bad ? " warn" : "") }, el("span", { class: "quiet", text: title }), el("b", { text: value }), el("span", { class: "quiet", text: about }))));
    this.drain.textContent = process.draining ? "End draining" : "Drain";
    this.drain.classList.toggle("warn", process.draining);
  }

  /** Bytes a second over each connection, from one look to the next. */
  measureTraffic(clients, providers) {
    const now = performance.now();
    const before = this.traffic;
    this.traffic = new Map();
    const one = (key, traffic) => {
      if (!traffic) return;
      const last = before.get(key);
      const seconds = last ? (now - last.at) / 1000 : 0;
      const rate = (name) => (seconds > 0.05 ? Math.max(0, (traffic[name] - last.traffic[name]) / seconds) : undefined);
      this.traffic.set(key, { at: now, traffic, sent: rate("sent_bytes"), received: rate("received_bytes") });
    };
    for (const client of clients) one(`c${client.id}`, client.traffic);
    for (const provider of providers) if (provider.id) one(`p${provider.id}`, provider.traffic);
  }

  rate(key, which) {
    const rate = this.traffic.get(key)?.[which];
    return rate === undefined ? "–" : rate < 1 ? "0" : `${bytes(Math.round(rate))}/s`;
  }

  paintServices(services) {
    const again = () => this.refresh();
    this.services.fill(services.map((service) => ({ key: service.name, bad: !service.up, cells: [
      el("span", {}, service.name, service.path.length > 1 ? el("small", { class: "quiet", title: "The sites that it comes through, this one first", text: ` by ${service.path.join(" › ")}` }) : null), badge(service.up ? (service.accepting ? "up" : "up, takes no requests") : "down", service.up ? (service.accepting ? "good" : "warn") : "bad"),
      grouped(service.waiting), grouped(service.suspect),
      service.providers.map((offer) => `${offer.address}${offer.up ? ` (${offer.served_from ? `${offer.served_from}, ` : ""}${offer.silent ? "silent, " : ""}${grouped(offer.open)}${offer.standby ? `, stands by for ${grouped(offer.standby)}` : ""})` : " down"}`).join(", ") || "–",
      buttons(service.providers.length > 1 && ["Switch", () => switchService(service, again), "Have its items go to another provider"]),
    ] })), "No service is known.");
  }

  paintProviders(providers, services) {
    const states = providers.map((provider) => [provider, provider.id ? down(services, (offer) => offer.provider === provider.id) : []]);
    this.providers.fill(states.map(([provider, sick]) => ({ key: provider.id || provider.address, bad: provider.state !== "ready" || sick.length > 0, cells: [
      provider.address, provider.kind, badge(sick.join(", ") || provider.state, provider.state === "ready" && !sick.length ? "good" : "bad"), provider.services.join(", "), this.rate(`p${provider.id}`, "received"),
      buttons(provider.id && ["Fail", () => this.act(`providers/${provider.id}/disconnect`, `Make ${provider.address} fail?`,
        "Its session is ended as if it were lost: its items are Suspect or go to other providers, and a route is dialled again."), "End the session, as if it were lost"]),
    ] })), "No provider.");
  }

  paintClients(clients) {
    this.clients.fill(clients.found.map((client) => ({ key: client.id, bad: client.held_back, cells: [
      client.address, client.user || "–", client.application ? `${client.application} (${client.application_id})` : client.program, client.protocol,
      heavy(client.load) ? badge(`${grouped(client.items)}, ${client.load}`, "warn") : grouped(client.items), bytes(client.queued_bytes), this.rate(`c${client.id}`, "sent"), client.traffic ? micros(client.traffic.round_trip_us) : "–", duration(client.connected_s),
      buttons(["Trace", () => trace(`clients/${client.id}`, `${client.user || "client"} at ${client.address}`), "Write what goes over its session to a file"],
        ["Disconnect", () => this.act(`clients/${client.id}/disconnect`, `Disconnect ${client.user || "the client"} at ${client.address}?`, "The connection is closed; most clients connect again by themselves.")]),
    ], title: client.program })), "No client.", clients.next ? "more: narrow the filter" : "");
  }

  paintItems(items) {
    this.items.fill(items.found.map((item) => ({ key: item.id, bad: item.state === "suspect", open: () => this.inspector.open(item), title: "Image, watchers, what they were told", cells: [
      item.name, item.service, stateBadge(item.state), grouped(item.watchers + item.held_watchers),
    ] })), "No item.", items.next ? "more: narrow the filter" : "");
  }

  paintBlocked(blocked) {
    this.blocked.element.hidden = blocked.length === 0;
    const again = () => this.refresh();
    this.blocked.fill(blocked.map((item) => ({ key: `${item.service}\n${item.name}`, bad: true, cells: [
      item.name, item.service, item.why, buttons(["Unblock", () => unblockItem(item.service, item.name, again)]),
    ] })), "");
  }

  paintEvents(events) {
    if (!events.length && this.log.childElementCount) return;
    this.events.push(...events);
    this.events = this.events.slice(-200);
    const atTop = this.log.scrollTop < 4;
    this.log.replaceChildren(...this.events.toReversed().map((event) => el("div", { class: "event " + event.level },
      el("time", { class: "quiet", text: clock(event.time_ms) }), el("span", { class: "level", text: event.level }), el("span", { text: event.text }))));
    if (!this.events.length) this.log.append(el("p", { class: "note quiet", text: "Nothing has happened." }));
    if (atTop) this.log.scrollTop = 0;
  }

  act(path, question, about) {
    act({ path, question, about, done: (answer) => {
      toast(answer.done);
      this.refresh();
    } });
  }

  askDrain() {
    if (this.process.draining) this.act("undrain", "Take new clients again?", "");
    else this.act("drain", "Take no new clients?", "Those that are there stay.");
  }

  async setLevel(level) {
    if (!level) return;
    try {
      toast((await api("log", { level })).done);
    } catch (e) {
      toast(e.message, true);
    }
  }

  key(event) {
    if (event.key === "/") {
      event.preventDefault();
      this.clientSearch.focus();
    }
    if (event.key === "Escape") document.activeElement?.blur();
  }
}

/** True of a state of load that an operator should see. */
const heavy = (load) => load === "burdened" || load === "overloaded";

function itemsAbout(totals) {
  const load = heavy(totals.load) ? `${totals.load} (totalItemLimit), ` : "";
  const queue = heavy(totals.open_queue) ? ` (opens ${totals.open_queue})` : "";
  return `${load}${grouped(totals.watchers)} watchers, ${grouped(totals.items_waiting)} waiting${queue}`;
}

function nearLimits(totals) {
  return totals.mounts_burdened ? `${grouped(totals.mounts_burdened)} near their limit of items` : "none behind";
}

function micros(us) {
  return us >= 10_000 ? `${Math.round(us / 1000)} ms` : us >= 1000 ? `${(us / 1000).toFixed(1)} ms` : `${us} µs`;
}

/** Buttons of a line, each with its name, what it does, and what is said of it; those that are not to be there are false. */
function buttons(...all) {
  return el("span", { class: "buttons" }, all.filter(Boolean).map(([text, does, title]) => button(text, does, { title })));
}

/** Puts a cell's content anew, unless the pointer or the keyboard is on one of its buttons: that one is not to vanish under it. */
function keep(td, cell) {
  if (!td.matches(":hover, :focus-within") || !td.querySelector("button")) td.replaceChildren(cell);
}

/** A table that keeps its lines from one filling to the next, so that a button does not vanish under the pointer. */
function table(heads) {
  const body = el("tbody");
  const foot = el("p", { class: "note quiet", hidden: true });
  const element = el("div", { class: "table" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { text: head })))), body), foot);
  const known = new Map();
  return {
    element,
    fill(rows, none, more = "") {
      const keys = new Set(rows.map((row) => row.key));
      for (const [key, line] of known) {
        if (!keys.has(key)) {
          line.remove();
          known.delete(key);
        }
      }
      rows.forEach((row, n) => {
        let line = known.get(row.key);
        if (!line) {
          line = el("tr", {}, row.cells.map((_, at) => el("td", { "data-title": heads[at] })));
          known.set(row.key, line);
        }
        line.className = (row.bad ? "bad" : "") + (row.open ? " opens" : "");
        if (row.open) {
          line.tabIndex = 0;
          line.onclick = row.open;
          line.onkeydown = (event) => event.key === "Enter" && row.open();
        }
        line.title = row.title ?? "";
        row.cells.forEach((cell, at) => {
          const td = line.children[at];
          if (typeof cell === "string") {
            if (td.textContent !== cell) td.textContent = cell;
          } else keep(td, cell);
        });
        if (body.children[n] !== line) body.insertBefore(line, body.children[n] ?? null);
      });
      foot.hidden = rows.length > 0 && !more;
      foot.textContent = rows.length ? more : none;
    },
  };
}
