// Panel: information beside the sheet. The panel shows the activity with its authors, the changes of the selected cell,
// the named versions, and the conflicts.

import { ago, find, make, moment, sentence } from "./dom.js";
import { refusal } from "./refusals.js";

const TABS = { activity: "Activity", cell: "Cell", versions: "Versions", away: "Away" };
const SETTLE_MS = 150;

export class Panel extends EventTarget {
  #element;
  #queries;
  #tab = "activity";
  #cell = null;
  #at = null;
  #turn = 0;
  #settling = null;

  /**
   * `queries` has `blame(cell)`, `activity(before)`, `versions()`, `refused()`, and `away()`, which returns that tab's
   * elements.
   */
  constructor(element, queries) {
    super();
    this.#element = element;
    this.#queries = queries;
    element.append(this.#tabs(), make("div", { id: "panel-body", role: "tabpanel", tabindex: "0" }));
    this.#clear();
    this.awayCount = 0;
  }

  /** The number of conflicts. The tab “Away” is visible while there are conflicts or the tab is selected. */
  set awayCount(count) {
    const tab = find("#tab-away", this.#element);
    tab.hidden = !count && this.#tab !== "away";
    tab.replaceChildren("Away", count ? make("small", {}, String(count)) : "");
    if (this.#tab === "away") this.refresh(0);
  }

  get isOpen() {
    return !this.#element.hidden;
  }

  set isOpen(isOpen) {
    // The engine gives the grid the focus if no element has the focus.
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    if (!isOpen && this.#element.contains(focused)) focused.blur();
    this.#element.hidden = !isOpen;
    if (isOpen) this.refresh();
  }

  /**
   * The selected cell: `{name, tab, at, label}`. `at` is the version in which the user selected the cell, or null for
   * the newest version. While the user views versions of the cell's history, the panel keeps the first `at`.
   */
  set cell(cell) {
    const { name, tab, at } = this.#cell ?? {};
    const isSame = cell.name === name && cell.tab === tab && (cell.at !== null || at === null);
    this.#cell = isSame ? { ...cell, at } : cell;
    if (!isSame && this.#tab === "cell") this.refresh();
  }

  /** The shown earlier version, or null. */
  set at(version) {
    this.#at = version;
    for (const item of this.#element.querySelectorAll("[data-version]")) {
      item.toggleAttribute("data-here", Number(item.dataset.version) === version);
    }
  }

  choose(tab) {
    this.#tab = tab;
    for (const button of this.#element.querySelectorAll("[role=tab]")) {
      if (button.dataset.tab === tab) button.hidden = false;
      button.setAttribute("aria-selected", String(button.dataset.tab === tab));
      button.tabIndex = button.dataset.tab === tab ? 0 : -1;
    }
    find("#panel-body").setAttribute("aria-labelledby", `tab-${tab}`);
    this.#clear();
    this.#turn++; // an answer for another tab may still arrive, and must not be shown in this tab
    this.refresh(0);
  }

  /** Remove what the panel shows. If the next answer takes long, the panel says that it is being read. */
  #clear() {
    find("#panel-body").replaceChildren(make("p", { class: "hint late" }, "Reading the history…"));
  }

  /** Query again once `afterMs` milliseconds have passed without another call of `refresh`. */
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
      away: () => this.#queries.away(),
    };
    let parts;
    try {
      parts = await draw[this.#tab]();
    } catch (error) {
      parts = [
        make(
          "p",
          { class: "hint" },
          error.code === "outcome-unknown" ? "The history needs the server, which cannot be reached." : sentence(error),
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
          // A click on a tab must not take the focus from the cell that is being edited.
          onmousedown: (event) => event.preventDefault(),
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
    const { name, label, tab, at } = this.#cell ?? {};
    if (!name) return [make("p", { class: "hint" }, "Choose a cell to see its changes, with author and time.")];
    const entries = await this.#queries.blame({ name, tab, at });
    const head = make("h2", {}, name, make("small", {}, at === null ? label : `${label}, version ${at}`));
    if (!entries.length) return [head, make("p", { class: "hint" }, "No change of this cell is known.")];
    return [head, make("ol", { class: "entries" }, ...entries.map((entry) => this.#entry(entry, this.#change(entry))))];
  }

  #change({ before, after, how }) {
    const value = (text) => make("code", {}, text || "empty");
    const change = make("p", { class: "held" }, make("s", {}, before || "empty"), " → ", value(after));
    return how && how !== "wrote" ? make("div", {}, change, make("p", { class: "how" }, how)) : change;
  }

  async #drawActivity() {
    const entries = await this.#queries.activity(null);
    const list = make("ol", { class: "entries" }, ...entries.map((entry) => this.#deed(entry)));
    if (!entries.length || entries.at(-1).version <= 1) return [list];
    const more = make(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: async () => {
          const next = await this.#queries.activity(Number(list.lastElementChild.dataset.version));
          list.append(...next.map((entry) => this.#deed(entry)));
          if (!next.length || next.at(-1).version <= 1) more.remove();
        },
      },
      "Earlier",
    );
    return [list, more];
  }

  #deed(entry) {
    const refused = this.#queries.refused().filter(({ version }) => version === entry.version);
    return this.#entry(entry, make("div", {}, make("p", { class: "held" }, entry.text), ...refused.map(refusal)));
  }

  async #drawVersions() {
    const versions = await this.#queries.versions();
    if (!versions.length)
      return [make("p", { class: "hint" }, "No version has a name yet. Move the slider to a version, and name it.")];
    const newest = [...versions].sort((left, right) => right.version - left.version);
    return [
      make(
        "ol",
        { class: "entries" },
        ...newest.map((named) => this.#entry(named, make("p", { class: "held named" }, named.label))),
      ),
    ];
  }

  /** Make the line of one version: its author, its time, and `what`. A click shows the version. */
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
  const shown = tabs.filter((tab) => !tab.hidden);
  const next = shown[(shown.indexOf(document.activeElement) + step + shown.length) % shown.length];
  next.click();
  next.focus();
}
