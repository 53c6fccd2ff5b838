// Panel: what there is to know beside the sheet. The cell that is chosen, with all it ever held; what was done and by
// whom; the versions that have a name.

import { ago, find, make, moment, sentence } from "./dom.js";

const TABS = { cell: "Cell", activity: "Activity", versions: "Versions" };
const SETTLE_MS = 150;

export class Panel extends EventTarget {
  #element;
  #ask;
  #tab = "cell";
  #cell = null;
  #at = null;
  #turn = 0;
  #settling = null;

  /** `ask` answers `blame(cell)`, `activity(before)` and `versions()`. */
  constructor(element, ask) {
    super();
    this.#element = element;
    this.#ask = ask;
    element.append(this.#tabs(), make("div", { id: "panel-body", role: "tabpanel", tabindex: "0" }));
  }

  get isOpen() {
    return !this.#element.hidden;
  }

  set isOpen(isOpen) {
    this.#element.hidden = !isOpen;
    if (isOpen) this.refresh();
  }

  /** The cell that is chosen: `{name, tab, label, content}`. */
  set cell(cell) {
    const isSame = cell.name === this.#cell?.name && cell.tab === this.#cell?.tab;
    this.#cell = cell;
    if (!isSame && this.#tab === "cell") this.refresh();
  }

  /** The version that is looked at, or null. */
  set at(version) {
    this.#at = version;
    for (const one of this.#element.querySelectorAll("[data-version]")) {
      one.toggleAttribute("data-here", Number(one.dataset.version) === version);
    }
  }

  choose(tab) {
    this.#tab = tab;
    for (const one of this.#element.querySelectorAll("[role=tab]")) {
      one.setAttribute("aria-selected", String(one.dataset.tab === tab));
      one.tabIndex = one.dataset.tab === tab ? 0 : -1;
    }
    find("#panel-body").setAttribute("aria-labelledby", `tab-${tab}`);
    find("#panel-body").replaceChildren();
    this.refresh(0);
  }

  /** Ask again, once nothing has happened for a moment. */
  refresh(afterMs = SETTLE_MS) {
    if (!this.isOpen) return;
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#refresh(), afterMs);
  }

  async #refresh() {
    const turn = ++this.#turn;
    const draw = {
      cell: () => this.#drawCell(),
      activity: () => this.#drawActivity(),
      versions: () => this.#drawVersions(),
    };
    let parts;
    try {
      parts = await draw[this.#tab]();
    } catch (error) {
      parts = [
        make(
          "p",
          { class: "hint" },
          error.code === "outcome-unknown" ? "The history is on the server." : sentence(error),
        ),
      ];
    }
    if (turn === this.#turn) find("#panel-body").replaceChildren(...parts);
    this.at = this.#at;
  }

  #tabs() {
    const tabs = Object.entries(TABS).map(([tab, text]) =>
      make(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${tab}`,
          "data-tab": tab,
          "aria-selected": String(tab === this.#tab),
          "aria-controls": "panel-body",
          tabindex: tab === this.#tab ? 0 : -1,
          onclick: () => this.choose(tab),
        },
        text,
      ),
    );
    const close = make("button", {
      type: "button",
      class: "quiet icon close",
      "aria-label": "Close",
      onclick: () => this.#close(),
    });
    const list = make(
      "div",
      { role: "tablist", "aria-label": "History", onkeydown: (event) => move(event, tabs) },
      ...tabs,
    );
    return make("div", { class: "tabs" }, list, close);
  }

  #close() {
    this.isOpen = false;
    this.dispatchEvent(new Event("close"));
  }

  async #drawCell() {
    const { name, label, tab } = this.#cell ?? {};
    if (!name) return [make("p", { class: "hint" }, "Choose a cell to see who changed it, when, and from what.")];
    const found = await this.#ask.blame({ name, tab });
    const head = make("h2", {}, name, make("small", {}, label));
    if (!found.length) return [head, make("p", { class: "hint" }, "Nobody has changed this cell.")];
    return [head, make("ol", { class: "entries" }, ...found.map((one) => this.#entry(one, this.#held(one))))];
  }

  #held({ before, after, how }) {
    const value = (text) => make("code", {}, text || "empty");
    const held = make("p", { class: "held" }, make("s", {}, before || "empty"), " → ", value(after));
    return how && how !== "wrote" ? make("div", {}, held, make("p", { class: "how" }, how)) : held;
  }

  async #drawActivity() {
    const found = await this.#ask.activity(null);
    const list = make("ol", { class: "entries" }, ...found.map((one) => this.#deed(one)));
    if (!found.length || found.at(-1).version <= 1) return [list];
    const more = make(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: async () => {
          const next = await this.#ask.activity(Number(list.lastElementChild.dataset.version));
          list.append(...next.map((one) => this.#deed(one)));
          if (!next.length || next.at(-1).version <= 1) more.remove();
        },
      },
      "Earlier",
    );
    return [list, more];
  }

  #deed(one) {
    return this.#entry(one, make("p", { class: "held" }, one.text));
  }

  async #drawVersions() {
    const found = await this.#ask.versions();
    if (!found.length)
      return [make("p", { class: "hint" }, "No version has a name yet. Move the slider to a moment and name it.")];
    const newest = [...found].sort((one, other) => other.version - one.version);
    return [
      make(
        "ol",
        { class: "entries" },
        ...newest.map((one) => this.#entry(one, make("p", { class: "held named" }, one.label))),
      ),
    ];
  }

  /** One version: who and when, and what; choosing it goes there. */
  #entry({ version, author, created_ms }, what) {
    const when = make(
      "time",
      { datetime: new Date(created_ms).toISOString(), title: moment(created_ms) },
      ago(created_ms),
    );
    const who = make("p", { class: "who" }, make("b", {}, author || "Somebody"), " ", when);
    const go = () => this.dispatchEvent(new CustomEvent("go", { detail: version }));
    const link = make(
      "button",
      { type: "button", "aria-label": `Look at version ${version}`, onclick: go },
      `v${version}`,
    );
    return make("li", { "data-version": version }, make("div", {}, who, what), link);
  }
}

function move(event, tabs) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.click();
  next.focus();
}
