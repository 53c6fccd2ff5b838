// Timeline: the strip below the sheet, with a slider over the kept versions, a play button, and actions on versions.

import { ago, find, make, moment } from "./dom.js";

const PLAY_SECONDS = 15;
const STEP_MS_MIN = 140;
const SETTLE_MS = 60;
/** If a version is not shown after this time, the timeline says that the version is being opened. */
const OPENING_MS = 500;

export class Timeline extends EventTarget {
  /** The shown version; null for the newest version. */
  at = null;
  #element;
  #first = 0;
  #last = 0;
  #parts;
  #settling = null;
  #opening = null;
  #playing = null;

  constructor(element, { isReadOnly }) {
    super();
    this.#element = element;
    this.#parts = this.#draw(isReadOnly);
    this.#show();
  }

  /** The first retained version and the newest version. */
  set range([first, last]) {
    if (first === this.#first && last === this.#last) return;
    [this.#first, this.#last] = [first, last];
    this.#show();
    this.#moveTicks();
  }

  /** The versions with a name. */
  set names(versions) {
    this.#parts.ticks.replaceChildren(
      ...versions.map(({ version, label }) =>
        make("button", {
          type: "button",
          "data-at": version,
          title: `${label} · version ${version}`,
          "aria-label": `Version ${version}, ${label}`,
          onclick: () => this.go(version),
        }),
      ),
    );
    this.#moveTicks();
  }

  /** The facts of the shown version; `changed` is in words, as in "2 cells". Null if the facts are unknown. */
  set facts(facts) {
    clearTimeout(this.#opening);
    const { author, created_ms, changed } = facts ?? {};
    const time = created_ms ? moment(created_ms) : "";
    const words = facts && [author || "somebody", time, changed && `${changed} changed`];
    this.#parts.facts.textContent = words?.filter(Boolean).join(" · ") ?? "";
    this.#parts.facts.title = created_ms ? ago(created_ms) : "";
  }

  get isComparing() {
    return this.#parts.compare.getAttribute("aria-pressed") === "true";
  }

  /** Show a version. Null means the newest version. */
  go(version) {
    const wanted = version === null || version >= this.#last ? null : Math.max(this.#first, version);
    if (wanted === this.at) return;
    if (this.at === null) this.facts = null;
    this.at = wanted;
    this.#show();
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#announce("move"), SETTLE_MS);
    clearTimeout(this.#opening);
    if (wanted !== null) this.#opening = setTimeout(() => (this.#parts.facts.textContent = "Opening…"), OPENING_MS);
  }

  pause() {
    clearTimeout(this.#playing);
    this.#playing = null;
    this.#show();
  }

  /** The handler of `move` calls this once the version is shown. Play waits for this call before the next version. */
  shown() {
    if (this.#playing === null) return;
    if (this.at === null) return this.pause();
    const steps = (PLAY_SECONDS * 1000) / STEP_MS_MIN;
    const step = Math.max(1, Math.round((this.#last - this.#first) / steps));
    this.#playing = setTimeout(() => this.go(this.at + step), STEP_MS_MIN);
  }

  #play() {
    if (this.#playing !== null) return this.pause();
    this.#playing = 0;
    if (this.at === null) this.go(this.#first);
    else this.shown();
    this.#show();
  }

  #draw(isReadOnly) {
    const button = (name, text, does, attributes = {}) =>
      make("button", { type: "button", class: "quiet", "data-do": name, onclick: does, ...attributes }, text);
    const slider = make("input", {
      type: "range",
      "aria-label": "Version",
      oninput: () => {
        const version = slider.valueAsNumber;
        this.pause();
        this.go(version);
      },
    });
    const ticks = make("div", { class: "ticks" });
    const play = button("play", "", () => this.#play(), { class: "quiet icon" });
    const words = make("p", { class: "when", role: "status" });
    const facts = make("span", { class: "facts" });
    const compare = button("compare", "Compare with now", () => this.#compare(), { "aria-pressed": "false" });
    const announce = (name) => () => this.#announce(name);
    const writing = [button("name", "Name it", announce("name")), button("restore", "Restore", announce("restore"))];
    const actions = make(
      "div",
      { class: "actions" },
      compare,
      button("download", "Download", announce("download")),
      button("copy", "Copy", announce("copy")),
      ...(isReadOnly ? [] : writing),
      button("now", "Back to now", () => this.go(null), { class: "strong" }),
    );
    words.append(make("b", {}), facts);
    this.#element.replaceChildren(play, make("div", { class: "slider" }, slider, ticks), words, actions);
    return { slider, ticks, play, words, facts, compare, actions };
  }

  #compare() {
    const { compare } = this.#parts;
    compare.setAttribute("aria-pressed", String(!this.isComparing));
    this.#announce("move");
  }

  #show() {
    const { slider, play, words, facts, actions } = this.#parts;
    const at = this.at ?? this.#last;
    Object.assign(slider, { min: this.#first, max: this.#last });
    slider.value = at;
    slider.disabled = this.#first >= this.#last;
    slider.setAttribute("aria-valuetext", this.at === null ? `now, version ${at}` : `version ${at} of ${this.#last}`);
    slider.style.setProperty("--share", (at - this.#first) / Math.max(1, this.#last - this.#first));
    find("b", words).textContent = this.at === null ? `Version ${at}` : `Version ${at} of ${this.#last}`;
    if (this.at === null) facts.textContent = "now";
    play.setAttribute("aria-label", this.#playing === null ? "Play the history" : "Pause");
    play.dataset.playing = this.#playing !== null;
    play.disabled = slider.disabled;
    actions.hidden = this.at === null;
    document.body.dataset.time = this.at === null ? "now" : "past";
  }

  /** Move the named versions to their positions between the first and the newest version. */
  #moveTicks() {
    for (const tick of this.#parts.ticks.children) {
      tick.style.left = `${(100 * (tick.dataset.at - this.#first)) / Math.max(1, this.#last - this.#first)}%`;
    }
  }

  #announce(type) {
    this.dispatchEvent(new CustomEvent(type, { detail: this.at }));
  }
}
