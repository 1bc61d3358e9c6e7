// The topology as a picture: who feeds this process, the process, whom it feeds. Rates on the arrows, red where it hurts.

import { bytes, el, grouped, short, svg } from "./dom.js";

const SHOWN = 9;

/** The services that are down at those whose offers are as wanted: what is there and offers nothing is as bad as what is not there. */
export function down(services, offers) {
  return services.filter((service) => service.providers.some((offer) => offers(offer) && !(offer.up && service.up))).map((service) => `${service.name} down`);
}

/** Who stands left and right of a process: providers and clients, or the other end of the hub. */
export function sides({ services, providers, clients, peers, rates }) {
  const rate = (ids, which) => ids.reduce((sum, id) => sum + (rates.get(id)?.[which] ?? 0), 0);
  const flow = (value) => (value >= 1 ? `${bytes(value)}/s` : "");
  const left = providers.map((provider) => ({ provider, sick: provider.id ? down(services, (offer) => offer.provider === provider.id) : [] })).map(({ provider, sick }) => ({
    title: provider.address, about: sick.join(", ") || provider.services.join(", ") || provider.state, bad: provider.state !== "ready" || sick.length > 0,
    label: [flow(rate([`p${provider.id}`], "received")), count(services, provider)],
  }));
  const right = groupClients(clients).map((group) => ({
    title: group.title, about: `${group.user ? group.user + ", " : ""}${grouped(group.count)} × ${group.protocol}`, bad: group.waiting > 1e6 || group.held > 0,
    label: [flow(rate(group.ids, "sent")), `${grouped(group.items)} items` + (group.waiting ? `, ${bytes(group.waiting)} waiting` : "")],
  }));
  const about = { p2ps: "P2PS", "source-distributor": "Source Distributor", "stream-to-host": "stream into this host", "stream-to-network": "stream to the network" };
  for (const peer of peers) {
    const isUp = ["joined", "carried"].includes(peer.state);
    const sick = peer.kind === "source-distributor" ? down(services, (offer) => !offer.provider && peer.name.split(" ").includes(offer.address)) : [];
    const node = { title: peer.name, about: sick.join(", ") || about[peer.kind] || peer.kind, bad: !isUp || sick.length > 0, label: [isUp ? "" : peer.state, peer.behind_bytes ? `${bytes(peer.behind_bytes)} behind` : ""] };
    (["p2ps", "stream-to-network"].includes(peer.kind) ? right : left).push(node);
  }
  return { left, right };
}

/** What stands on a side where nobody is, by role. */
const NOBODY_LEFT = { p2ps: "no Source Distributor", rrcpd: "no stream in" };
const NOBODY_RIGHT = { "source-distributor": "no P2PS", rrcpd: "no stream out" };

