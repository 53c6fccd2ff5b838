// Conflict list: the tab “Away” of the panel, with the heading “While you were away”.

import { ago, make, moment } from "./dom.js";
import { nameOf } from "./engine.js";

const SHOWN_MAX = 200;
const LINES = { ROW: "row", COL: "column", SHEET: "sheet" };

/** The heading of each kind, and the text below the heading. */
const KINDS = {
  deleted: ["Lost by deletion", "Your texts and changes in rows, columns or sheets that were deleted."],
  overwritten: ["Overwritten by others", "Others replaced your texts before they had seen your texts."],
  overwrote: ["Overwritten by you", "Others wrote these texts before yours were saved. Your texts replaced theirs."],
  refused: ["Refused", "The sheet did not accept these changes."],
  undo: ["Undo and redo", "These actions did not reach the server, and changed nothing."],
};

/**
 * Return the tab's elements. `restore(item)` and `dismiss(item)` are the actions of an item's buttons. `dismiss()`
 * dismisses all items.
 */
export function drawConflicts(items, { restore, dismiss, isReadOnly }) {
  const head = make("h2", {}, "While you were away");
  if (!items.length) return [head, make("p", { class: "hint" }, "There are no conflicts.")];
  const shown = items.slice(0, SHOWN_MAX);
  const groups = Object.entries(KINDS).flatMap(([kind, [title, hint]]) => {
    const those = shown.filter((item) => item.kind === kind);
    if (!those.length) return [];
    const list = those.map((item) => draw(item, isReadOnly ? null : restore, dismiss));
    const heading = make("h3", {}, title, make("small", {}, String(those.length)));
    const words = make("p", { class: "how" }, hint);
    return [make("section", { "data-kind": kind }, heading, words, make("ol", { class: "entries" }, ...list))];
  });
  const more = items.length > SHOWN_MAX ? `${items.length - SHOWN_MAX} more appear when this list is shorter.` : "";
  const all = make("button", { type: "button", class: "quiet dismiss", onclick: () => dismiss() }, "Dismiss all");
  return [head, ...groups, more && make("p", { class: "hint" }, more), all];
}

function draw(item, restore, dismiss) {
  const { created_ms: created } = item;
  const time = make("time", { datetime: new Date(created).toISOString(), title: moment(created) }, ago(created));
  const where = cellName(item);
  const who = item.author ? ` ${item.author} · ` : " ";
  const button = (text, name, does, attributes = {}) =>
    make("button", { type: "button", "aria-label": name, onclick: () => does(item), ...attributes }, text);
  return make(
    "li",
    { "data-conflict": item.kind },
    make(
      "div",
      {},
      make("p", { class: "who" }, make("b", {}, where), who, time),
      ...texts(item),
      restore && item.text !== "" ? button(verb(item), `${verb(item)}: ${where}`, restore, { class: "put" }) : null,
    ),
    button("", `Dismiss: ${where}`, dismiss, { class: "icon close" }),
  );
}

function texts({ kind, text, other, reason, gone, change }) {
  const value = (content) => make("code", {}, content || "empty");
  if (kind === "overwritten" || kind === "overwrote")
    return [make("p", { class: "held" }, make("s", {}, text || "empty"), " → ", value(other))];
  const lines = [make("p", { class: "held" }, change ?? value(text))];
  if (reason) lines.push(make("p", { class: "how" }, reason));
  if (kind === "deleted" && gone) lines.push(make("p", { class: "how" }, `Its ${LINES[gone]} was deleted.`));
  return lines;
}

const verb = ({ kind, gone, isRedo }) => {
  if (kind === "undo") return isRedo ? "Redo" : "Undo";
  return gone ? `Put into a new ${LINES[gone]}` : "Put back";
};

function cellName({ kind, sheet, col, row, was, gone, isRedo }) {
  const cell = was ? ` in ${nameOf(was.col, was.row)} of ${was.sheet}` : "";
  if (kind === "undo") return `${isRedo ? "Redo" : "Undo"}${cell}`;
  if (col === undefined) return "A change";
  const at = gone && was ? was : { col, row };
  return sheet ? `${nameOf(at.col, at.row)} of ${sheet}` : nameOf(at.col, at.row);
}
