// Conflicts: what of one's own and of others' was lost, since neither knew of the other. Each is here until it is put
// back or dismissed, also across reloads: the offline cache stores them beside what waits.

import { isSame, moved, movedBy } from "./positions.js";

const OWN_WRITES_MAX = 200;
const SHIFTS = new Set(["ADD_COLUMNS_ROWS", "REMOVE_COLUMNS_ROWS", "DELETE_SHEET"]);
/** Commands that hold no text of their own, and are not missed where the cells went that they were for. */
const LOOKS = /^UPDATE_CELL$|^CLEAR|^DELETE|^REMOVE|FORMATTING|BORDER|RESIZE|FREEZE|HIDE|FOLD|GROUP/;
/** Marks a command through all rebases, which copy it. It is a symbol, so nobody is sent it, and nothing stores it. */
const ORIGIN = Symbol("origin");

/**
 * An item: its `kind`, the `text` that can be put back, what `other` came instead, the cell (`sheetId`, `col`, `row`,
 * `sheet`, and `gone` as in positions.js), by whom, and when. Kinds: overwrote (by what was typed here), overwritten
 * (by another), deleted (with its row, column or sheet), refused (by the server), undo (with a `target`, and no cell).
 */
export class Conflicts extends EventTarget {
  items = [];
  /** Counts changes: the offline cache stores the list after each. */
  changes = 0;
  /** Writes of this page that the log holds, where its newest version has them; others may not know of them yet. */
  #own = [];
  #before = null;

  /** The items to store; null where there are none. */
  get stored() {
    return this.items.length || this.#own.length ? { items: this.items, own: this.#own } : null;
  }

  load(stored) {
    this.items = stored?.items ?? [];
    this.#own = stored?.own ?? [];
  }

  add(item) {
    const isCell = item.col !== undefined && item.kind !== "deleted";
    this.items = this.items.filter((known) => !(isCell && known.kind === item.kind && isSame(known, item)));
    this.items.push({ id: crypto.randomUUID(), gone: null, ...this.#cause, ...item });
    this.#announce("added");
  }

  get #cause() {
    const { author = "", created_ms = Date.now() } = this.#before?.entry ?? {};
    return { author, created_ms };
  }

  remove(isOut) {
    const left = this.items.filter((item) => !isOut(item));
    if (left.length === this.items.length) return;
    this.items = left;
    this.#announce("removed");
  }

  /** What is shown has moved. */
  move(command) {
    if (!SHIFTS.has(command.type)) return;
    for (const item of this.items) if (item.sheetId) Object.assign(item, withLine(item, moved(item, command), "shown"));
    this.changes += 1;
  }

  /** Before the engine is given an entry: `commands` are what it does, `pending` all that wait, in order. */
  begin(entry, commands, pending) {
    for (const command of pending) command[ORIGIN] ??= crypto.randomUUID();
    this.#before = { entry, commands, pending };
  }

  /** After the engine was given it: `pending` is what waits now, and `nameOf` gives the name of a sheet. */
  settle(pending, nameOf) {
    const { entry: given, commands, pending: before } = this.#before;
    const { version, author, created_ms, message } = given;
    const entry = { version, author, created_ms, nameOf, shifts: pending.filter(isShift) };
    this.#noteOverwritten(entry, commands, message.typedAt ?? version);
    if (message.type === "REMOTE_REVISION") this.#noteOverwrote(entry, commands, before);
    this.#noteDeleted(entry, commands, before, pending);
    this.#follow(commands);
    this.#before = null;
  }

  /** After it, where the entry is one's own. */
  note({ version }, commands) {
    this.#before = null;
    this.#follow(commands);
    for (const command of commands.filter(isWrite)) {
      this.#own = this.#own.filter((write) => !isSame(write, command));
      this.#own.push({ ...cellOf(command), text: command.content, version });
    }
    if (commands.length) this.changes += 1;
    this.#own = this.#own.slice(-OWN_WRITES_MAX);
  }

  #follow(commands) {
    if (!commands.some(isShift)) return;
    this.#own = this.#own.map((write) => ({ ...write, ...movedBy(write, commands) })).filter(({ gone }) => !gone);
    this.changes += 1;
  }

