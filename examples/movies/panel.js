// The panel: the open movie, the outcomes of changes, and a slider over the movie's versions.

import { make, ratingOf, say, titleOf, yearOf } from "./dom.js";

const FACTS = [
  "Director",
  "Release Date",
  "Major Genre",
  "Distributor",
  "MPAA Rating",
  "Running Time min",
  "IMDB Rating",
  "IMDB Votes",
  "Rotten Tomatoes Rating",
  "Production Budget",
  "US Gross",
  "Worldwide Gross",
];
const NAMES = {
  "Running Time min": "Running time",
  "Major Genre": "Genre",
  "MPAA Rating": "Rated",
  "IMDB Votes": "Votes",
  "IMDB Rating": "Rating",
  "Rotten Tomatoes Rating": "Rotten Tomatoes",
  "Production Budget": "Budget",
};
const MONEY = new Set(["Production Budget", "US Gross", "Worldwide Gross"]);
const WHAT_HAPPENED = {
  rejected: " was not kept: ",
  unknown: " may or may not have been kept: ",
  lost: " was kept, and is lost: ",
};
const number = new Intl.NumberFormat("en");

export class Panel {
  #key = null;
  #changes = [];
  #index = 0;
  #loaded = null;

  constructor(element, { client, history, acts, onUndo, onRetry, onRestore }) {
    this.client = client;
    this.history = history;
    this.acts = acts;
    this.onUndo = onUndo;
    this.onRetry = onRetry;
    this.onRestore = onRestore;
    this.hint = make("p", { className: "hint" }, "Choose a movie.");
    this.year = make("p", { className: "when" });
    this.title = make("h2");
    this.facts = make("dl");
    this.failures = make("div", { className: "failures" });
    this.slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "Versions of this movie" });
    this.moment = make("p", { className: "moment" });
    this.restore = make("button", { type: "button", hidden: true }, "Bring this back");
    this.past = make(
      "section",
      { className: "history" },
      make("h3", {}, "Its past"),
      this.slider,
      this.moment,
      this.restore,
    );
    this.log = make("ul", { className: "acts" });
    this.body = make(
      "article",
      { hidden: true },
      this.year,
      this.title,
      this.failures,
      this.facts,
      this.past,
      this.log,
    );
    element.append(this.hint, this.body);
    this.slider.addEventListener("input", () => this.slide(Number(this.slider.value)));
    this.restore.addEventListener("click", () => this.onRestore(this.#key, this.#changes[this.#index].value));
  }

  open(key) {
    this.#key = key;
    this.#changes = [];
    this.#loaded = null;
    this.draw();
  }

  /** Show one of the versions, counted from the oldest. */
  slide(index) {
    this.#index = Math.min(this.#changes.length - 1, Math.max(0, index));
    this.draw();
  }

  step(steps) {
    if (this.#changes.length) this.slide(this.#index + steps);
  }

  draw() {
    const present = this.#key && this.client.get(this.#key);
    this.hint.hidden = Boolean(present);
    this.body.hidden = !present;
    if (!present) return say(this.hint, this.#key ? "This movie is gone." : "Choose a movie.");
    this.#load();
    const isPast = this.#changes.length > 0 && this.#index < this.#changes.length - 1;
    const movie = isPast ? this.#changes[this.#index].value : present;
    this.body.classList.toggle("past", isPast);
    say(this.year, yearOf(movie) || "No year");
    say(this.title, titleOf(movie));
    this.title.classList.toggle("other", isPast && movie.Title !== present.Title);
    this.#drawFacts(movie, present);
    this.#drawHistory(isPast);
    this.#drawFailures();
    this.#drawActs();
  }

  // The client has no history. So ask the server for the history, and ask again after each new version.
  async #load() {
    const [key, version] = [this.#key, this.client.version];
    if (this.#loaded === version || !this.client.running) return;
    this.#loaded = version;
    const changes = (await this.history(key))?.reverse();
    if (!changes || key !== this.#key) return;
    const atEnd = this.#index >= this.#changes.length - 1;
    this.#changes = changes.filter(({ deleted }) => !deleted);
    if (atEnd) this.#index = this.#changes.length - 1;
    this.draw();
  }

  #drawFacts(movie, present) {
    const known = FACTS.filter((name) => movie[name] !== null && movie[name] !== undefined);
    this.facts.replaceChildren(
      ...known.flatMap((name) => {
        const other = movie[name] !== present[name] ? "other" : "";
        return [make("dt", {}, NAMES[name] ?? name), make("dd", { className: other }, factOf(movie, name))];
      }),
    );
  }

  #drawHistory(isPast) {
    const count = this.#changes.length;
    this.slider.max = Math.max(0, count - 1);
    this.slider.value = this.#index;
    this.slider.disabled = count < 2;
    this.restore.hidden = !isPast;
    const change = this.#changes[this.#index];
    if (!change) return say(this.moment, this.client.running ? "…" : "Go online to see it.");
    const when = new Date(change.created_ms).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const [mutation] = change.mutations;
    const who =
      mutation?.client === this.client.id ? "you" : change.author === "import" ? "imported" : "somebody else";
    say(this.moment, `Version ${number.format(change.version)}, ${when}, ${who}`);
  }

  #drawFailures() {
    const failures = this.client.failures.filter(({ args }) => args?.key === this.#key);
    this.failures.replaceChildren(
      ...failures.map((failure) =>
        make(
          "div",
          { role: "alert", className: "failure" },
          make("p", {}, wanted(failure), WHAT_HAPPENED[failure.status], failure.reason, "."),
          make("button", { type: "button", onclick: () => this.onRetry(failure) }, "Do it anyway"),
          make("button", { type: "button", onclick: () => this.client.dismiss(failure) }, "Leave it"),
        ),
      ),
    );
  }

  #drawActs() {
    const acts = this.acts
      .filter(({ key }) => key === this.#key)
      .slice(-5)
      .reverse();
    this.log.replaceChildren(
      ...acts.map((act) =>
        make(
          "li",
          { "data-status": act.handle.status },
          make("span", {}, act.text),
          make("em", {}, act.note ?? act.handle.status),
          act.undone || ["rejected", "lost"].includes(act.handle.status)
            ? null
            : make("button", { type: "button", onclick: () => this.onUndo(act) }, "Undo"),
        ),
      ),
    );
  }
}

function factOf(movie, name) {
  if (name === "IMDB Rating") return `${ratingOf(movie)} of 10`;
  if (name === "Running Time min") return `${movie[name]} minutes`;
  if (name === "Rotten Tomatoes Rating") return `${movie[name]} %`;
  if (MONEY.has(name) && typeof movie[name] === "number") return `$ ${number.format(movie[name])}`;
  return typeof movie[name] === "number" ? number.format(movie[name]) : String(movie[name]);
}

function wanted({ name, args }) {
  if (name === "retitle") return `The title “${args.title}”`;
  return name === "rate" ? `The rating ${args.rating}` : "Your change";
}
