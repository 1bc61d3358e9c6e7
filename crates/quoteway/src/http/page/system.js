// The system: who provides, who serves, who watches; what happens; and what an operator can do about it.

import { api, bytes, clock, duration, el, grouped, short, svg, toast } from "./dom.js";

const SHOWN = 9;

export class System {
  constructor(root, process) {
    this.root = root;
    this.process = process;
    this.events = [];
    this.last = null;
    this.rates = {};
    this.build();
  }

  build() {
    this.cards = el("div", { class: "cards" });
    this.picture = el("div", { class: "picture card" });
    this.services = table(["Service", "State", "Waiting", "Suspect", "Served by"]);
    this.providers = table(["Provider", "Kind", "State", "Services", ""]);
    this.clients = table(["Client", "User", "Application", "Protocol", "Items", "Waiting", "Here for", ""]);
    this.items = table(["Item", "Service", "State", "Watchers"]);
    this.log = el("div", { class: "log" });
    this.clientSearch = el("input", { type: "search", class: "search", placeholder: "Filter clients", "aria-label": "Filter clients", oninput: () => this.refresh() });
    this.itemSearch = el("input", { type: "search", class: "search", placeholder: "Filter items", "aria-label": "Filter items", oninput: () => this.refresh() });
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
        el("section", { class: "card" }, el("div", { class: "card-head" }, el("h2", { text: "Items" }), this.itemSearch), this.items.element),
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
      const [process, services, providers, clients, items, events] = await Promise.all([
        api("process"), api("services"), api("providers"), api(`clients?limit=200&contains=${wanted(this.clientSearch)}`),
        api(`items?limit=100&contains=${wanted(this.itemSearch)}`), api(`events?after=${after}`),
      ]);
      this.measure(process);
      this.process = process;
      this.paintCards(process);
      this.paintPicture(process, services, providers, clients);
      this.paintServices(services);
      this.paintProviders(providers);
      this.paintClients(clients);
      this.paintItems(items);
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
      ["Clients", grouped(totals.clients), totals.clients_behind ? `${totals.clients_behind} behind` : "none behind", totals.clients_behind > 0],
      ["Items", grouped(totals.items || totals.source_items), `${grouped(totals.watchers)} watchers, ${grouped(totals.items_waiting)} waiting`, totals.items_waiting > 0],
      ["Latency in here", worst ? `≤ ${micros(worst)}` : "–", worst ? `99 % of turns; half within ${micros(median)}` : "no samples yet"],
      ["Traffic", `${bytes(this.rates.sent)}/s`, `out; ${bytes(this.rates.received)}/s in`],
      ["Up", duration(process.uptime_s), `${process.role} ${process.version} on ${process.host}`, silent.length > 0 || process.draining],
    ];
    this.cards.replaceChildren(...cards.map(([title, value, about, bad]) =>
      el("div", { class: "card figure" + (bad ? " warn" : "") }, el("span", { class: "quiet", text: title }), el("b", { text: value }), el("span", { class: "quiet", text: about }))));
    this.drain.textContent = process.draining ? "End draining" : "Drain";
    this.drain.classList.toggle("warn", process.draining);
  }

  /** Providers on the left, this process, clients on the right; rates on the arrows. */
  paintPicture(process, services, providers, clients) {
    const width = Math.max(320, this.picture.clientWidth - 24);
    const narrow = width < 620;
    const groups = groupClients(clients.found);
    const left = providers.slice(0, SHOWN).map((provider) => ({
      title: provider.address, about: provider.services.join(", ") || provider.state, bad: provider.state !== "ready",
      label: count(services, provider),
    }));
    const right = groups.slice(0, SHOWN).map((group) => ({
      title: group.title, about: `${grouped(group.count)} × ${group.protocol}`, bad: group.waiting > 1e6 || group.held > 0,
      label: `${grouped(group.items)} items` + (group.waiting ? `, ${bytes(group.waiting)} waiting` : ""),
    }));
    if (!left.length) left.push({ title: "no provider", about: "", bad: true, label: "" });
    if (!right.length) right.push({ title: "no client", about: "", bad: false, none: true, label: "" });
    const box = { w: narrow ? 108 : Math.min(230, width * 0.24), h: 46 };
    const gap = 60;
    const rows = Math.max(left.length, right.length, 2);
    const height = rows * gap + 16;
    const middle = { x: width / 2, y: height / 2, w: narrow ? 84 : 190, h: 64 };
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Providers, this process and its clients" });
    const column = (nodes, isLeft) => nodes.forEach((node, n) => {
      const y = (height / nodes.length) * (n + 0.5);
      const x = isLeft ? 2 : width - box.w - 2;
      const from = isLeft ? [x + box.w, y] : [middle.x + middle.w / 2, middle.y];
      const to = isLeft ? [middle.x - middle.w / 2, middle.y] : [x, y];
      const bend = (from[0] + to[0]) / 2;
      if (!node.none) drawing.append(svg("path", { class: "arrow" + (node.bad ? " bad" : ""), d: `M${from[0]} ${from[1]} C${bend} ${from[1]} ${bend} ${to[1]} ${to[0]} ${to[1]}` }));
      const label = isLeft ? [from[0] + 10, y - 7, "start"] : [to[0] - 10, y - 7, "end"];
      if (!narrow && node.label) drawing.append(svg("text", { class: "label", x: label[0], y: label[1], "text-anchor": label[2], text: node.label }));
      drawing.append(
        svg("rect", { class: "node" + (node.bad ? " bad" : "") + (node.none ? " none" : ""), x, y: y - box.h / 2, width: box.w, height: box.h, rx: 8 }),
        svg("text", { class: "name", x: x + 12, y: y - 3, text: cut(node.title, box.w - 20, 7.2) }),
        svg("text", { class: "label", x: x + 12, y: y + 14, text: cut(node.about, box.w - 20, 6.2) }));
    });
    column(left, true);
    column(right, false);
    const sick = process.draining || process.threads.some((thread) => !thread.answers);
    drawing.append(
      svg("rect", { class: "node here" + (sick ? " bad" : ""), x: middle.x - middle.w / 2, y: middle.y - middle.h / 2, width: middle.w, height: middle.h, rx: 10 }),
      svg("text", { class: "name centre", x: middle.x, y: middle.y - 8, "text-anchor": "middle", text: narrow ? process.role : `${process.role} on ${cut(process.host, 90, 7.2)}` }),
      svg("text", { class: "label centre", x: middle.x, y: middle.y + 9, "text-anchor": "middle", text: `${short(this.rates.in)} in/s` }),
      svg("text", { class: "label centre", x: middle.x, y: middle.y + 24, "text-anchor": "middle", text: `${short(this.rates.out)} out/s` }));
    this.picture.replaceChildren(drawing);
    const more = Math.max(0, providers.length - SHOWN) + Math.max(0, groups.length - SHOWN);
    if (more) this.picture.append(el("p", { class: "quiet", text: `and ${more} more; the tables below have all` }));
  }

  paintServices(services) {
    this.services.fill(services.map((service) => ({ key: service.name, bad: !service.up, cells: [
      service.name, badge(service.up ? (service.accepting ? "up" : "up, takes no requests") : "down", service.up ? (service.accepting ? "good" : "warn") : "bad"),
      grouped(service.waiting), grouped(service.suspect), service.providers.filter((offer) => offer.up).map((offer) => offer.address).join(", ") || "–",
    ] })), "No service is known.");
  }

  paintProviders(providers) {
    this.providers.fill(providers.map((provider) => ({ key: provider.id || provider.address, bad: provider.state !== "ready", cells: [
      provider.address, provider.kind, badge(provider.state, provider.state === "ready" ? "good" : "bad"), provider.services.join(", "),
      provider.id ? button("Disconnect", () => this.act(`providers/${provider.id}/disconnect`, `End the session with ${provider.address}?`, "Its items go to other providers; a route is dialled again.")) : "",
    ] })), "No provider.");
  }

  paintClients(clients) {
    this.clients.fill(clients.found.map((client) => ({ key: client.id, bad: client.held_back, cells: [
      client.address, client.user || "–", client.application ? `${client.application} (${client.application_id})` : client.program, client.protocol,
      grouped(client.items), bytes(client.queued_bytes), duration(client.connected_s),
      button("Disconnect", () => this.act(`clients/${client.id}/disconnect`, `Disconnect ${client.user || "the client"} at ${client.address}?`, "The connection is closed; most clients connect again by themselves.")),
    ], title: client.program })), "No client.", clients.next ? "more: narrow the filter" : "");
  }

  paintItems(items) {
    this.items.fill(items.found.map((item) => ({ key: item.id, bad: item.state === "suspect", cells: [
      item.name, item.service, badge(item.state, item.state === "open" || item.state === "view" ? "good" : item.state === "suspect" ? "bad" : "warn"), grouped(item.watchers + item.held_watchers),
    ] })), "No item.", items.next ? "more: narrow the filter" : "");
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

  /** Asks why, does it, says what came of it. */
  act(path, question, about, extra = {}) {
    const dialog = document.getElementById("dialog");
    const why = el("input", { type: "text", required: true, maxlength: 200, placeholder: "Why? Goes to the log and to the peer.", "aria-label": "Why" });
    const form = el("form", { method: "dialog" }, why, el("div", { class: "buttons" },
      el("button", { class: "plain", type: "button", text: "Cancel", onclick: () => dialog.close() }), el("button", { class: "danger", text: "Do it" })));
    form.addEventListener("submit", async () => {
      try {
        toast((await api(path, { why: why.value, ...extra })).done);
      } catch (e) {
        toast(e.message, true);
      }
      this.refresh();
    });
    dialog.replaceChildren(el("h2", { text: question }), el("p", { class: "quiet", text: about }), form);
    dialog.showModal();
    why.focus();
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

function micros(us) {
  return us >= 1000 ? `${us / 1000} ms` : `${us} µs`;
}

function cut(text, width, per) {
  const room = Math.max(3, Math.floor(width / per));
  return text.length > room ? text.slice(0, room - 1) + "…" : text;
}

function count(services, provider) {
  const open = services.flatMap((service) => service.providers).filter((offer) => offer.provider === provider.id).reduce((sum, offer) => sum + offer.open, 0);
  return provider.id ? `${grouped(open)} items` : "";
}

/** Clients of one user, application and protocol as one. */
function groupClients(clients) {
  const groups = new Map();
  for (const client of clients) {
    const key = [client.user, client.application, client.protocol].join("\n");
    const group = groups.get(key) ?? { title: [client.user || "no login", client.application].filter(Boolean).join(" · "), protocol: client.protocol, count: 0, items: 0, waiting: 0, held: 0 };
    group.count += 1;
    group.items += client.items;
    group.waiting += client.queued_bytes;
    group.held += Number(client.held_back);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.held - a.held || b.waiting - a.waiting || b.items - a.items);
}

function badge(text, kind) {
  return el("span", { class: "badge " + kind, text });
}

function button(text, onclick) {
  return el("button", { class: "plain small", text, onclick });
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
        line.className = row.bad ? "bad" : "";
        line.title = row.title ?? "";
        row.cells.forEach((cell, at) => {
          const td = line.children[at];
          if (typeof cell === "string") {
            if (td.textContent !== cell) td.textContent = cell;
          } else if (!(cell.tagName === "BUTTON" && td.firstChild)) td.replaceChildren(cell);
        });
        if (body.children[n] !== line) body.insertBefore(line, body.children[n] ?? null);
      });
      foot.hidden = rows.length > 0 && !more;
      foot.textContent = rows.length ? more : none;
    },
  };
}
