// Pages: what traders looked at before there were fields. The bytes of an ANSI page move a cursor over a grid of cells and overwrite;
// the rows of a page record are fields. What each sequence does: docs/wire/pages.md.

import { el } from "./dom.js";

/** How long a cell that was written is shown with its fade attributes, milliseconds. */
const FADE = 5000;
const BLINK = 1;
const REVERSE = 2;
const DIM = 4;
const UNDERLINE = 8;
const BRIGHT = 16;
/** No colour in either half: the page's own. */
const MONO = 0xff;
/** Parameters beyond these are ignored. */
const PARAMETERS = 19;
/** The line-drawing set of the VT100, 0x5F to 0x7E. */
const LINES = " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

const plainPen = () => ({ style: 0, fadeStyle: 0, colours: MONO, fadeColours: MONO, sets: ["B", "B"], shifted: 0 });
const blank = () => ({ code: 32, set: "B", style: 0, fadeStyle: 0, colours: MONO, fadeColours: MONO, at: 0 });

/** The character that a cell shows. */
export function glyph({ code, set }) {
  if (set === "0" && code >= 0x5f && code <= 0x7e) return LINES[code - 0x5f];
  return set === "A" && code === 0x23 ? "£" : String.fromCharCode(code);
}

/** A page of so many rows and columns. Texts have a character for each byte. */
export class Page {
  constructor(rows = 25, columns = 80) {
    this.rows = rows;
    this.columns = columns;
    this.clear();
  }

  clear() {
    this.grid = Array.from({ length: this.rows }, () => this.blankRow());
    this.row = 0;
    this.column = 0;
    this.pastEnd = false;
    this.pen = plainPen();
    this.wraps = false;
    this.top = 0;
    // The last row is a status line that does not scroll.
    this.bottom = Math.max(0, this.rows - 2);
    this.saved = null;
  }

  blankRow() {
    return Array.from({ length: this.columns }, blank);
  }

  /** A whole page: the one before is forgotten, whether or not the text says so. */
  refresh(text, now = 0) {
    this.clear();
    this.apply(text, now);
  }

  /** An update. A sequence that is cut off at its end is lost. */
  apply(text, now = 0) {
    this.now = now;
    for (let at = 0; at < text.length;) {
      const code = text.charCodeAt(at);
      const low = code & 0x7f;
      if (low === 0x1b) {
        at = this.escape(text, at + 1);
        continue;
      }
      if (low >= 0x20 && low <= 0x7e) this.print(code);
      else this.control(low);
      at += 1;
    }
  }

  print(code) {
    if (this.pastEnd) {
      this.pastEnd = false;
      // In the last row there is nowhere to go: the last place is written again.
      if (this.row + 1 < this.rows) {
        this.column = 0;
        this.down();
      }
    }
    const { style, fadeStyle, colours, fadeColours, sets, shifted } = this.pen;
    this.grid[this.row][this.column] = { code, set: sets[shifted], style, fadeStyle, colours, fadeColours, at: this.now };
    if (this.column + 1 < this.columns) this.column += 1;
    else this.pastEnd = this.wraps;
  }

  control(code) {
    if (code === 0x08) this.column = Math.max(0, this.column - 1);
    else if (code === 0x09) this.column = Math.min((Math.floor(this.column / 8) + 1) * 8, this.columns - 1);
    else if (code === 0x0a) this.down();
    else if (code === 0x0d) this.column = 0;
    else if (code === 0x0e) this.pen.shifted = 1;
    else if (code === 0x0f) this.pen.shifted = 0;
    if ([0x08, 0x09, 0x0a, 0x0d].includes(code)) this.pastEnd = false;
  }

  /** What follows ESC; where the rest begins. */
  escape(text, at) {
    if (at >= text.length) return at;
    const first = String.fromCharCode(text.charCodeAt(at) & 0x7f);
    if (first === "[") return this.sequence(text, at + 1);
    if (first === "(" || first === ")") {
      const set = text[at + 1];
      if (set >= "0" && set <= "~") this.pen.sets[first === ")" ? 1 : 0] = set;
      return at + 2;
    }
    // Double sizes are not shown, and neither is their digit.
    if (first === "#") return at + 2;
    if (first === "\x1b") return at;
    if (first === "7") this.saved = { row: this.row, column: this.column, pen: structuredClone(this.pen) };
    else if (first === "8" && this.saved) {
      this.moveTo(this.saved.row, this.saved.column);
      this.pen = structuredClone(this.saved.pen);
    } else if (first === "D") this.down();
    else if (first === "E") {
      this.column = 0;
      this.down();
    } else if (first === "M") this.up();
    else if (first === "c") this.clear();
    return at + 1;
  }

