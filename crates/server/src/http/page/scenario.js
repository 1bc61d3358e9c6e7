// The test stand: which scenarios there are, the one that is played, and its steps as they happen.

import { api, badge, button, el, toast } from "./dom.js";

const LOOK_MS = 250;
const OUTCOMES = { playing: "warn", passed: "good", failed: "bad", "not judged": "quiet" };
const MARKS = { done: "✓", failed: "✗", doing: "▶", "to come": "" };
const seconds = (at) => (at === null ? "" : `${at.toFixed(1)} s`);

/** The scenarios, by what they test and by a word. */
class Library {
  constructor(play) {
    this.play = play;
    this.search = el("input", { type: "search", class: "search", placeholder: "Search", "aria-label": "Search scenarios", oninput: () => this.sift() });
    this.rows = el("div", { class: "scenario-list", role: "list" });
    this.root = el("section", { class: "card scenarios" }, el("div", { class: "card-head" }, el("h2", { text: "Scenarios" }), this.search), this.rows);
  }

  show(scenarios) {
    this.all = scenarios.map((scenario) => {
      const start = button("Run", () => this.play(scenario.name), { "aria-label": `Run ${scenario.name}` });
      const text = el("div", { class: "scenario-text" }, el("b", { text: scenario.name }), el("span", { class: "quiet", text: scenario.title }));
      const row = el("div", { class: "scenario-row", role: "listitem", title: `${scenario.about}\n\nRules: ${scenario.rules.join(", ")}` }, text, badge(scenario.judges, "quiet"), start);
      return { scenario, row, words: `${scenario.name} ${scenario.title} ${scenario.judges} ${scenario.rules.join(" ")}`.toLowerCase() };
    });
    this.sift();
  }

  sift() {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.all.filter(({ words }) => wanted.every((word) => words.includes(word)));
    this.rows.replaceChildren(...found.map(({ row }) => row));
    if (!found.length) this.rows.append(el("p", { class: "quiet note", text: "No scenario has these words." }));
  }

  /** The one that is played, or was the last. */
  mark(name) {
    for (const { scenario, row } of this.all) row.setAttribute("aria-current", scenario.name === name);
  }
}

/** A run: its steps, what was found, the last messages. */
class Run {
  constructor(stop, again) {
    this.name = el("h2");
    this.state = el("span");
    this.time = el("span", { class: "quiet" });
    this.stop = button("Stop", stop);
    this.again = button("Run again", again);
    this.about = el("p", { class: "note scenario-about" });
    this.steps = el("ol", { class: "scenario-steps", "aria-label": "Steps", "aria-live": "polite" });
    this.findings = el("div", { class: "scenario-findings" });
    this.messages = el("div", { class: "scenario-messages" });
    this.summary = el("summary");
    this.root = el("section", { class: "card scenario-run" },
      el("div", { class: "card-head" }, this.name, this.time, this.state, this.stop, this.again),
      this.about, this.findings, this.steps, el("details", {}, this.summary, this.messages));
  }

