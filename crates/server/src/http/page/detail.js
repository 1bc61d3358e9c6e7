// One item: its figures, the chart of the session, its order book, its trades, and the whole image.

import { api, clock, clockFine, el, grouped, kept } from "./dom.js";
import { decimals } from "./market.js";
import { PageView, recordRows } from "./pages.js";

const TABS = [["chart", "Chart"], ["book", "Book"], ["trades", "Trades"], ["fields", "Fields"], ["cells", "Page"]];
const FIGURES = [
  ["Bid", "BID"], ["Ask", "ASK"], ["Open", "OPEN_PRC"], ["High", "HIGH_1"], ["Low", "LOW_1"], ["Prev. close", "HST_CLOSE"], ["Volume", "ACVOL_1", "size"], ["Trades", "NUM_MOVES", "size"],
];
const LEVELS = 12;
/** How often the past of an item is asked for that the server cannot tell of yet, milliseconds. */
const PAST_AGAIN = 1000;
/** How much of the session the chart shows, in seconds; 0: all of it. */
const SPANS = [[60, "1 min"], [300, "5 min"], [1800, "30 min"], [0, "Session"]];
/** Steps of the time axis: its labels have whole seconds. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];

/** The prices of the chart's axis: those that there are, with room around them; a few ticks, or a price that stands still, fill no axis from 0. */
function around(low, high, digits) {
  if (low === null || low === undefined || high === null || high === undefined) return [0, 1];
  const room = Math.max((high - low) * 0.1, 5 * 10 ** -digits, Math.abs(high) * 2e-4);
  return [low - room, high + room];
}

/** The side of a level: what its field says, or else the last letter of its key (`18499B`, `18501A`; `S` of an order that is sold). */
function sideOf(field, key) {
  const text = String(field ?? "").trim();
  return (text ? /^(bid|buy|1$)/i.test(text) : /B$/.test(key)) ? "bid" : "ask";
}

export class Detail {
  constructor(root, feed, close) {
    this.root = root;
    this.feed = feed;
    this.row = null;
    this.shown = kept.get("tab", "chart");
    this.head = el("div", { class: "detail-head" });
    this.figures = el("dl", { class: "stats" });
    this.tabs = el("div", { class: "tabs", role: "tablist" }, TABS.map(([id, title], n) =>
      el("button", { role: "tab", "data-tab": id, text: title, title: `${title} (${n + 1})`, onclick: () => this.tab(id) })));
    this.pane = el("div", { class: "pane", role: "tabpanel" });
    this.root.append(
      el("div", { class: "detail-bar" },
        el("button", { class: "icon back", title: "Close (Esc)", "aria-label": "Close", text: "✕", onclick: close }),
        this.head),
      this.figures, this.tabs, this.pane);
    new ResizeObserver(() => this.resize()).observe(this.pane);
    this.types = null;
  }

  open(row) {
    if (this.row === row) return;
    this.leave();
    this.row = row;
    this.lastPrice = null;
    this.past(row);
    this.headPaint();
    this.tab(this.startTab());
  }

  /** Asks the server what it remembers of the item, once its service is known; from then on it remembers. */
  async past(row) {
    while (row.past === undefined && this.row === row) {
      const service = row.item?.service ?? this.feed.service;
      let told;
      try {
        if (row.item?.imaged && service) told = await api(`history/${encodeURIComponent(service)}/${encodeURIComponent(row.name)}`);
      } catch (e) {
        row.past = e.message;
        return;
      }
      if (told && !told.waiting) {
        row.past = "";
        row.series.adopt(told);
        this.changed = true;
        return;
      }
      await new Promise((again) => setTimeout(again, PAST_AGAIN));
    }
  }

  /** The page where the item is one, else what was looked at last. */
  startTab() {
    if (this.isPage()) return "cells";
    return this.shown === "cells" ? kept.get("tab", "chart") : this.shown;
  }

  isPage() {
    const item = this.row?.item;
    return Boolean(item?.page) || recordRows(item?.fields ?? {}) !== null;
  }

  close() {
    this.leave();
    this.row = null;
  }

  leave() {
    this.stopBook?.();
    this.stopBook = null;
    this.book = null;
    this.chart?.destroy();
    this.chart = null;
  }

