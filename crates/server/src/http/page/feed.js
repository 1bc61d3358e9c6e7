// Market data: one WebSocket session with the P2PS, as any client's (tr_json2). Items are opened once however many parts of the
// page watch them.

import { edited, Page } from "./pages.js";

const LOGIN = 1;
const FIRST = 5;
const RETRY_MS = [500, 1000, 2000, 5000];
const OPENS_PER_MESSAGE = 100;

/** A map's key as text. Keys of type Buffer come in base64; one that is no text stays so. */
function keyText(key, type) {
  if (type !== "Buffer") return String(key);
  try {
    const text = atob(key);
    return /^[ -~]*$/.test(text) ? text : key;
  } catch {
    return String(key);
  }
}

export class Feed extends EventTarget {
  constructor(urls, service) {
    super();
    this.urls = urls;
    this.service = service;
    this.items = new Map(); // by domain, name and service
    this.streams = new Map();
    this.next = FIRST;
    this.tries = 0;
    this.state = "connecting";
    this.why = "";
    this.updates = 0;
    this.opening = [];
    this.connect();
  }

  connect() {
    const url = this.urls[this.tries % this.urls.length];
    this.url = url;
    let socket;
    try {
      socket = new WebSocket(url, "tr_json2");
    } catch (e) {
      this.lost(String(e));
      return;
    }
    this.socket = socket;
    this.why = "";
    socket.onopen = () => {
      this.opened = true;
      this.send({ ID: LOGIN, Domain: "Login", Key: { Name: "web", Elements: { ApplicationId: "256", ApplicationName: "Quoteway page", Position: "127.0.0.1/browser" } } });
    };
    socket.onmessage = (event) => this.take(event.data);
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.lost(this.why || event.reason || (this.opened ? "the session has ended" : "no WebSocket session at " + url));
    };
  }

  lost(why) {
    this.socket = null;
    this.opened = false;
    this.set("lost", why);
    for (const item of this.items.values()) {
      if (item.data === "Ok") item.data = "Suspect";
      item.text = why;
      item.dirty = true;
      this.notify(item);
    }
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    setTimeout(() => this.connect(), wait);
  }

  set(state, why = "") {
    this.state = state;
    this.why = why;
    this.dispatchEvent(new Event("state"));
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  take(text) {
    let messages;
    try {
      messages = JSON.parse(text);
    } catch {
      return;
    }
    const now = Date.now();
    for (const message of Array.isArray(messages) ? messages : [messages]) {
      if (message.Type === "Ping") this.send({ Type: "Pong" });
      else if (message.ID === LOGIN) this.login(message);
      else if (message.Type === "Error") console.warn("the server could not read a message of this page", message);
      else this.item(message, now);
    }
  }

  login(message) {
    if (message.State?.Stream && message.State.Stream !== "Open") {
      this.why = message.State.Text || "the login was refused";
      return;
    }
    if (message.Type !== "Refresh") return;
    this.tries = 0;
    this.streams.clear();
    this.set("open");
    for (const item of this.items.values()) this.request(item);
  }

  item(message, now) {
    const item = this.streams.get(message.ID);
    if (!item) return;
    const was = item.data;
    if (message.State) {
      item.data = message.State.Data ?? item.data;
      item.stream = message.State.Stream ?? item.stream;
      item.text = message.State.Text ?? "";
      item.code = message.State.Code ?? "";
    }
    if (message.Key?.Service) item.service = message.Key.Service;
    if (message.Type === "Refresh") {
      if (message.ClearCache !== false && !message.partial) item.fields = {};
      if (message.Key?.Name) item.known = message.Key.Name;
      item.imaged = true;
      if (!message.State) item.data = "Ok";
    }
    if (message.Fields) {
      item.changed = message.Fields;
      for (const [name, value] of Object.entries(message.Fields)) {
        item.fields[name] = typeof value === "string" && value.includes("\x1b[") ? edited(String(item.fields[name] ?? ""), value) : value;
      }
    }
    if (message.AnsiPage !== undefined) {
      item.page ??= new Page();
      if (message.Type === "Refresh") item.page.refresh(message.AnsiPage, now);
      else item.page.apply(message.AnsiPage, now);
    }
    if (message.Map) this.map(item, message);
    if (message.Type === "Update") {
      item.updates += 1;
      this.updates += 1;
      item.at = now;
    } else if (message.Type === "Refresh") item.at = now;
    if (item.stream === "Closed" || item.stream === "ClosedRecover") this.streams.delete(message.ID);
    this.notify(item, message, was);
  }

  /** Entries of a map, as order books have. */
  map(item, message) {
    if (message.Type === "Refresh" && !item.parts) item.entries = new Map();
    if (message.Type === "Refresh") item.parts = message.Complete === false;
    if (message.Map.Summary?.Fields) Object.assign(item.fields, message.Map.Summary.Fields);
    for (const entry of message.Map.Entries ?? []) {
      const key = keyText(entry.Key, message.Map.KeyType);
      if (entry.Action === "Delete") item.entries.delete(key);
      else item.entries.set(key, { ...(item.entries.get(key) ?? {}), ...(entry.Fields ?? {}) });
    }
  }

  notify(item, message, was) {
    for (const listener of item.listeners) listener(item, message, was);
  }

  /** Watches an item, of the usual service unless another one is named; the result ends that. */
  watch(name, listener, domain = "MarketPrice", service = "") {
    const from = service === this.service ? "" : service;
    const key = [domain, name, from].join("\n");
    let item = this.items.get(key);
    if (!item) {
      item = { name, domain, key, from, fields: {}, entries: new Map(), listeners: new Set(), data: "", stream: "", text: "", updates: 0, imaged: false, at: 0 };
      this.items.set(key, item);
      this.request(item);
    }
    item.listeners.add(listener);
    if (item.imaged || item.data) listener(item);
    return () => {
      item.listeners.delete(listener);
      if (item.listeners.size === 0 && this.items.get(key) === item) {
        this.items.delete(key);
        if (this.streams.delete(item.id)) this.send({ ID: item.id, Type: "Close" });
      }
    };
  }

  request(item) {
    if (this.state !== "open") return;
    this.opening.push(item);
    if (this.opening.length === 1) queueMicrotask(() => this.flush());
  }

  flush() {
    const opening = this.opening.splice(0).filter((item) => this.items.get(item.key) === item);
    for (let from = 0; from < opening.length; from += OPENS_PER_MESSAGE) {
      const requests = opening.slice(from, from + OPENS_PER_MESSAGE).map((item) => {
        item.id = this.next++;
        item.parts = false;
        this.streams.set(item.id, item);
        const request = { ID: item.id, Key: { Name: item.name } };
        const service = item.from || this.service;
        if (service) request.Key.Service = service;
        if (item.domain !== "MarketPrice") request.Domain = item.domain;
        // All of a dictionary but the comments.
        if (item.domain === "Dictionary") request.Key.Filter = 7;
        return request;
      });
      this.send(requests.length === 1 ? requests[0] : requests);
    }
  }
}