  show(run) {
    const plays = run.outcome === "playing";
    this.name.textContent = run.scenario;
    this.about.replaceChildren(el("b", { text: `${run.title}. ` }), run.about);
    this.time.textContent = seconds(run.took_s);
    this.state.replaceChildren(badge(run.outcome === "failed" ? "FAILED" : run.outcome, OUTCOMES[run.outcome]));
    this.stop.hidden = !plays;
    this.again.hidden = plays;
    // Only what is new is written: a reader's place and selection stay.
    const key = `${run.scenario} ${run.steps.map((step) => step.state + step.at_s)}`;
    if (this.key !== key) {
      this.key = key;
      this.steps.replaceChildren(...run.steps.map((step) => el("li", { class: `step ${step.state.replace(" ", "-")}`, "aria-current": step.state === "doing" ? "step" : null },
        el("span", { class: "mark", text: MARKS[step.state], "aria-label": step.state }), el("code", { text: step.text }), el("span", { class: "quiet", text: seconds(step.at_s) }))));
      this.steps.querySelector(".doing")?.scrollIntoView({ block: "nearest" });
    }
    const found = run.findings.map((finding) => el("div", { class: "finding" },
      el("div", {}, el("b", { class: "why", text: finding.rule }), el("span", { class: "quiet", text: ` at ${seconds(finding.at_s)}` })),
      el("div", { text: finding.text }), el("div", { class: "quiet", text: `${finding.about} (${finding.source})` })));
    if (run.why_not) found.push(el("p", { class: "note quiet", text: `Not judged: ${run.why_not}` }));
    this.findings.replaceChildren(...found);
    this.summary.textContent = `The last ${run.messages.length} messages`;
    const last = `${run.messages.length} ${run.messages.at(-1)?.at_s}`;
    if (this.last !== last) {
      this.last = last;
      this.messages.replaceChildren(...run.messages.map((message) => el("div", { class: "scenario-message" },
        el("div", { class: "quiet", text: `${message.at_s.toFixed(3)} s · ${message.from_client ? "client →" : "→ client"} · connection ${message.connection}` }), el("pre", { text: message.text }))));
    }
  }
}

/** The view. */
export class Scenarios {
  constructor(root) {
    this.root = root;
    this.place = el("span", { class: "scenario-place" });
    this.connections = el("span");
    this.trouble = el("p", { class: "why note", hidden: true });
    this.library = new Library((name) => this.play(name));
    this.run = new Run(() => this.order("scenarios/stop", {}), () => this.play(this.played));
    this.run.root.hidden = true;
    this.hint = el("section", { class: "card" }, el("p", { class: "note quiet", text: "Connect a client, and choose a scenario. The client loses its connection, connects again, and the scenario begins." }));
    root.append(el("div", { class: "page scenario-page" },
      el("section", { class: "card scenario-stand" }, el("div", { class: "card-head" }, el("h2", { text: "Test stand" }), this.place, this.connections), this.trouble),
      el("div", { class: "scenario-columns" }, this.library.root, el("div", { class: "scenario-side" }, this.hint, this.run.root))));
    setInterval(() => this.look(), LOOK_MS);
  }

  /** Whether the process has a stand; fetches what there is to choose. */
  async begin() {
    const standing = await api("scenarios/run");
    if (standing.state === "off") return false;
    this.library.show(await api("scenarios"));
    this.paint(standing);
    return true;
  }

  show() {
    this.shown = true;
    this.look();
  }

  hide() {
    this.shown = false;
  }

  async look() {
    if (!this.shown || this.busy || document.hidden) return;
    this.busy = true;
    try {
      this.paint(await api("scenarios/run"));
      this.failed = false;
    } catch (e) {
      if (!this.failed) toast(`The test stand does not answer: ${e.message}`, true);
      this.failed = true;
    }
    this.busy = false;
  }

  paint(standing) {
    this.place.textContent = `clients connect to ${standing.listen}`;
    const count = standing.connections;
    this.connections.replaceChildren(badge(count ? `${count} connected` : "nobody is connected", count ? "good" : "warn"));
    this.trouble.hidden = !standing.trouble;
    this.trouble.textContent = standing.trouble ?? "";
    this.hint.hidden = Boolean(standing.run);
    this.run.root.hidden = !standing.run;
    if (standing.run) {
      this.played = standing.run.scenario;
      this.library.mark(this.played);
      this.run.show(standing.run);
    }
  }

  async play(scenario) {
    await this.order("scenarios/run", { scenario });
    if (matchMedia("(max-width: 800px)").matches) this.run.root.scrollIntoView({ behavior: "smooth" });
  }

  async order(path, body) {
    try {
      await api(path, body);
    } catch (e) {
      toast(e.message, true);
    }
    await this.look();
  }
}
