// Small tools for elements, numbers and times.

/** An element with attributes and children; `on...` attributes are listeners. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** An element of SVG. */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter(Boolean));
  return made;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A whole number with commas; nothing for nothing. */
export function grouped(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "" : whole.format(value);
}

/** A number as people say it, with three digits: 950, 12.4k, 3.1M, 206M. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size < 9_999.5) return whole.format(value);
  // What rounds up to a thousand of a unit is one of the next.
  const step = ["k", "M", "G", "T"].findIndex((_, n) => size < 999.5 * 1000 ** (n + 1) || n === 3);
  const of = value / 1000 ** (step + 1);
  const digits = Math.abs(of) < 9.995 ? 2 : Math.abs(of) < 99.95 ? 1 : 0;
  return String(Number(of.toFixed(digits))) + ["k", "M", "G", "T"][step];
}

/** Bytes as people say them. */
export function bytes(value) {
  if (!value) return "0";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return (value / 1000 ** step).toFixed(step && value / 1000 ** step < 100 ? 1 : 0) + " " + units[step];
}

/** Seconds as people say them. */
export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds / 60) % 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds / 3600) % 24)} h`;
}

/** The time of day, by the second. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB", { hour12: false });
}

/** The time of day, by the millisecond. */
export function clockFine(ms) {
  const at = new Date(ms);
  return at.toLocaleTimeString("en-GB", { hour12: false }) + "." + String(at.getMilliseconds()).padStart(3, "0");
}

/** A word with a colour: good, warn, bad or quiet. */
export function badge(text, kind) {
  return el("span", { class: "badge " + kind, text });
}

export function button(text, onclick, attributes = {}) {
  return el("button", { class: "plain small", text, type: "button", onclick, ...attributes });
}

/** A short message at the bottom. */
export function toast(text, bad = false) {
  const at = document.getElementById("toast");
  at.textContent = text;
  at.className = bad ? "bad shown" : "shown";
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (at.className = ""), 4500);
}

/** Asks /api/v1; gives the answer, or throws what the server says. */
export async function api(path, body) {
  const init = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const answer = await fetch("/api/v1/" + path, init);
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.error || `${answer.status} ${answer.statusText}`);
  return value;
}

/** Something kept in this browser. */
export const kept = {
  get(key, otherwise) {
    try {
      return JSON.parse(localStorage.getItem("quoteway." + key)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem("quoteway." + key, JSON.stringify(value));
    } catch {
      // A browser that keeps nothing shows the usual each time.
    }
  },
};
