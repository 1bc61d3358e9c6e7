// The prices of an item over the session: a bar for each minute, and the last prices one by one. What the server has remembered comes first
// (/api/v1/history), then what this page sees.

const TICKS = 2400;
const BARS = 1440;
const SALES = 500;

export class Series {
  constructor() {
    this.bars = [];
    this.times = []; // of the last prices, seconds
    this.prices = [];
    this.sales = []; // newest first
    this.points = null;
  }

  /** A price has come, at so many milliseconds. */
  add(at, price) {
    this.bar(at, price);
    this.times.push(at / 1000);
    this.prices.push(price);
    if (this.times.length > TICKS) {
      // The bars have what is cut off.
      this.times.splice(0, TICKS / 2);
      this.prices.splice(0, TICKS / 2);
    }
    this.points = null;
  }

  bar(at, price) {
    const time = Math.floor(at / 60000) * 60;
    const bar = this.bars.at(-1);
    if (bar && bar.time + 60 > at / 1000) {
      bar.high = Math.max(bar.high, price);
      bar.low = Math.min(bar.low, price);
      bar.close = price;
    } else {
      this.bars.push({ time, high: price, low: price, close: price });
      if (this.bars.length > BARS) this.bars.shift();
    }
  }

  sale(at, price, size) {
    const before = this.sales[0];
    const up = before ? price - before.price : 0;
    this.sales.unshift({ at, price, size, tick: up > 0 ? "up" : up < 0 ? "down" : (before?.tick ?? "") });
    if (this.sales.length > SALES) this.sales.length = SALES;
  }

  /** What the server has remembered goes before what this page has seen since. Its clock need not be this browser's. */
  adopt({ now_ms: now, bars, ticks }, received = Date.now()) {
    if (!bars.length) return;
    const shift = received - now;
    const { times, prices, sales } = this;
    this.bars = bars.map(({ time_s, high, low, close }) => ({ time: time_s + shift / 1000, high, low, close }));
    this.times = ticks.map(({ time_ms }) => (time_ms + shift) / 1000);
    this.prices = ticks.map(({ price }) => price);
    this.sales = [];
    for (const { time_ms, price, trade, size } of ticks) if (trade) this.sale(time_ms + shift, price, size);
    for (const { at, price, size } of sales.toReversed()) if (at > received) this.sale(at, price, size);
    for (const [n, time] of times.entries()) if (time * 1000 > received) this.add(time * 1000, prices[n]);
    this.points = null;
  }

  /** For the chart: times in seconds, prices, and of minutes that their bars alone tell of the highest and the lowest. */
  data() {
    if (this.points) return this.points;
    const [times, prices, highs, lows] = [[], [], [], []];
    const first = this.times[0] ?? Infinity;
    for (const { time, high, low, close } of this.bars) {
      // The last price of a minute stands at its end.
      if (time + 60 > first) break;
      times.push(time + 60);
      prices.push(close);
      highs.push(high);
      lows.push(low);
    }
    const none = new Array(this.times.length).fill(null);
    this.points = [times.concat(this.times), prices.concat(this.prices), highs.concat(none), lows.concat(none)];
    return this.points;
  }
}