  /** What follows ESC [; where the rest begins. */
  sequence(text, begin) {
    let mark = "";
    let between = false;
    const parameters = [0];
    for (let at = begin; at < text.length; at++) {
      const code = text.charCodeAt(at) & 0x7f;
      const last = parameters.length - 1;
      if (code >= 0x30 && code <= 0x39) {
        if (last < PARAMETERS) parameters[last] = Math.min(65535, parameters[last] * 10 + code - 0x30);
      } else if (code === 0x3b) {
        if (last < PARAMETERS) parameters.push(0);
      } else if (at === begin && code >= 0x3c && code <= 0x3f) mark = String.fromCharCode(code);
      else if (code >= 0x20 && code <= 0x2f) between = true;
      else {
        const digit = text.charCodeAt(begin + (mark ? 1 : 0));
        if (!between) this.act(mark, String.fromCharCode(code), parameters, digit >= 0x30 && digit <= 0x39);
        return at + 1;
      }
    }
    return text.length;
  }

  act(mark, last, parameters, given) {
    const number = given ? parameters[0] : 1;
    const some = Math.max(1, number);
    const numbers = parameters.slice(0, PARAMETERS);
    if (mark === ">" && last === "m") this.render(numbers, "fadeStyle", "fadeColours");
    else if (mark === "?" && (last === "h" || last === "l")) {
      if (!numbers.includes(7)) return;
      this.wraps = last === "h";
      this.pastEnd &&= this.wraps;
    } else if (!mark) this.move(last, parameters, number, some) || this.edit(last, given ? parameters[0] : 0, some, numbers);
  }

  /** Sequences that move the cursor; whether this is one. */
  move(last, parameters, number, some) {
    const inside = this.row >= this.top && this.row <= this.bottom;
    if (last === "H" || last === "f") {
      const [row, column] = [Math.max(1, parameters[0]), Math.max(1, parameters[1] ?? 1)];
      if (parameters.length <= 2 && row <= this.rows && column <= this.columns) this.moveTo(row - 1, column - 1);
    } else if (last === "A") this.moveTo(Math.max(inside ? this.top : 0, this.row - number), this.column);
    else if (last === "B") this.moveTo(Math.min(inside ? this.bottom : this.rows - 1, this.row + number), this.column);
    else if (last === "C") this.moveTo(this.row, Math.min(this.columns - 1, this.column + number));
    else if (last === "D") this.moveTo(this.row, Math.max(0, this.column - some));
    else if (last === "r") {
      const [top, bottom] = [Math.max(1, parameters[0]), parameters[1] || this.rows - 1];
      if (bottom > top && bottom <= this.rows) {
        [this.top, this.bottom] = [top - 1, bottom - 1];
        this.moveTo(0, 0);
      }
    } else return false;
    return true;
  }

  /** Sequences that change cells, or how the next are written. */
  edit(last, what, some, numbers) {
    if (last === "S") this.scroll(this.row, some, true);
    else if (last === "T") this.scroll(this.row, some, false);
    else if (last === "L" || last === "M") {
      if (this.row < this.top || this.row > this.bottom) return;
      this.scroll(this.row, Math.min(some, this.bottom - this.row), last === "M");
      this.moveTo(this.row, 0);
    } else if (last === "@" || last === "P") {
      const cells = this.grid[this.row];
      const count = Math.min(some, this.columns - this.column);
      const blanks = Array.from({ length: count }, blank);
      if (last === "P") {
        cells.splice(this.column, count);
        cells.push(...blanks);
      } else {
        cells.splice(this.columns - count, count);
        cells.splice(this.column, 0, ...blanks);
      }
    } else if (last === "J") {
      const [from, to] = [[this.row + 1, this.rows], [0, this.row], [0, this.rows]][what] ?? [0, 0];
      for (let row = from; row < to; row++) this.grid[row] = this.blankRow();
      this.eraseInRow(what);
    } else if (last === "K") this.eraseInRow(what);
    else if (last === "m") this.render(numbers, "style", "colours");
    else if (last === "p") this.clear();
  }

  eraseInRow(what) {
    const [from, to] = [[this.column, this.columns], [0, this.column + 1], [0, this.columns]][what] ?? [0, 0];
    for (let column = from; column < to; column++) this.grid[this.row][column] = blank();
  }

  render(numbers, style, colours) {
    const { pen } = this;
    const bits = { 1: BRIGHT, 2: DIM, 4: UNDERLINE, 5: BLINK, 7: REVERSE };
    const without = { 22: BRIGHT | DIM, 24: UNDERLINE, 25: BLINK, 27: REVERSE };
    for (const number of numbers) {
      if (number === 0) [pen[style], pen[colours]] = [0, MONO];
      else if (bits[number]) pen[style] |= bits[number];
      else if (without[number]) pen[style] &= ~without[number];
      else if (number >= 30 && number <= 37) pen[colours] = (pen[colours] & 0xf0) | (number - 30);
      else if (number >= 40 && number <= 47) pen[colours] = (pen[colours] & 0x0f) | ((number - 40) << 4);
    }
  }

