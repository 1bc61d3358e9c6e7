// The page: which view is shown, the session for market data, keys, light and dark.

import { api, el, kept, short, toast } from "./dom.js";
import { Feed } from "./feed.js";
import { Market } from "./market.js";
import { Replays } from "./replay.js";
import { Scenarios } from "./scenario.js";
import { System } from "./system.js";

const views = {};
let feed = null;
let shown = "";

/** Where WebSocket sessions can be had, best first: the ports of the process, at the host that this page came from. */
function websocketUrls(process) {
  const port = (address) => address?.split(":").pop();
  const secure = location.protocol === "https:";
  const { rssl, websocket, encrypted } = process.addresses;
  const ports = secure ? [encrypted, rssl, websocket] : [rssl, websocket];
  const scheme = secure ? "wss" : "ws";
  const host = location.hostname.includes(":") && !location.hostname.startsWith("[") ? `[${location.hostname}]` : location.hostname;
  return ports.filter(Boolean).map((address) => `${scheme}://${host}:${port(address)}/WebSocket`);
}

function showStatus(state, text, title = "") {
  const at = document.getElementById("status");
  at.className = "status " + state;
  at.title = title;
  document.getElementById("status-text").textContent = text;
}

function show(name) {
  if (!views[name]) name = ["market", "system", "scenario"].find((view) => views[view]);
  shown = name;
  for (const [key, view] of Object.entries(views)) {
    view.root.hidden = key !== name;
    if (key === name) view.show();
    else view.hide();
  }
  views.replay?.beside(name);
  for (const link of document.querySelectorAll("nav a")) {
    link.setAttribute("aria-current", link.dataset.view === name ? "page" : "false");
    link.hidden = !views[link.dataset.view];
  }
}

function theme(next) {
  const dark = next ?? kept.get("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  views.market?.repaint();
  return dark;
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme !== "dark";
  kept.set("dark", dark);
  theme(dark);
}

const KEYS = [
  ["/", "search, or add an item"],
  ["j k  ↓ ↑", "next and previous row"],
  ["Enter", "open the item"],
  ["Esc", "close it"],
  ["Delete", "take the item off the list"],
  ["1 2 3 4", "chart, book, trades, fields of the open item"],
  ["c", "columns"],
  ["g m / g s / g r / g t", "market, system, replay, scenarios"],
  ["space s ← →", "of a replay: pause and go, a step, ten seconds"],
  ["t", "light or dark"],
  ["?", "this list"],
];

function help() {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(
    el("h2", { text: "Keys" }),
    el("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text: what })])),
    el("form", { method: "dialog" }, el("button", { class: "primary", text: "Close", autofocus: true })),
  );
  dialog.showModal();
}

function keys() {
  let leader = -Infinity;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("input, select, textarea");
    if (typing && event.key !== "Escape" && event.key !== "Enter" && !event.key.startsWith("Arrow")) return;
    if (!typing) {
      if (event.key === "?") return help();
      if (event.key === "t" && event.timeStamp - leader >= 1200) return switchTheme();
      if (event.key === "g") {
        leader = event.timeStamp;
        return undefined;
      }
      const goal = { m: "market", s: "system", r: "replay", t: "scenario" }[event.key];
      if (event.timeStamp - leader < 1200 && goal) {
        leader = -Infinity;
        location.hash = goal;
        return undefined;
      }
    }
    return views[shown]?.key?.(event, typing);
  });
}

/** What the services have for clients, in a word: live is only what is up, with nothing that was told Suspect. */
export function healthOf(services, role) {
  const names = (list) => (list.length > 2 ? `${list.length} of ${services.length} services` : list.map((service) => service.name).join(", "));
  if (!services.length) return ["bad", role === "p2ps" ? "no Source Distributor" : "no provider"];
  const down = services.filter((service) => !service.up);
  if (down.length) return [down.length === services.length ? "bad" : "warn", `${names(down)} down`];
  const closed = services.filter((service) => !service.accepting);
  if (closed.length) return ["warn", `${names(closed)} takes no requests`];
  const suspect = services.reduce((sum, service) => sum + service.suspect, 0);
  return suspect ? ["warn", `${short(suspect)} item${suspect === 1 ? "" : "s"} suspect`] : ["good", "live"];
}

/** Shows it while the session is open, and looks again every so often. */
function watchHealth(role) {
  let busy = false;
  const look = async () => {
    if (busy || document.hidden || (feed && feed.state !== "open")) return;
    busy = true;
    try {
      const [state, text] = healthOf(await api("services"), role);
      if (!feed || feed.state === "open") showStatus(state, text, feed?.url ?? "");
    } catch (e) {
      showStatus("bad", "the process does not answer", e.message);
    }
    busy = false;
  };
  setInterval(look, 1000);
  return look;
}

async function start() {
  const asked = location.hash;
  theme();
  keys();
  document.getElementById("theme").onclick = switchTheme;
  document.getElementById("help").onclick = help;
  let process;
  for (let wait = 500; !process; wait = Math.min(wait * 2, 5000)) {
    try {
      process = await api("process");
    } catch (e) {
      showStatus("bad", "the process does not answer", e.message);
      await new Promise((again) => setTimeout(again, wait));
    }
  }
  document.title = `Quoteway · ${process.host}`;
  // A test stand has no services, providers or clients of which the system's view tells.
  if (process.role !== "scenario") views.system = new System(document.getElementById("system"), process, () => feed);
  if (process.takes_websocket && process.addresses.rssl) {
    feed = new Feed(websocketUrls(process), process.default_service);
    views.market = new Market(document.getElementById("market"), feed, process);
    const look = watchHealth(process.role);
    feed.addEventListener("state", () => {
      if (feed.state === "open") look();
      else {
        showStatus("bad", "no data", feed.why);
        toast(`No market data: ${feed.why}. Trying again.`, true);
      }
    });
    // A page that is left ends its session at once, also where the browser keeps the page to come back to.
    addEventListener("pagehide", () => feed.socket?.close());
    let last = 0;
    setInterval(() => {
      const rate = feed.updates - last;
      last = feed.updates;
      document.getElementById("rate").textContent = `${short(rate)} updates/s`;
    }, 1000);
  } else {
    if (process.role === "rrcpd" || process.role === "scenario") showStatus("good", process.role === "rrcpd" ? process.role : "test stand");
    else watchHealth(process.role)();
    document.getElementById("rate").hidden = true;
  }
  const viewOf = (hash) => hash.slice(1).split("/")[0];
  const route = () => show(viewOf(location.hash));
  addEventListener("hashchange", route);
  // A view that is there is shown, and takes keys, before the server has told of its other views.
  if (Object.keys(views).length && (!asked || views[viewOf(asked)])) route();
  const replays = new Replays(document.getElementById("replay"), document.getElementById("strip"));
  // A server that plays nothing and records nothing has no such view.
  if (await replays.refresh().catch(() => false)) views.replay = replays;
  const scenarios = new Scenarios(document.getElementById("scenario"));
  if (await scenarios.begin().catch(() => false)) views.scenario = scenarios;
  // Links of the views that are there now.
  if (shown) return show(shown);
  // The market's view writes the item that it opens into the address, and may have done so before the view that was asked for is there.
  if (asked && location.hash !== asked) history.replaceState(null, "", asked);
  return route();
}

start();