  tab(id) {
    if (!this.row) return;
    this.shown = id;
    if (id !== "cells") kept.set("tab", id);
    // Eighty columns want more room than a chart.
    this.root.classList.toggle("wide", id === "cells");
    for (const button of this.tabs.children) {
      button.setAttribute("aria-selected", String(button.dataset.tab === id));
      if (button.dataset.tab === "cells") button.hidden = !this.isPage();
    }
    this.knownPage = this.isPage();
    this.leave();
    this.pane.replaceChildren();
    this.pane.className = "pane " + id;
    if (id === "chart") this.chartOpen();
    if (id === "book") this.bookOpen();
    if (id === "trades") this.tradesOpen();
    if (id === "fields") this.fieldsOpen();
    if (id === "cells") this.pageOpen();
  }

  take(row, message) {
    this.changed = true;
    if (message?.Fields && this.fieldRows) {
      for (const name of Object.keys(message.Fields)) this.fieldChanges?.add(name);
    }
  }

  draw(now) {
    if (!this.row || !this.changed) return;
    if (now - (this.drawn ?? 0) < 80) return;
    this.drawn = now;
    this.changed = false;
    // That an item is a page shows with its image.
    if (this.isPage() && !this.knownPage) this.tab("cells");
    this.headPaint();
    if (this.shown === "chart") this.chartPaint(now);
    if (this.shown === "book") this.bookPaint();
    if (this.shown === "trades") this.tradesPaint();
    if (this.shown === "fields") this.fieldsPaint();
    if (this.shown === "cells") this.pagePaint();
  }

  price(value) {
    return typeof value === "number" ? value.toFixed(Math.max(this.row.decimals, Math.min(4, decimals(value)))) : (value ?? "");
  }

  headPaint() {
    const { row } = this;
    const item = row.item;
    const fields = item?.fields ?? {};
    const last = fields.TRDPRC_1 ?? row.price;
    const change = fields.NETCHNG_1;
    const percent = fields.PCTCHNG;
    const move = typeof last === "number" && typeof this.lastPrice === "number" ? Math.sign(last - this.lastPrice) : 0;
    this.lastPrice = last;
    const isBad = item?.data && item.data !== "Ok";
    const service = item?.service ?? this.feed.service ?? "";
    this.head.replaceChildren(...[
      el("div", { class: "title" }, el("h1", { text: row.name }), el("span", { class: "quiet", text: [fields.DSPLY_NAME === row.name ? null : fields.DSPLY_NAME, service, fields.CURRENCY].filter(Boolean).join(" · ") })),
      el("div", { class: "quote" },
        last === undefined && this.isPage() ? null : el("span", { class: "big" + (move > 0 ? " gain" : move < 0 ? " loss" : ""), text: this.price(last) || "–" }),
        typeof change === "number" ? el("span", { class: change > 0 ? "gain" : change < 0 ? "loss" : "quiet", text: `${change > 0 ? "+" : ""}${this.price(change)}${typeof percent === "number" ? ` (${percent > 0 ? "+" : ""}${percent.toFixed(2)} %)` : ""}` }) : null,
        el("span", { class: "badge " + (isBad ? "bad" : item?.imaged ? "good" : "quiet"), text: isBad ? item.data : item?.imaged ? "Ok" : "waiting", title: item?.text ?? "" })),
      isBad && item.text ? el("p", { class: "why", text: item.text }) : null].filter(Boolean));
    this.figures.replaceChildren(...FIGURES.filter(([, field]) => fields[field] !== undefined && fields[field] !== null).map(([title, field, kind]) =>
      el("div", {}, el("dt", { text: title }), el("dd", { text: kind === "size" ? grouped(fields[field]) : this.price(fields[field]) }))));
  }

  // The chart of the session.

  chartOpen() {
    this.chartBox = el("div", { class: "chart-box", role: "img" });
    this.span = kept.get("span", 0);
    this.zoomed = false;
    this.spans = el("div", { class: "spans", role: "group", "aria-label": "Time shown" }, SPANS.map(([seconds, title]) =>
      el("button", { text: title, "aria-pressed": String(seconds === this.span), onclick: () => this.spanOf(seconds) })));
    this.pane.append(this.spans, this.chartBox);
    requestAnimationFrame(() => this.chartMake());
  }

