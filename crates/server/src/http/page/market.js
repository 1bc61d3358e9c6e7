// The market: a watchlist that is drawn only where it can be seen, and only what has changed, once a frame.

import { api, clock, el, grouped, kept, short, toast } from "./dom.js";
import { Detail } from "./detail.js";
import { Series } from "./series.js";

const ROW = 30;
const TREND = 60;
const RESORT_MS = 700;

const price = (field) => ({ field, kind: "price" });

/** What can be shown of an item. `first` are shown unless somebody chooses others; `phone` on a narrow screen. */
const COLUMNS = [
  { id: "name", title: "Item", kind: "name", width: 104, first: true, phone: true },
  { id: "display", title: "Name", field: "DSPLY_NAME", kind: "text", width: 150, first: true },
  { id: "last", title: "Last", ...price("TRDPRC_1"), width: 84, first: true, phone: true, flash: true },
  { id: "change", title: "Change", ...price("NETCHNG_1"), width: 78, first: true, signed: true },
  { id: "percent", title: "%", field: "PCTCHNG", kind: "percent", width: 70, first: true, phone: true, signed: true },
  { id: "trend", title: "Trend", kind: "trend", width: 96, first: true, phone: true },
  { id: "bidsize", title: "Bid size", field: "BIDSIZE", kind: "size", width: 88, first: true },
  { id: "bid", title: "Bid", ...price("BID"), width: 84, first: true, flash: true },
  { id: "ask", title: "Ask", ...price("ASK"), width: 84, first: true, flash: true },
  { id: "asksize", title: "Ask size", field: "ASKSIZE", kind: "size", width: 88, first: true },
  { id: "volume", title: "Volume", field: "ACVOL_1", kind: "size", width: 98, first: true },
  { id: "high", title: "High", ...price("HIGH_1"), width: 84 },
  { id: "low", title: "Low", ...price("LOW_1"), width: 84 },
  { id: "open", title: "Open", ...price("OPEN_PRC"), width: 84 },
  { id: "close", title: "Prev. close", ...price("HST_CLOSE"), width: 88 },
  { id: "spread", title: "Spread", kind: "spread", width: 76 },
  { id: "updates", title: "Updates", kind: "updates", width: 80 },
  { id: "time", title: "Updated", kind: "time", width: 84, first: true },
];