  moveTo(row, column) {
    [this.row, this.column] = [row, column];
    this.pastEnd = false;
  }

  down() {
    this.pastEnd = false;
    if (this.row === this.bottom) this.scroll(this.top, 1, true);
    else if (this.row + 1 < this.rows) this.row += 1;
  }

  up() {
    this.pastEnd = false;
    if (this.row === this.top) this.scroll(this.top, 1, false);
    else this.row = Math.max(0, this.row - 1);
  }

  /** Moves the rows from `top` to the region's bottom. */
  scroll(top, number, up) {
    if (top < this.top || top > this.bottom) return;
    const count = Math.min(number, this.bottom - top + 1);
    const blanks = Array.from({ length: count }, () => this.blankRow());
    if (up) {
      this.grid.splice(top, count);
      this.grid.splice(this.bottom - count + 1, 0, ...blanks);
    } else {
      this.grid.splice(this.bottom - count + 1, count);
      this.grid.splice(top, 0, ...blanks);
    }
  }
}

/** A field's text after a partial edit: HPA (ESC [ n `) moves in it, REP (ESC [ n b) repeats the last character, characters overwrite. */
export function edited(before, edit) {
  const cells = [...before];
  let at = 0;
  let last = "";
  for (const [part, number, kind] of edit.matchAll(/\x1b\[(\d*)([`b])|[^\x1b]|\x1b/g)) {
    if (kind === "`") at = Number(number);
    else {
      const text = kind === "b" ? last.repeat(Math.min(255, Number(number))) : part;
      for (const one of text) {
        while (cells.length < at) cells.push(" ");
        cells[at++] = one;
      }
      last = text.at(-1) ?? last;
    }
  }
  return cells.join("");
}

/** The texts of a page record's rows, if the fields are one. */
export function recordRows(fields) {
  const layout = [["ROW80_", 25, 80], ["ROW64_", 14, 64]].find(([name]) => `${name}1` in fields);
  if (!layout) return null;
  const [name, count, columns] = layout;
  return { columns, texts: Array.from({ length: count }, (_, n) => String(fields[name + (n + 1)] ?? "").slice(0, columns)) };
}

/** A page as rows of text, drawn anew where something has changed. */
export class PageView {
  constructor(root) {
    this.box = el("div", { class: "page-rows", role: "img", "aria-label": "Page" });
    root.append(this.box);
    this.drawn = [];
  }

  /** Draws; whether a cell still fades, so that it has to be drawn again. */
  paint(item, now) {
    const record = item.page ? null : recordRows(item.fields);
    const count = item.page ? item.page.rows : record.texts.length;
    this.box.style.setProperty("--columns", item.page ? item.page.columns : record.columns);
    while (this.box.children.length > count) this.box.lastChild.remove();
    let fades = false;
    for (let row = 0; row < count; row++) {
      const line = this.box.children[row] ?? this.box.appendChild(el("div", { class: "page-row" }));
      const runs = item.page ? runsOf(item.page.grid[row], now) : { key: record.texts[row], spans: [el("span", { text: record.texts[row] })] };
      fades ||= runs.fades ?? false;
      if (this.drawn[row] === runs.key) continue;
      this.drawn[row] = runs.key;
      line.replaceChildren(...runs.spans);
    }
    return fades;
  }
}

/** Cells that look alike, as spans; and what tells a row from another look of it. */
function runsOf(cells, now) {
  const runs = [];
  let fades = false;
  for (const cell of cells) {
    const fading = now - cell.at < FADE && (cell.fadeStyle !== 0 || cell.fadeColours !== MONO);
    fades ||= fading;
    const half = (shift) => {
      const fade = (cell.fadeColours >> shift) & 15;
      return fading && fade !== 15 ? fade : (cell.colours >> shift) & 15;
    };
    const style = cell.style | (fading ? cell.fadeStyle : 0);
    let [ink, paper] = [half(0) < 8 ? half(0) : "", half(4) < 8 ? half(4) : ""];
    if (style & REVERSE) [ink, paper] = [paper === "" ? "-ground" : paper, ink === "" ? "-plain" : ink];
    const classes = [];
    if (ink !== "") classes.push(`ink${ink}`);
    if (paper !== "") classes.push(`paper${paper}`);
    for (const [bit, name] of [[BLINK, "blink"], [DIM, "dim"], [UNDERLINE, "underline"], [BRIGHT, "bright"]]) if (style & bit) classes.push(name);
    const look = classes.join(" ");
    if (runs.at(-1)?.look === look) runs.at(-1).text += glyph(cell);
    else runs.push({ look, text: glyph(cell) });
  }
  return { fades, key: JSON.stringify(runs), spans: runs.map((run) => el("span", { class: run.look || null, text: run.text })) };
}