/** Draws it into `root`, as wide as that is. */
export function paint(root, process, rates, { left, right }) {
  const width = Math.max(320, root.clientWidth - 24);
  const narrow = width < 620;
  const more = Math.max(0, left.length - SHOWN) + Math.max(0, right.length - SHOWN);
  const shownLeft = left.length ? left.slice(0, SHOWN) : [{ title: NOBODY_LEFT[process.role] || "no provider", about: "", bad: process.role !== "rrcpd", label: [] }];
  const shownRight = right.length ? right.slice(0, SHOWN) : [{ title: NOBODY_RIGHT[process.role] || "no client", about: "", none: true, label: [] }];
  const box = { w: narrow ? 108 : Math.min(230, width * 0.24), h: 46 };
  const rows = Math.max(shownLeft.length, shownRight.length, 2);
  const height = rows * 62 + 16;
  const middle = { x: width / 2, y: height / 2, w: narrow ? 70 : 190, h: 64 };
  const room = middle.x - middle.w / 2 - box.w - 40;
  // The arrows of a side bend beside its labels, and run straight between them.
  const labels = (nodes) => (narrow ? 0 : 20 + Math.min(room, Math.max(0, ...nodes.flatMap((node) => node.label.filter(Boolean).map((text) => widthOf(text, RATE))))));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Who feeds this process, and whom it feeds" });
  const column = (nodes, isLeft, straight) => nodes.forEach((node, n) => {
    const y = (height / nodes.length) * (n + 0.5);
    const x = isLeft ? 2 : width - box.w - 2;
    const from = isLeft ? [x + box.w, y] : [middle.x + middle.w / 2, middle.y];
    const to = isLeft ? [middle.x - middle.w / 2, middle.y] : [x, y];
    const [begin, end] = isLeft ? [from[0] + straight, to[0]] : [from[0], to[0] - straight];
    const bend = (begin + end) / 2;
    if (!node.none) drawing.append(svg("path", { class: "flow" + (node.bad ? " bad" : ""), d: `M${from[0]} ${from[1]} H${begin} C${bend} ${from[1]} ${bend} ${to[1]} ${end} ${to[1]} H${to[0]}` }));
    const at = isLeft ? [from[0] + 10, y, "start"] : [to[0] - 10, y, "end"];
    // The rate above the arrow, what goes on it below.
    const [above, below] = node.label;
    if (!narrow && above) drawing.append(svg("text", { class: "label outside rate", x: at[0], y: at[1] - 7, "text-anchor": at[2], text: cut(above, room, RATE) }));
    if (!narrow && below) drawing.append(svg("text", { class: "label outside", x: at[0], y: at[1] + 16, "text-anchor": at[2], text: cut(below, room, LABEL) }));
    drawing.append(
      svg("rect", { class: "node" + (node.bad ? " bad" : "") + (node.none ? " none" : ""), x, y: y - box.h / 2, width: box.w, height: box.h, rx: 8 }),
      svg("text", { class: "name", x: x + 12, y: y - 3, text: cut(node.title, box.w - 20, NAME) }),
      svg("text", { class: "label", x: x + 12, y: y + 14, text: cut(narrow && !node.bad ? above || node.about : node.about, box.w - 20, LABEL) }));
  });
  column(shownLeft, true, labels(shownLeft));
  column(shownRight, false, labels(shownRight));
  const sick = process.draining || process.threads.some((thread) => !thread.answers);
  drawing.append(
    svg("rect", { class: "node here" + (sick ? " bad" : ""), x: middle.x - middle.w / 2, y: middle.y - middle.h / 2, width: middle.w, height: middle.h, rx: 10 }),
    svg("text", { class: "name centre", x: middle.x, y: middle.y - 8, "text-anchor": "middle", text: narrow ? process.role : cut(`${process.role} on ${process.host}`, middle.w - 20, NAME) }),
    svg("text", { class: "label centre", x: middle.x, y: middle.y + 9, "text-anchor": "middle", text: `${short(rates.in)} in/s` }),
    svg("text", { class: "label centre", x: middle.x, y: middle.y + 24, "text-anchor": "middle", text: `${short(rates.out)} out/s` }));
  root.replaceChildren(drawing);
  if (more) root.append(el("p", { class: "quiet", text: `and ${more} more; the tables below have all` }));
}

/** Fonts of the picture, as the style has them. */
const [NAME, LABEL, RATE] = ["600 12.5px", "400 11.5px", "600 11.5px"];
const ruler = document.createElement("canvas").getContext("2d");

function widthOf(text, font) {
  ruler.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

/** As much of a text as fits. */
function cut(text, width, font) {
  if (widthOf(text, font) <= width) return text;
  let [fits, over] = [0, text.length];
  while (over - fits > 1) {
    const half = (fits + over) >> 1;
    if (widthOf(text.slice(0, half) + "…", font) <= width) fits = half;
    else over = half;
  }
  return text.slice(0, fits) + "…";
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
    const title = client.application || client.user || "no login";
    const group = groups.get(key) ?? { title, user: client.application ? client.user : "", protocol: client.protocol, ids: [], count: 0, items: 0, waiting: 0, held: 0 };
    group.ids.push(`c${client.id}`);
    group.count += 1;
    group.items += client.items;
    group.waiting += client.queued_bytes;
    group.held += Number(client.held_back);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.held - a.held || b.waiting - a.waiting || b.items - a.items);
}