  /** Another wrote where one had written, or deleted it, and did not know. */
  #noteOverwritten(entry, commands, typedAt) {
    const lastWrite = writesOf(commands);
    const shifts = commands.filter(isShift);
    for (const write of this.#own.filter(({ version, text }) => version > typedAt && text)) {
      const theirs = lastWrite(write);
      const position = movedBy(write, shifts);
      if (!theirs && !position.gone) continue;
      this.#own = this.#own.filter((other) => other !== write);
      if (theirs?.text === write.text && !position.gone) continue;
      const item = withLine(write, position, entry.version);
      if (position.gone) this.#addAt(entry, "deleted", item, { text: write.text });
      else this.#addAt(entry, "overwritten", item, { text: write.text, other: theirs.text });
    }
  }

  /** What waits is written where another had written since. */
  #noteOverwrote(entry, commands, before) {
    const ours = writesOf(before);
    const rest = commands.filter(isShift);
    for (const command of commands.filter(isWrite)) {
      const own = command.content && ours(command);
      if (!own || own.text === command.content) continue;
      this.#addAt(entry, "overwrote", movedBy(cellOf(command), rest), { text: command.content, other: own.text });
    }
  }

  /** What waits has lost its cells. */
  #noteDeleted(entry, commands, before, pending) {
    const left = new Set(pending.map((command) => command[ORIGIN]));
    const lost = before.filter((command) => !left.has(command[ORIGIN]));
    const others = lost.filter(({ type }) => !LOOKS.test(type));
    if (others.length) this.add({ kind: "deleted", text: "", ...changeOf(others) });
    const texts = new Set(lastTexts(before));
    for (const command of lost.filter((each) => texts.has(each))) {
      const position = movedBy(cellOf(command), commands);
      const item = withLine(command, position, entry.version);
      this.#addAt({ ...entry, shifts: [] }, "deleted", item, { text: command.content });
    }
  }

  #addAt({ author, created_ms, shifts, nameOf }, kind, { line, ...position }, texts) {
    const cell = { ...movedBy(position, shifts), gone: position.gone ?? null, line };
    this.add({ kind, author, created_ms, ...cell, sheet: nameOf(cell.sheetId), ...texts });
  }

  #announce(type) {
    this.changes += 1;
    this.dispatchEvent(new Event(type));
  }
}

/** The items for what a message wrote that no model takes. */
export function itemsOf(kind, commands, nameOf, more = {}) {
  return lastTexts(commands).map((command) => {
    const cell = { ...cellOf(command), sheet: nameOf(command.sheetId) };
    return { kind, author: "", text: command.content, ...cell, ...more };
  });
}

/**
 * The commands that write texts, without those that a later one writes over. A row that is inserted between two writes
 * moves the first one's cell, so equal positions may be different cells.
 */
function lastTexts(commands) {
  let writes = [];
  for (const command of commands) {
    if (isShift(command)) writes = writes.map((write) => ({ ...write, position: moved(write.position, command) }));
    if (!isText(command)) continue;
    writes = writes.filter(({ position }) => !isSame(position, command));
    writes.push({ command, position: { gone: null, ...cellOf(command) } });
  }
  return writes.map((write) => write.command);
}

/** For an item that is no text: what the commands are called, and the commands. */
export function changeOf(commands) {
  const names = new Set(commands.map(({ type }) => type.toLowerCase().replaceAll("_", " ")));
  return { change: [...names].join(", "), commands };
}

/** What an entry does to cells: its commands, or those of an undo or redo. An undo writes nothing new. */
export function effectOf({ type }, commands, effectOfTarget) {
  if (type === "REVISION_UNDONE") return effectOfTarget().filter(isShift);
  return type === "REVISION_REDONE" ? effectOfTarget() : commands;
}

const isWrite = ({ type, content }) => type === "UPDATE_CELL" && content !== undefined;
const isText = (command) => isWrite(command) && command.content !== "";
const isShift = ({ type }) => SHIFTS.has(type);
const cellOf = ({ sheetId, col, row }) => ({ sheetId, col, row });
const keyOf = ({ sheetId, col, row }) => `${sheetId} ${col} ${row}`;

/** What went with the same line as another is put back with it. */
function withLine(source, position, moment) {
  if (!position.gone || source.gone === position.gone) return position;
  const at = { ROW: source.row, COL: source.col, SHEET: source.sheetId }[position.gone];
  const name = { row: source.row, col: source.col };
  return { ...position, line: `${moment} ${source.sheetId} ${position.gone} ${at}`, was: name };
}

/** Gives what commands leave in a cell; null where they do not write it. */
function writesOf(commands) {
  if (commands.some(isShift)) return (position) => walk(commands, position);
  const all = commands.map((command) => /** @type {const} */ ([keyOf(command), textIn(command, command)]));
  const texts = new Map(all.filter(([, text]) => text));
  const zones = commands.filter(({ target }) => Array.isArray(target));
  return (position) => texts.get(keyOf(position)) ?? zones.map((each) => textIn(each, position)).find(Boolean) ?? null;
}

function walk(commands, start) {
  let text = null;
  let position = start;
  for (const command of commands) {
    text = textIn(command, position) ?? text;
    position = moved(position, command);
  }
  return text;
}

function textIn(command, position) {
  const { type, content, sheetId, target } = command;
  if (sheetId !== position.sheetId || position.gone) return null;
  const isThere = ({ top, left, bottom, right }) =>
    top <= position.row && position.row <= bottom && left <= position.col && position.col <= right;
  if (type === "DELETE_CONTENT" || type === "CLEAR_CELLS") return target?.some(isThere) ? { text: "" } : null;
  if (!isSame(command, position)) return null;
  if (type === "CLEAR_CELL") return { text: "" };
  return isWrite(command) ? { text: content } : null;
}