export class Market {
  constructor(root, feed, process) {
    this.root = root;
    this.feed = feed;
    this.process = process;
    this.rows = [];
    this.byName = new Map();
    this.order = [];
    this.dirty = new Set();
    this.lines = new Map();
    this.selected = null;
    this.sort = kept.get("sort", null);
    this.columns = kept.get("columns", null);
    this.filter = "";
    this.visible = false;
    this.build();
    this.fill();
    const frame = () => {
      this.draw();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    setInterval(() => this.second(), 1000);
    new ResizeObserver(() => this.layout()).observe(this.root);
  }

  build() {
    this.search = el("input", {
      type: "search", class: "search", placeholder: "Search, or add an item", "aria-label": "Search, or add an item",
      autocomplete: "off", autocapitalize: "characters", spellcheck: "false",
      oninput: () => this.searched(), onfocus: () => this.suggest(), onblur: () => setTimeout(() => this.suggestions.replaceChildren(), 200),
    });
    this.suggestions = el("div", { class: "suggestions", role: "listbox" });
    this.count = el("span", { class: "quiet count" });
    this.head = el("div", { class: "head", role: "row" });
    this.body = el("div", { class: "rows", role: "rowgroup" });
    this.empty = el("div", { class: "empty", hidden: true });
    this.scroller = el("div", { class: "scroller", tabindex: "0", role: "table", "aria-label": "Watchlist", onscroll: () => (this.moved = true) }, this.head, this.body, this.empty);
    this.side = el("aside", { class: "detail", hidden: true, "aria-label": "Item" });
    this.root.append(
      el("section", { class: "watchlist" },
        el("div", { class: "toolbar" }, el("div", { class: "searchbox" }, this.search, this.suggestions), this.count,
          el("button", { class: "plain", text: "Columns", title: "Choose columns (c)", onclick: () => this.choose() })),
        this.scroller),
      this.side);
    this.detail = new Detail(this.side, this.feed, () => this.close());
    this.detail.step = (by) => this.move(by);
  }

  /** The list of this browser, or what somebody watches here already. */
  async fill() {
    let names = kept.get("watchlist." + this.process.default_service, null);
    if (!names?.length) {
      try {
        const { found } = await api("items?limit=60");
        names = [...new Set(found.filter((item) => item.domain === 6 && !item.private).map((item) => item.name))];
      } catch {
        names = [];
      }
    }
    for (const name of names) this.add(name, false);
    this.layout();
    const wanted = decodeURIComponent(location.hash.split("/").slice(1).join("/"));
    if (wanted) this.open(this.add(wanted));
    else if (innerWidth >= 1200 && this.rows.length) this.open(this.rows[0]);
  }

  save() {
    kept.set("watchlist." + this.process.default_service, this.rows.map((row) => row.name));
  }

  add(name, save = true) {
    let row = this.byName.get(name);
    if (row) return row;
    row = { name, trend: [], series: new Series(), decimals: 2, cells: {}, flashes: {} };
    this.byName.set(name, row);
    this.rows.push(row);
    row.stop = this.feed.watch(name, (item, message) => this.take(row, item, message));
    this.resort = true;
    if (save) this.save();
    return row;
  }

  remove(row) {
    row.stop();
    this.byName.delete(row.name);
    this.rows = this.rows.filter((other) => other !== row);
    if (this.selected === row) this.close();
    this.resort = true;
    this.save();
  }

  /** What a message means for a row. */
  take(row, item, message) {
    row.item = item;
    const changed = message?.Fields;
    if (changed) {
      for (const column of COLUMNS) {
        if (!column.field || !(column.field in changed)) continue;
        const value = changed[column.field];
        if (column.kind === "price" && typeof value === "number") row.decimals = Math.max(row.decimals, decimals(value));
        if (column.flash && message.Type === "Update" && typeof value === "number" && typeof row.cells[column.id] === "number" && value !== row.cells[column.id]) {
          row.flashes[column.id] = value > row.cells[column.id] ? "up" : "down";
        }
        row.cells[column.id] = value;
      }
      if (message.Type === "Refresh") for (const column of COLUMNS) if (column.field) row.cells[column.id] = item.fields[column.field];
      const trade = changed.TRDPRC_1;
      const mid = typeof item.fields.BID === "number" && typeof item.fields.ASK === "number" ? (item.fields.BID + item.fields.ASK) / 2 : null;
      row.price = item.fields.TRDPRC_1 ?? mid;
      const now = Date.now();
      if (typeof row.price === "number") row.series.add(now, row.price);
      if (typeof trade === "number" && message.Type === "Update") row.series.sale(now, trade, changed.TRDVOL_1 ?? null);
    }
    this.dirty.add(row);
    if (this.selected === row) this.detail.take(row, message);
  }

  second() {
    for (const row of this.rows) {
      if (typeof row.price === "number") {
        row.trend.push(row.price);
        if (row.trend.length > TREND) row.trend.shift();
        if (this.lines.has(row)) this.dirty.add(row);
        row.stale = true;
      }
    }
    const bad = this.rows.filter((row) => row.item && row.item.data && row.item.data !== "Ok").length;
    this.count.textContent = `${grouped(this.rows.length)} items` + (bad ? `, ${bad} not Ok` : "");
  }

  chosen() {
    const narrow = this.scroller.clientWidth < 560;
    if (narrow) return COLUMNS.filter((column) => column.phone);
    const ids = this.columns ?? COLUMNS.filter((column) => column.first).map((column) => column.id);
    return COLUMNS.filter((column) => column.id === "name" || ids.includes(column.id));
  }

  /** The widths; the columns that do not fit are left out from the right, but for the ones chosen by hand. */
  layout() {
    if (!this.visible) return;
    const room = this.scroller.clientWidth - 2;
    let columns = this.chosen();
    const total = () => columns.reduce((sum, column) => sum + column.width, 0);
    if (!this.columns) {
      const giveWay = [["time"], ["display"], ["bidsize", "asksize"], ["change"], ["trend"], ["volume"]];
      for (const ids of giveWay) if (total() > room && room >= 560) columns = columns.filter((column) => !ids.includes(column.id));
    }
    this.shown = columns;
    const stretch = Math.max(1, room / total());
    this.template = columns.map((column) => Math.floor(column.width * stretch) + "px").join(" ");
    this.head.replaceChildren(...columns.map((column) => el("button", {
      class: "cell " + (["name", "text"].includes(column.kind) ? "left" : ""), role: "columnheader", title: "Sort by " + column.title,
      "aria-sort": this.sort?.id === column.id ? (this.sort.down ? "descending" : "ascending") : "none",
      onclick: () => this.sortBy(column.id),
    }, el("span", { text: column.title }), el("span", { class: "arrow", text: this.sort?.id === column.id ? (this.sort.down ? "▾" : "▴") : "" }))));
    this.root.style.setProperty("--columns", this.template);
    for (const line of this.lines.values()) line.element.remove();
    this.lines.clear();
    this.resort = true;
  }

  sortBy(id) {
    if (this.sort?.id !== id) this.sort = { id, down: !["name", "display"].includes(id) };
    else if (this.sort.down !== ["name", "display"].includes(id)) this.sort.down = !this.sort.down;
    else this.sort = null;
    kept.set("sort", this.sort);
    this.layout();
  }

  value(row, column) {
    if (column.kind === "name") return row.name;
    if (column.kind === "trend") return row.trend.length > 1 ? row.trend.at(-1) / row.trend[0] : null;
    if (column.kind === "updates") return row.item?.updates ?? 0;
    if (column.kind === "time") return row.item?.at ?? 0;
    if (column.kind === "spread") return typeof row.cells.ask === "number" && typeof row.cells.bid === "number" ? row.cells.ask - row.cells.bid : null;
    // What is not traded is quoted: where there is no room for bids, the bid stands in.
    if (column.id === "last" && !this.shown.some((other) => other.id === "bid")) return row.cells.last ?? row.cells.bid ?? null;
    return row.cells[column.id] ?? null;
  }

  arrange() {
    const filter = this.filter.toLowerCase();
    let rows = this.rows;
    if (filter) rows = rows.filter((row) => row.name.toLowerCase().includes(filter) || String(row.cells.display ?? "").toLowerCase().includes(filter));
    const column = this.sort && COLUMNS.find((known) => known.id === this.sort.id);
    if (column) {
      const sign = this.sort.down ? -1 : 1;
      const values = new Map(rows.map((row) => [row, this.value(row, column)]));
      rows = [...rows].sort((a, b) => {
        const [x, y] = [values.get(a), values.get(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
    }
    this.order = rows;
    this.body.style.height = rows.length * ROW + "px";
    this.empty.hidden = rows.length > 0;
    if (!rows.length) this.emptyText();
  }

  emptyText() {
    const text = this.filter ? `No item on the list has “${this.filter}” in its name.` : "The list is empty.";
    this.empty.replaceChildren(el("p", { text }), el("p", { class: "quiet", text: this.filter ? "Enter adds it." : "Type a name above and press Enter, for example IBM.N." }));
  }

  draw() {
    if (!this.visible || !this.shown) return;
    const now = performance.now();
    if (this.resort || (this.sort && this.dirty.size && now - (this.sorted ?? 0) > RESORT_MS)) {
      this.arrange();
      this.sorted = now;
      this.resort = false;
      this.moved = true;
    }
    if (this.moved) {
      this.moved = false;
      this.place();
    }
    for (const row of this.dirty) {
      const line = this.lines.get(row);
      if (line) this.paint(row, line, now);
    }
    this.dirty.clear();
    for (const fade of [...(this.fading ?? [])]) {
      if (now > fade.until) {
        fade.cell.classList.remove("up", "down");
        this.fading.delete(fade);
        fade.line.fades[fade.id] = null;
      }
    }
    this.detail.draw(now);
  }

  /** Gives each row that can be seen a line, and takes the lines of the others away. */
  place() {
    const top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - 6);
    const last = Math.min(this.order.length, Math.ceil((top + this.scroller.clientHeight) / ROW) + 6);
    const wanted = new Set(this.order.slice(first, last));
    const free = [];
    for (const [row, line] of this.lines) {
      if (!wanted.has(row)) {
        this.lines.delete(row);
        free.push(line);
      }
    }
    for (let n = first; n < last; n++) {
      const row = this.order[n];
      let line = this.lines.get(row);
      if (!line) {
        line = free.pop() ?? this.line();
        line.row = row;
        line.texts = {};
        this.lines.set(row, line);
        this.dirty.add(row);
        row.stale = true;
      }
      line.element.style.transform = `translateY(${n * ROW}px)`;
      line.element.setAttribute("aria-selected", String(row === this.selected));
    }
    free.forEach((line) => line.element.remove());
  }

  line() {
    const cells = {};
    const element = el("div", { class: "row", role: "row" });
    for (const column of this.shown) {
      const cell = el("div", { class: `cell ${["name", "text"].includes(column.kind) ? "left" : ""} ${column.id}`, role: "cell" });
      if (column.kind === "trend") cell.append(el("canvas", { width: 0, height: 0 }));
      cells[column.id] = cell;
      element.append(cell);
    }
    const line = { element, cells, texts: {}, fades: {}, row: null };
    element.addEventListener("click", () => this.open(line.row));
    this.body.append(element);
    return line;
  }

  paint(row, line, now) {
    const item = row.item;
    const isBad = item && item.data && item.data !== "Ok";
    line.element.classList.toggle("suspect", Boolean(isBad));
    line.element.classList.toggle("waiting", !item?.imaged);
    line.element.title = isBad ? `${item.stream || ""} ${item.data}: ${item.text || item.code || ""}` : "";
    for (const column of this.shown) {
      const cell = line.cells[column.id];
      if (column.kind === "trend") {
        if (row.stale) sparkline(cell.firstChild, row.trend);
        continue;
      }
      const value = this.value(row, column);
      let text = format(value, column, row);
      if (column.id === "display" && isBad) text = `${item.data}: ${item.text || item.code || item.stream}`;
      if (line.texts[column.id] !== text) {
        cell.textContent = text;
        line.texts[column.id] = text;
        if (column.signed) {
          cell.classList.toggle("gain", value > 0);
          cell.classList.toggle("loss", value < 0);
        }
      }
      const flash = row.flashes[column.id];
      if (flash) {
        this.fading ??= new Set();
        if (line.fades[column.id]) this.fading.delete(line.fades[column.id]);
        cell.classList.remove("up", "down");
        cell.classList.add(flash);
        const fade = { cell, line, id: column.id, until: now + 450 };
        line.fades[column.id] = fade;
        this.fading.add(fade);
      }
    }
    row.flashes = {};
    row.stale = false;
  }

  repaint() {
    for (const row of this.rows) {
      row.stale = true;
      this.dirty.add(row);
    }
    this.detail?.restyle();
  }

  searched() {
    this.filter = this.search.value.trim();
    this.resort = true;
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.suggest(), 150);
  }

  async suggest() {
    const text = this.search.value.trim();
    if (!text) return this.suggestions.replaceChildren();
    let found = [];
    try {
      found = (await api("items?limit=30&contains=" + encodeURIComponent(text))).found;
    } catch {
      // Only names that are typed whole, then.
    }
    if (this.search.value.trim() !== text) return undefined;
    const names = [...new Set(found.filter((item) => item.domain === 6).map((item) => item.name))].filter((name) => !this.byName.has(name)).slice(0, 8);
    const exact = text.toUpperCase();
    if (!names.includes(exact) && !this.byName.has(exact) && !this.byName.has(text)) names.unshift(exact);
    return this.suggestions.replaceChildren(...names.map((name, n) => el("button", {
      role: "option", "aria-selected": String(n === 0), onmousedown: (event) => { event.preventDefault(); this.enter(name); },
    }, el("b", { text: name }), el("span", { class: "quiet", text: n === 0 && name === exact ? "add to the list" : "watched here" }))));
  }

  enter(name) {
    const text = this.search.value.trim();
    const onList = this.byName.get(text) ?? this.byName.get(text.toUpperCase()) ?? (name ? null : this.order[0]);
    const row = name ? this.add(name) : (onList ?? (text ? this.add(text.toUpperCase()) : null));
    this.search.value = "";
    this.filter = "";
    this.resort = true;
    this.suggestions.replaceChildren();
    this.search.blur();
    if (row) this.open(row);
  }

  choose() {
    const dialog = document.getElementById("dialog");
    const ids = new Set(this.columns ?? COLUMNS.filter((column) => column.first).map((column) => column.id));
    const boxes = COLUMNS.filter((column) => column.id !== "name").map((column) => el("label", {},
      el("input", { type: "checkbox", checked: ids.has(column.id), onchange: (event) => {
        if (event.target.checked) ids.add(column.id);
        else ids.delete(column.id);
        this.columns = [...ids];
        kept.set("columns", this.columns);
        this.layout();
      } }), el("span", { text: column.title })));
    dialog.replaceChildren(el("h2", { text: "Columns" }), el("div", { class: "boxes" }, boxes),
      el("form", { method: "dialog" },
        el("button", { class: "plain", text: "The usual ones", onclick: () => { this.columns = null; kept.set("columns", null); this.layout(); } }),
        el("button", { class: "primary", text: "Close", autofocus: true })));
    dialog.showModal();
  }

  open(row) {
    if (!row) return;
    this.selected = row;
    this.moved = true;
    this.side.hidden = false;
    this.root.classList.add("open");
    this.detail.open(row);
    history.replaceState(null, "", "#market/" + encodeURIComponent(row.name));
    const at = this.order.indexOf(row);
    const top = at * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (at >= 0 && (top < scrollTop || top + 3 * ROW > scrollTop + clientHeight)) this.scroller.scrollTop = Math.max(0, top - clientHeight / 2);
    this.layout();
  }

  close() {
    this.selected = null;
    this.moved = true;
    this.side.hidden = true;
    this.root.classList.remove("open");
    this.detail.close();
    history.replaceState(null, "", "#market");
    this.layout();
  }

  move(by) {
    if (!this.order.length) return;
    const at = this.order.indexOf(this.selected);
    this.open(this.order[Math.min(this.order.length - 1, Math.max(0, at < 0 ? 0 : at + by))]);
  }

  key(event, typing) {
    if (event.key === "Escape") {
      if (typing) this.search.blur();
      else this.close();
      return;
    }
    if (typing) {
      if (event.key === "Enter" && event.target === this.search) this.enter();
      return;
    }
    const actions = {
      "/": () => this.search.focus(),
      j: () => this.move(1), ArrowDown: () => this.move(1),
      k: () => this.move(-1), ArrowUp: () => this.move(-1),
      Home: () => this.open(this.order[0]), End: () => this.open(this.order.at(-1)),
      Enter: () => this.open(this.selected ?? this.order[0]),
      c: () => this.choose(),
      Delete: () => {
        if (!this.selected) return;
        const name = this.selected.name;
        this.remove(this.selected);
        toast(`${name} is off the list.`);
      },
      1: () => this.detail.tab("chart"), 2: () => this.detail.tab("book"), 3: () => this.detail.tab("trades"), 4: () => this.detail.tab("fields"), 5: () => this.detail.isPage() && this.detail.tab("cells"),
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }

  show() {
    this.visible = true;
    this.layout();
  }

  hide() {
    this.visible = false;
  }
}

export function decimals(value) {
  const text = String(value);
  const dot = text.indexOf(".");
  return dot < 0 ? 0 : Math.min(6, text.length - dot - 1);
}

export function format(value, column, row) {
  if (value === null || value === undefined || value === "") return "";
  switch (column.kind) {
    case "price":
    case "spread":
      return typeof value === "number" ? (column.signed && value > 0 ? "+" : "") + value.toFixed(row.decimals) : String(value);
    case "percent":
      return typeof value === "number" ? (value > 0 ? "+" : "") + value.toFixed(2) : String(value);
    case "size":
      // A number is shown whole: one that is wider than its column is rounded.
      return typeof value === "number" ? (value >= 1e7 ? short(value) : grouped(value)) : String(value);
    case "updates":
      return short(value);
    case "time":
      return value ? clock(value) : "";
    default:
      return String(value);
  }
}

/** The last minute, as a line: green where it rose, red where it fell. */
function sparkline(canvas, values) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.parentNode.clientWidth - 16;
  const height = 20;
  if (canvas.width !== Math.round(width * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const paint = canvas.getContext("2d");
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  if (values.length < 2) return;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const span = high - low;
  const style = getComputedStyle(document.documentElement);
  const x = (n) => (n / (values.length - 1)) * (width - 2) + 1;
  // A price that stood still is a line in the middle, neither gain nor loss.
  const y = (value) => (span ? height - 2 - ((value - low) / span) * (height - 4) : height / 2);
  paint.beginPath();
  values.forEach((value, n) => (n ? paint.lineTo(x(n), y(value)) : paint.moveTo(x(n), y(value))));
  const move = Math.sign(values.at(-1) - values[0]);
  paint.strokeStyle = style.getPropertyValue(span === 0 || move === 0 ? "--quiet" : move > 0 ? "--gain" : "--loss");
  paint.lineWidth = span ? 1.4 : 1;
  paint.stroke();
}
