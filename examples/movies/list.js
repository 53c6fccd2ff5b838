// The list of movies. It has thousands of rows, but draws only the visible rows. Users edit title and rating in a row.

import { make, ratingOf, say, titleOf, yearOf } from "./dom.js";

const ROW = 42;
const SPARE = 8;

export class List {
  open = null;
  #items = [];
  #positions = new Map();
  #rows = new Map();
  #editing = null;

  constructor(element, { marksOf, onOpen, onEdit }) {
    this.element = element;
    this.inner = element.firstElementChild;
    this.marksOf = marksOf;
    this.onOpen = onOpen;
    this.onEdit = onEdit;
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    element.addEventListener("keydown", (event) => this.#onKey(event));
    element.addEventListener("click", ({ target }) => this.#onClick(target, (key) => this.select(key)));
    element.addEventListener("dblclick", ({ target }) =>
      this.#onClick(target, (key, field) => field && this.edit(field)),
    );
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Show the given [key, movie] pairs in their order. */
  show(items) {
    this.#items = items;
    this.#positions = new Map(items.map(([key], index) => [key, index]));
    this.inner.style.height = `${items.length * ROW}px`;
    this.element.setAttribute("aria-rowcount", items.length);
    this.draw();
  }

  /** Open a movie and scroll to it. */
  select(key) {
    if (this.#editing?.key !== key) this.#editing?.input.blur();
    this.open = key;
    const top = (this.#positions.get(key) ?? 0) * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    this.draw();
    this.onOpen(key);
  }

  move(steps) {
    if (!this.#items.length) return;
    const index = this.#positions.get(this.open);
    const next = index === undefined ? 0 : Math.min(this.#items.length - 1, Math.max(0, index + steps));
    this.select(this.#items[next][0]);
  }

  /** Edit a field, "title" or "rating", of the open movie. */
  edit(field) {
    const row = this.#rows.get(this.open);
    if (!row || this.#editing) return;
    const cell = row.querySelector(`.${field}`);
    const input = make("input", {
      value: field === "title" ? titleOf(row.movie) : ratingOf(row.movie),
      spellcheck: false,
    });
    input.setAttribute("aria-label", field);
    if (field === "rating") input.inputMode = "decimal";
    this.#editing = { key: this.open, field, input, before: input.value };
    cell.replaceChildren(input);
    input.addEventListener("keydown", (event) => this.#onInputKey(event));
    input.addEventListener("blur", () => this.#finish(true));
    input.focus();
    input.select();
  }

  /** Draw the visible rows, without changing a field that the user edits. */
  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - SPARE);
    const count = Math.ceil(this.element.clientHeight / ROW) + 2 * SPARE;
    const visible = this.#items.slice(first, first + count);
    const keys = new Set(visible.map(([key]) => key));
    for (const [key, row] of this.#rows) {
      if (!keys.has(key) && this.#editing?.key !== key) {
        row.remove();
        this.#rows.delete(key);
      }
    }
    visible.forEach(([key, movie], index) => this.#drawRow(key, movie, first + index));
    const row = this.#rows.get(this.open);
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** Highlight a movie that another user changed. */
  flash(key) {
    const row = this.#rows.get(key);
    row?.classList.remove("flash");
    void row?.offsetWidth;
    row?.classList.add("flash");
  }

  #drawRow(key, movie, index) {
    const row = this.#rows.get(key) ?? this.#makeRow(key);
    const marks = this.marksOf(key);
    row.movie = movie;
    row.style.transform = `translateY(${index * ROW}px)`;
    row.setAttribute("aria-rowindex", index + 1);
    row.setAttribute("aria-selected", key === this.open);
    row.dataset.outcome = marks.outcome;
    const [title, year, rating, people] = row.children;
    const edited = this.#editing?.key === key ? this.#editing.field : null;
    if (edited !== "title") say(title, titleOf(movie));
    if (edited !== "rating") say(rating, ratingOf(movie));
    title.classList.toggle("none", movie.Title === null);
    say(year, yearOf(movie));
    people.replaceChildren(
      ...marks.people.map(({ name, hue }) => {
        const dot = make("i", { title: `${name} is here` });
        dot.style.setProperty("--hue", hue);
        return dot;
      }),
    );
  }

  #makeRow(key) {
    const cell = (name) => make("span", { className: name, role: "gridcell" });
    const row = make(
      "div",
      { className: "row", id: `row-${key}`, role: "row", "data-key": key },
      cell("title"),
      cell("year"),
      cell("rating"),
      cell("people"),
    );
    this.#rows.set(key, row);
    this.inner.append(row);
    return row;
  }

  #onClick(target, then) {
    const key = target.closest(".row")?.dataset.key;
    if (!key || target.tagName === "INPUT") return;
    then(
      key,
      ["title", "rating"].find((field) => target.closest(`.${field}`)),
    );
  }

  #onKey(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[
      event.key
    ];
    if (steps) this.move(steps);
    else if (event.key === "Enter" || event.key === "F2") this.edit("title");
    else if (event.key === "r") this.edit("rating");
    else return;
    event.preventDefault();
  }

  #onInputKey(event) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.stopPropagation();
    event.preventDefault();
    this.#finish(event.key === "Enter");
    this.element.focus();
  }

  #finish(isAccepted) {
    if (!this.#editing) return;
    const { key, field, input, before } = this.#editing;
    this.#editing = null;
    input.parentElement?.replaceChildren();
    this.draw();
    if (isAccepted && input.value.trim() !== before) this.onEdit(key, field, input.value.trim());
  }
}