  chartMake() {
    if (this.shown !== "chart" || !this.row || this.chart || !this.chartBox.isConnected) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { clientWidth, clientHeight } = this.chartBox;
    if (clientWidth < 50 || clientHeight < 50) return;
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const digits = () => this.row?.decimals ?? 2;
    this.chart = new uPlot({
      width: clientWidth, height: clientHeight, padding: [12, 8, 0, 0],
      legend: { show: false }, cursor: { points: { size: 7 }, drag: { x: true, y: false } },
      scales: { x: { time: true, range: (_, low, high) => this.timesOf(low, high) }, y: { range: (_, low, high) => around(low, high, digits()) } },
      axes: [
        // Whole minutes have no seconds.
        { ...axis, incrs: SECONDS, values: (plot, splits, at, room, step) => splits.map((s) => (plot.valToPos(s, "x") < 24 ? "" : clock(s * 1000).slice(0, step < 60 ? 8 : 5))), space: 70 },
        { ...axis, side: 1, size: 64, space: 36, values: (_, splits) => splits.map((v) => v.toFixed(digits())).map((text, n, all) => (text === all[n - 1] ? "" : text)) },
      ],
      series: [
        {}, { stroke: colour("--accent"), width: 1.6, fill: colour("--accent-soft"), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) },
        // Between the highest and the lowest price of each minute.
        { points: { show: false } }, { points: { show: false } },
      ],
      bands: [{ series: [2, 3], fill: colour("--accent-soft") }],
      plugins: [{ hooks: { setCursor: (plot) => this.cursor(plot), setSelect: (plot) => { this.zoomed ||= plot.select.width > 0; }, setScale: (plot, scale) => this.scaled(plot, scale) } }],
    }, this.row.series.data(), this.chartBox);
    this.tip = el("div", { class: "tip", hidden: true });
    this.chartBox.append(this.tip);
    // What was chosen with the mouse stays until a double click, or until another span is chosen.
    this.chart.over.addEventListener("dblclick", () => this.spanOf(this.span));
    this.charted = performance.now();
    this.note();
  }

  /** The times of the axis: what the mouse has chosen, or the end of the session. */
  timesOf(low, high) {
    if (this.zoomed || !this.span || typeof high !== "number") return [low, high];
    const [times] = this.row?.series.data() ?? [[]];
    const last = times.at(-1) ?? high;
    return [Math.max(times[0] ?? low, last - this.span), last];
  }

  /** Says which times are shown to those who do not see the axis. */
  scaled(plot, scale) {
    const { min, max } = plot.scales.x;
    if (scale === "x" && typeof min === "number") this.chartBox.setAttribute("aria-label", `Chart from ${clockFine(min * 1000)} to ${clockFine(max * 1000)}`);
  }

  spanOf(seconds) {
    this.span = seconds;
    kept.set("span", seconds);
    this.zoomed = false;
    for (const [n, button] of [...this.spans.children].entries()) button.setAttribute("aria-pressed", String(SPANS[n][0] === seconds));
    this.chart?.setData(this.row.series.data());
  }

  note() {
    this.chartNote?.remove();
    this.chartNote = null;
    if (this.row.series.data()[0].length < 2) {
      this.chartNote = el("p", { class: "note quiet", text: "The chart begins with the first price that comes." });
      this.chartBox.append(this.chartNote);
    }
    // Without a price there is nothing that axes could be of.
    this.chartBox.classList.toggle("empty", Boolean(this.chartNote));
  }

  cursor(plot) {
    const at = plot.cursor.idx;
    this.tip.hidden = at === null || at === undefined;
    if (this.tip.hidden) return;
    this.tip.textContent = `${clock(plot.data[0][at] * 1000)}  ${this.price(plot.data[1][at])}`;
  }

  chartPaint(now) {
    if (!this.chart) return this.chartMake();
    if (now - this.charted < 250) {
      this.changed = true;
      return undefined;
    }
    this.charted = now;
    if (this.chartNote) this.note();
    this.chart.setData(this.row.series.data(), !this.zoomed);
    if (this.zoomed) this.chart.redraw();
    return undefined;
  }

  resize() {
    if (this.chart && this.chartBox.clientWidth > 50 && this.chartBox.clientHeight > 50) this.chart.setSize({ width: this.chartBox.clientWidth, height: this.chartBox.clientHeight });
    else if (this.shown === "chart" && this.row) this.chartMake();
  }

  restyle() {
    if (this.row) this.tab(this.shown);
  }

  // The order book: price levels, or else the best quote of the image.

  bookOpen() {
    this.ladder = el("div", { class: "ladder" });
    this.bookNote = el("p", { class: "note quiet" });
    this.pane.append(this.ladder, this.bookNote);
    this.stopBook = this.feed.watch(this.row.name, (item) => {
      this.book = item;
      this.changed = true;
    }, "MarketByPrice");
    this.changed = true;
  }

  levels() {
    const sides = { bid: [], ask: [] };
    for (const [key, fields] of this.book?.entries ?? []) {
      const price = fields.ORDER_PRC ?? fields.LIMIT_PRC ?? Number.parseFloat(key);
      const side = sideOf(fields.ORDER_SIDE, key);
      const size = fields.ACC_SIZE ?? fields.ORDER_SIZE ?? null;
      if (typeof price === "number" && !Number.isNaN(price)) sides[side].push({ price, size, orders: fields.NO_ORD ?? null });
    }
    const fields = this.row.item?.fields ?? {};
    let whole = sides.bid.length + sides.ask.length > 0;
    if (!whole) {
      for (let n = 1; n <= 10; n++) {
        const at = (base, first) => fields[n === 1 ? first : `${base}${n}`] ?? fields[`${base}${n}`];
        const bid = fields[`BEST_BID${n}`] ?? (n === 1 ? fields.BID : undefined);
        const ask = fields[`BEST_ASK${n}`] ?? (n === 1 ? fields.ASK : undefined);
        if (typeof bid === "number") sides.bid.push({ price: bid, size: at("BEST_BSIZ", "BIDSIZE"), orders: null });
        if (typeof ask === "number") sides.ask.push({ price: ask, size: at("BEST_ASIZ", "ASKSIZE"), orders: null });
      }
    }
    sides.bid.sort((a, b) => b.price - a.price);
    sides.ask.sort((a, b) => a.price - b.price);
    return { bid: sides.bid.slice(0, LEVELS), ask: sides.ask.slice(0, LEVELS), whole };
  }

  bookPaint() {
    const { bid, ask, whole } = this.levels();
    const most = Math.max(1, ...[...bid, ...ask].map((level) => level.size ?? 0));
    const bar = (level) => el("span", { class: "bar", style: `width:${((level.size ?? 0) / most) * 100}%` });
    const sizes = (level) => el("span", { class: "size" }, bar(level), el("b", { text: grouped(level.size) }));
    const orders = (level) => el("span", { class: "orders quiet", text: level.orders ? grouped(level.orders) : "" });
    const none = () => el("span");
    const line = (side, level) => el("div", { class: "level " + side }, ...(side === "bid" ? [orders(level), sizes(level)] : [none(), none()]),
      el("span", { class: "price " + (side === "bid" ? "gain" : "loss"), text: this.price(level.price) }),
      ...(side === "ask" ? [sizes(level), orders(level)] : [none(), none()]));
    const counts = [...bid, ...ask].some((level) => level.orders);
    const spread = bid.length && ask.length ? ask[0].price - bid[0].price : null;
    this.ladder.replaceChildren(
      el("div", { class: "level heads quiet" }, ...[counts ? "Orders" : "", "Bid size", "Price", "Ask size", counts ? "Orders" : ""].map((text) => el("span", { text }))),
      ...ask.toReversed().map((level) => line("ask", level)),
      el("div", { class: "spread quiet", text: spread === null ? "" : `spread ${this.price(Math.round(spread * 1e6) / 1e6)}` }),
      ...bid.map((level) => line("bid", level)));
    this.bookNote.textContent = whole ? `${grouped(this.book.entries.size)} price levels (Market By Price)`
      : bid.length + ask.length ? "The best quotes of the image: the service has no order book of this item." : "No quotes.";
  }

  // Time and sales.

  tradesOpen() {
    this.tape = el("div", { class: "tape" });
    this.pane.append(this.tape);
    this.changed = true;
  }

  tradesPaint() {
    const { sales } = this.row.series;
    if (!sales.length) {
      this.tape.replaceChildren(el("p", { class: "note quiet", text: "No trade yet." }));
      return;
    }
    this.tape.replaceChildren(
      el("div", { class: "sale quiet" }, el("span", { text: "Time" }), el("span", { text: "Price" }), el("span", { text: "Size" })),
      ...sales.slice(0, 200).map((sale) => el("div", { class: "sale" },
        el("span", { class: "quiet", text: clockFine(sale.at) }),
        el("span", { class: sale.tick === "up" ? "gain" : sale.tick === "down" ? "loss" : "", text: this.price(sale.price) }),
        el("span", { text: grouped(sale.size) }))));
  }

  // A page.

  pageOpen() {
    this.pageView = new PageView(this.pane);
    this.changed = true;
  }

  pagePaint() {
    // What fades has to be drawn again when nothing comes as well.
    if (this.isPage() && this.pageView.paint(this.row.item, Date.now())) this.changed = true;
  }

  // The whole image.

  fieldsOpen() {
    this.fieldFilter = el("input", { type: "search", class: "search", placeholder: "Filter fields", "aria-label": "Filter fields", oninput: () => this.fieldsAll() });
    this.fieldTable = el("div", { class: "fields" });
    this.pane.append(this.fieldFilter, this.fieldTable);
    this.fieldChanges = new Set();
    this.fieldRows = new Map();
    this.fieldsAll();
    if (!this.types) this.learnTypes();
  }

  fieldsAll() {
    const filter = this.fieldFilter.value.trim().toUpperCase();
    const fields = this.row.item?.fields ?? {};
    this.fieldRows = new Map();
    const names = Object.keys(fields).filter((name) => name.includes(filter)).sort((a, b) => (this.types?.get(a)?.fid ?? 0) - (this.types?.get(b)?.fid ?? 0) || a.localeCompare(b));
    this.fieldTable.replaceChildren(
      el("div", { class: "field quiet" }, el("span", { text: "FID" }), el("span", { text: "Field" }), el("span", { text: "Type" }), el("span", { text: "Value" })),
      ...names.map((name) => {
        const value = el("span", { class: "value", text: this.shownValue(fields[name]) });
        const type = this.types?.get(name);
        this.fieldRows.set(name, value);
        return el("div", { class: "field", title: type?.long ?? "" },
          el("span", { class: "quiet", text: type ? String(type.fid) : "" }), el("span", { text: name }), el("span", { class: "quiet", text: type?.type ?? kindOf(fields[name]) }), value);
      }));
    if (!names.length) this.fieldTable.append(el("p", { class: "note quiet", text: "No fields." }));
  }

  fieldsPaint() {
    const fields = this.row.item?.fields ?? {};
    let missing = false;
    for (const name of this.fieldChanges) {
      const value = this.fieldRows.get(name);
      if (!value) missing = true;
      else {
        value.textContent = this.shownValue(fields[name]);
        value.classList.remove("touched");
        void value.offsetWidth;
        value.classList.add("touched");
      }
    }
    this.fieldChanges.clear();
    if (missing && !this.fieldFilter.value) this.fieldsAll();
  }

  /** JSON leaves the last zeros out: what is no whole number has at least the decimals of the item's prices. */
  shownValue(value) {
    if (typeof value !== "number" || Number.isInteger(value)) return show(value);
    return value.toFixed(Math.max(this.row.decimals, decimals(value)));
  }

  /** Numbers, types and long names of the fields, from the dictionary that the service gives every client. */
  learnTypes() {
    this.types = new Map();
    const stop = this.feed.watch("RWFFld", (_, message) => {
      for (const entry of message?.Series?.Entries ?? []) {
        const e = entry.Elements ?? {};
        const name = text(e.NAME);
        if (name) this.types.set(name, { fid: Number(data(e.FID)), type: RWF_TYPES[data(e.RWFTYPE)] ?? String(data(e.RWFTYPE) ?? ""), long: text(e.LONGNAME) });
      }
      if (message?.Series && message.Complete !== false) {
        queueMicrotask(stop);
        if (this.shown === "fields" && this.row) this.fieldsAll();
      }
    }, "Dictionary");
  }
}

const RWF_TYPES = { 3: "INT", 4: "UINT", 5: "FLOAT", 6: "DOUBLE", 8: "REAL", 9: "DATE", 10: "TIME", 11: "DATETIME", 12: "QOS", 13: "STATE", 14: "ENUM", 15: "ARRAY", 16: "BUFFER", 17: "ASCII", 18: "UTF8", 19: "RMTES" };

function data(value) {
  return value && typeof value === "object" && "Data" in value ? value.Data : value;
}

function text(value) {
  const plain = data(value);
  return typeof plain === "string" ? plain : "";
}

function show(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function kindOf(value) {
  return typeof value === "number" ? "number" : typeof value === "string" ? "text" : "";
}
