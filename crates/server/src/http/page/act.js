// What an operator does: each action asks why, is done, and says what came of it.

import { api, el, toast } from "./dom.js";

/** Asks for a reason, and does it: `path` under /api/v1, `body` beside the reason, `controls` more to choose. `done` gets the answer. */
export function act({ path, question, about, label = "Do it", controls = [], body = () => ({}), done = (answer) => toast(answer.done) }) {
  const dialog = document.getElementById("dialog");
  const why = el("input", { type: "text", required: true, maxlength: 200, placeholder: "Why? Goes to the log and to the peer.", "aria-label": "Why" });
  const form = el("form", { method: "dialog" }, controls, why, el("div", { class: "buttons" },
    el("button", { class: "plain", type: "button", text: "Cancel", onclick: () => dialog.close() }), el("button", { class: "danger", text: label })));
  form.addEventListener("submit", async () => {
    try {
      done(await api(path, { why: why.value, ...body() }));
    } catch (e) {
      toast(e.message, true);
    }
  });
  dialog.replaceChildren(el("h2", { text: question }), el("p", { class: "quiet", text: about }), form);
  dialog.showModal();
  (controls[0]?.querySelector?.("input, select") ?? why).focus();
}

/** A control with its name before it. */
export function labelled(text, control) {
  return el("label", { class: "labelled" }, el("span", { class: "quiet", text }), control);
}

export function choice(options) {
  return el("select", {}, options.map(([value, text]) => el("option", { value, text })));
}

/** Traces a client (`clients/ID`) or an item (`items/ID`): after so many seconds the browser saves a capture, and what shows it is said. */
export function trace(path, name) {
  const seconds = choice([["5", "5 seconds"], ["10", "10 seconds"], ["60", "a minute"], ["600", "ten minutes"]]);
  act({
    path: `${path}/trace`, question: `Trace ${name}?`, label: "Trace", controls: [labelled("For", seconds)],
    about: "What goes over the session is written to a capture that this browser saves then. Up to 4 MB; passwords and tokens of a login in that time are in it.",
    body: () => ({ seconds: seconds.value }),
    done: async ({ trace: id }) => {
      toast(`Tracing ${name} for ${seconds.value} s; keep this page open.`);
      await new Promise((over) => setTimeout(over, Number(seconds.value) * 1000));
      try {
        const taken = await api(`traces/${id}/take`, {});
        const file = `${name.replace(/[^\w.-]+/g, "_")}.pcap`;
        const bytes = Uint8Array.from(atob(taken.capture), (letter) => letter.charCodeAt(0));
        const url = URL.createObjectURL(new Blob([bytes], { type: "application/vnd.tcpdump.pcap" }));
        el("a", { href: url, download: file }).click();
        setTimeout(() => URL.revokeObjectURL(url), 60_000);
        toast(`${taken.done}: quoteway dump --port ${taken.port} ${file}`);
      } catch (e) {
        toast(e.message, true);
      }
    },
  });
}

export function blockItem(service, name, done) {
  const of = el("input", { type: "text", required: true, value: service ?? "", "aria-label": "Service" });
  const called = el("input", { type: "text", required: true, value: name ?? "", "aria-label": "Item" });
  act({
    path: "block", question: name ? `Block ${name}?` : "Block an item?", label: "Block", controls: name ? [] : [labelled("Service", of), labelled("Item", called)],
    about: "Nobody gets it from then on, whatever its domain: its watchers are told, later requests are refused.",
    body: () => ({ service: of.value, name: called.value }),
    done: (answer) => {
      toast(answer.done);
      done?.();
    },
  });
}

export function unblockItem(service, name, done) {
  act({
    path: "unblock", question: `Let ${name} be watched again?`, about: "Whoever wants it asks for it anew.", label: "Unblock", body: () => ({ service, name }),
    done: (answer) => {
      toast(answer.done);
      done?.();
    },
  });
}

/** Has the items of a service go to one of its providers. */
export function switchService(service, done) {
  const to = choice([["", "in the order of the routes"], ...service.providers.map((offer) => [offer.address, `${offer.address}${offer.up ? "" : " (down)"}`])]);
  act({
    path: "switch", question: `Switch ${service.name}?`, label: "Switch", controls: [labelled("Ask", to)],
    about: "Its items are asked for there, until that provider is gone or another switch is made. Each watcher gets one new image.",
    body: () => ({ service: service.name, ...(to.value ? { provider: to.value } : {}) }),
    done: (answer) => {
      toast(answer.done);
      done?.();
    },
  });
}
