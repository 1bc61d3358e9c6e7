// One item as the server sees it: where it stands, what its watchers were told, who they are, and its image.

import { api, badge, button, duration, el, grouped } from "./dom.js";
import { blockItem, trace, unblockItem } from "./act.js";

const DOMAINS = { 6: "Market Price", 7: "Market By Order", 8: "Market By Price", 9: "Market Maker", 10: "Symbol List", 22: "Yield Curve", 4: "Source", 5: "Dictionary" };
const SNAPSHOT_DOMAINS = { 6: "MarketPrice", 7: "MarketByOrder", 8: "MarketByPrice", 9: "MarketMaker", 10: "SymbolList", 22: "YieldCurve" };

export function stateBadge(state) {
  return badge(state, state === "open" || state === "view" ? "good" : state === "suspect" ? "bad" : "warn");
}

export class Inspector {
  /** `feed` gives the page's session for market data, if there is one; `clientOf` what is known of a client by its id. */
  constructor(dialog, feed, clientOf) {
    this.dialog = dialog;
    this.feed = feed;
    this.clientOf = clientOf;
    dialog.addEventListener("close", () => this.left());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  open(item) {
    this.left();
    this.item = item;
    this.filter = "";
    this.live = null;
    this.head = el("div", { class: "sheet-head" });
    this.about = el("p", { class: "quiet" });
    this.changes = el("div", { class: "told" });
    this.watchers = el("div", { class: "watchers" });
    this.image = el("div", { class: "fields" });
    this.imageNote = el("p", { class: "note quiet" });
    this.search = el("input", { type: "search", class: "search", placeholder: "Filter fields", "aria-label": "Filter fields", oninput: () => this.paintImage() });
    this.dialog.replaceChildren(
      this.head, this.about,
      el("div", { class: "sheet-body" },
        el("section", {}, el("h3", { text: "What its watchers were told" }), this.changes, el("h3", { text: "Watchers" }), this.watchers),
        el("section", {}, el("div", { class: "card-head" }, el("h3", { text: "Image" }), this.search), this.image, this.imageNote)));
    this.detail = null;
    this.paintHead();
    this.dialog.showModal();
    this.refresh();
    this.timer = setInterval(() => this.refresh(), 1000);
  }

  left() {
    clearInterval(this.timer);
    this.stopLive?.();
    this.stopLive = null;
    this.item = null;
  }

  async refresh() {
    const { item } = this;
    if (!item) return;
    try {
      const detail = await api(`items/${encodeURIComponent(item.id)}`);
      if (this.item !== item) return;
      // The number may have gone to another item since.
      if (detail.item.name !== item.name || detail.item.service !== item.service) throw new Error("nobody watches it any more");
      this.detail = detail;
      this.gone = "";
    } catch (e) {
      if (this.item !== item) return;
      this.gone = e.message;
    }
    this.paintHead();
    this.paintLists();
    this.watchImage();
    this.paintImage();
  }

  paintHead() {
    const { item } = this;
    const now = this.detail?.item ?? item;
    const blocked = this.detail?.blocked;
    const again = () => this.refresh();
    this.head.replaceChildren(
      el("h2", { text: item.name }), el("span", { class: "quiet", text: `${item.service} · ${DOMAINS[item.domain] ?? `domain ${item.domain}`}` }),
      this.gone ? badge("gone", "bad") : stateBadge(now.state),
      el("span", { class: "buttons" },
        this.acts("Trace", () => trace(`items/${item.id}`, item.name)),
        blocked ? this.acts("Unblock", () => unblockItem(item.service, item.name, again)) : this.acts("Block", () => blockItem(item.service, item.name, again)),
        button("Close", () => this.dialog.close())));
    const source = this.detail?.source;
    this.about.textContent = this.gone || [blocked ? `Blocked: ${blocked}.` : "", `${grouped(now.watchers)} get its updates, ${grouped(now.held_watchers)} wait or have paused`,
      source === null || source === undefined ? "" : `from Source Distributor ${source}`].filter(Boolean).join(" · ");
  }

  /** A button for what has a dialog of its own: only one dialog is open at a time. */
  acts(text, does) {
    return button(text, () => {
      const { item } = this;
      this.dialog.close();
      does();
      document.getElementById("dialog").addEventListener("close", () => this.open(item), { once: true });
    });
  }

  paintLists() {
    const { detail } = this;
    if (!detail) return;
    const told = detail.changes.toReversed().slice(0, 50);
    this.changes.replaceChildren(...told.map((change) => el("div", { class: "told-line" },
      el("span", { class: "quiet", text: `${duration(change.ago_s)} ago` }),
      badge(`${change.stream}/${change.data}`, change.data === "OK" ? "good" : change.data === "SUSPECT" ? "bad" : "quiet"),
      el("span", { text: [change.text, change.code === "NONE" ? "" : change.code].filter(Boolean).join(" · ") }))));
    if (!told.length) this.changes.append(el("p", { class: "quiet", text: "Nothing of late. The last 8,192 changes of state of all items are remembered; images are not among them." }));
    const watchers = detail.watchers.slice(0, 100);
    this.watchers.replaceChildren(...watchers.map((watcher) => {
      const client = this.clientOf(watcher.client);
      return el("div", { class: "watcher" }, el("b", { text: client?.user || `client ${watcher.client}` }),
        el("span", { class: "quiet", text: [client?.application, client?.address, `stream ${watcher.stream}`].filter(Boolean).join(" · ") }));
    }));
    if (!watchers.length) this.watchers.append(el("p", { class: "quiet", text: "Nobody." }));
    if (detail.watchers.length > watchers.length) this.watchers.append(el("p", { class: "quiet", text: `and ${grouped(detail.watchers.length - watchers.length)} more` }));
  }

  /** Without a cache in the server, the page watches the item as any client would. */
  watchImage() {
    const { item, detail } = this;
    const feed = this.feed();
    if (this.stopLive || !item || this.gone || detail?.image || !feed || !SNAPSHOT_DOMAINS[item.domain]) return;
    this.stopLive = feed.watch(item.name, (live) => (this.live = live), SNAPSHOT_DOMAINS[item.domain], item.service);
  }

  paintImage() {
    const cached = this.detail?.image;
    const { live } = this;
    const fields = cached ? content(cached.refresh) : live ? { ...live.fields, ...entries(live.entries) } : {};
    const wanted = this.search.value.trim().toUpperCase();
    const names = Object.keys(fields).filter((name) => name.toUpperCase().includes(wanted));
    this.image.replaceChildren(...names.slice(0, 500).map((name) => el("div", { class: "field two" }, el("span", { text: name }), el("span", { class: "value", text: shown(fields[name]) }))));
    this.imageNote.textContent = cached ? `${grouped(names.length)} fields, out of the server's cache${cached.current ? "" : ", of before the loss"}`
      : live?.imaged ? `${grouped(names.length)} fields, as this page gets them` : live?.text || (this.gone ? "" : "Waiting for the image…");
  }
}

/** The fields of a refresh, or the entries of its map. */
function content(refresh) {
  const map = refresh.Map;
  if (!map) return refresh.Fields ?? {};
  return { ...map.Summary?.Fields, ...Object.fromEntries((map.Entries ?? []).map((entry) => [String(entry.Key), entry.Fields ?? ""])) };
}

function entries(map) {
  return Object.fromEntries(map ?? []);
}

function shown(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name} ${one}`).join("  ") : String(value);
}
