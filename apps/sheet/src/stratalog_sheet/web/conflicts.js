// Conflicts: changes that were lost, in most cases because two authors did not see each other's changes. The author of
// a lost change may be this page or another client. Refused changes, and undos and redos that did not reach the server,
// are conflicts, too. The panel lists a conflict until the user restores or dismisses it. The list survives a reload,
// because the offline cache stores the list with the pending changes.

import { isSame, moved, movedBy } from "./positions.js";

const OWN_WRITES_MAX = 200;
const SHIFTS = new Set(["ADD_COLUMNS_ROWS", "REMOVE_COLUMNS_ROWS", "DELETE_SHEET"]);
/** If another user deletes the cells of a command of these types, only a text that the command wrote is a conflict. */
const LOOKS = /^UPDATE_CELL$|^CLEAR|^DELETE|^REMOVE|FORMATTING|BORDER|RESIZE|FREEZE|HIDE|FOLD|GROUP/;
/** Identifies a command across rebases, which copy the command. The page neither sends nor stores a symbol property. */
const ORIGIN = Symbol("origin");

/**
 * An item has its `kind`, the `text` that can be restored, the `other` text that replaced it, the cell (`sheetId`,
 * `col`, `row`, `sheet`, and `gone` as in positions.js), the author and the time. Kinds:
 * - overwrote: a change of this page replaced another author's text;
 * - overwritten: another author's change replaced this page's text;
 * - deleted: the text or change is lost with its row, column or sheet;
 * - refused: the server refused the change, or the engine failed to open the sheet with the change;
 * - undo: an undo or redo of `target` that did not reach the server; it has no cell.
 */
export class Conflicts extends EventTarget {
  items = [];
  /** The number of changes to `stored` so far. If this number has changed, the offline cache stores the items again. */
  changes = 0;
  /** Committed writes of this page, at their positions in the newest version. Others may not have seen these writes. */
  #own = [];
  #before = null;

  /** The items and own writes to store; null if there are none. */
  get stored() {
    return this.items.length || this.#own.length ? { items: this.items, own: this.#own } : null;
  }

  load(stored) {
    this.items = stored?.items ?? [];
    this.#own = stored?.own ?? [];
  }

  add(item) {
    this.addAll([item]);
  }

  /**
   * Add items. An item replaces the earlier item of its kind and cell, unless the cell was deleted. One pasted table
   * may have 100,000 items.
   */
  addAll(items) {
    if (!items.length) return;
    const added = new Map();
    for (const item of items) {
      const complete = { id: crypto.randomUUID(), gone: null, ...this.#cause, ...item };
      added.set(identityOf(complete), complete);
    }
    this.items = [...this.items.filter((known) => !added.has(identityOf(known))), ...added.values()];
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

  /** Move the items with a command that the model has executed. */
  move(command) {
    if (!SHIFTS.has(command.type)) return;
    for (const item of this.items) if (item.sheetId) Object.assign(item, withLine(item, moved(item, command), "shown"));
    this.changes += 1;
  }

  /** Call this before the engine gets an entry, with the `commands` of its effect and the `pending` commands. */
  begin(entry, commands, pending) {
    for (const command of pending) command[ORIGIN] ??= crypto.randomUUID();
    this.#before = { entry, commands, pending };
  }

  /**
   * Call this after the engine got an entry of another client. `pending` has the commands that are pending now.
   * `nameOf` returns a sheet's name before the entry; `isSheetGone` returns whether the model no longer has the sheet.
   */
  settle(pending, nameOf, isSheetGone = () => false) {
    const { entry: given, commands, pending: before } = this.#before;
    const { version, author, created_ms, message } = given;
    const entry = { version, author, created_ms, nameOf, shifts: pending.filter(isShift) };
    this.#noteOverwritten(entry, commands, message.typedAt ?? version);
    if (message.type === "REMOTE_REVISION") this.#noteOverwrote(entry, commands, before);
    this.#noteDeleted(entry, commands, before, pending, isSheetGone);
    this.#follow(commands);
    this.#before = null;
  }

  /** Call this instead of `settle` if the entry has a change of this page. */
  note({ version }, commands) {
    this.#before = null;
    this.#follow(commands);
    const own = new Map(this.#own.map((write) => [keyOf(write), write]));
    for (const command of commands.filter(isWrite)) {
      own.delete(keyOf(command)); // the newest write comes last
      own.set(keyOf(command), { ...cellOf(command), text: command.content, version });
    }
    if (commands.length) this.changes += 1;
    this.#own = [...own.values()].slice(-OWN_WRITES_MAX);
  }

  #follow(commands) {
    if (!commands.some(isShift)) return;
    this.#own = this.#own.map((write) => ({ ...write, ...movedBy(write, commands) })).filter(({ gone }) => !gone);
    this.changes += 1;
  }

  /** Record own writes that another author overwrote or deleted before seeing these writes. */
  #noteOverwritten(entry, commands, typedAt) {
    const lastWrite = writesOf(commands);
    const shifts = commands.filter(isShift);
    const items = [];
    for (const write of this.#own.filter(({ version, text }) => version > typedAt && text)) {
      const theirs = lastWrite(write);
      const position = movedBy(write, shifts);
      if (!theirs && !position.gone) continue;
      this.#own = this.#own.filter((other) => other !== write);
      if (theirs?.text === write.text && !position.gone) continue;
      const item = withLine(write, position, entry.version);
      if (position.gone) items.push(itemAt(entry, "deleted", item, { text: write.text }));
      else items.push(itemAt(entry, "overwritten", item, { text: write.text, other: theirs.text }));
    }
    this.addAll(items);
  }

  /** Record the entry's texts that pending changes overwrite. */
  #noteOverwrote(entry, commands, before) {
    const ours = writesOf(before);
    const rest = commands.filter(isShift);
    const items = [];
    for (const command of commands.filter(isWrite)) {
      const own = command.content && ours(command);
      if (!own || own.text === command.content) continue;
      const texts = { text: command.content, other: own.text };
      items.push(itemAt(entry, "overwrote", movedBy(cellOf(command), rest), texts));
    }
    this.addAll(items);
  }

  /**
   * Record pending changes whose cells the entry deleted. An entry may also make the engine refuse a pending new
   * sheet, for example by taking the sheet's name. The commands of that sheet stay pending, but have no effect.
   */
  #noteDeleted(entry, commands, before, pending, isSheetGone) {
    const left = new Set(pending.map((command) => command[ORIGIN]));
    const isLost = ({ sheetId, sheetIdTo = sheetId, [ORIGIN]: origin }) => !left.has(origin) || isSheetGone(sheetIdTo);
    const lost = before.filter(isLost);
    const others = lost.filter(({ type }) => !LOOKS.test(type));
    if (others.length) this.add({ kind: "deleted", text: "", ...changeOf(others) });
    const texts = new Set(lost.length ? lastTexts(before) : []);
    const shifts = commands.filter(isShift);
    const items = lost.filter((each) => texts.has(each)).map((command) => {
      const there = movedBy(cellOf(command), shifts);
      const position = isSheetGone(command.sheetId) ? { ...there, gone: "SHEET" } : there;
      const item = withLine(command, position, entry.version);
      return itemAt({ ...entry, shifts: [] }, "deleted", item, { text: command.content });
    });
    this.addAll(items);
  }

  #announce(type) {
    this.changes += 1;
    this.dispatchEvent(new Event(type));
  }
}

function itemAt({ author, created_ms, shifts, nameOf }, kind, { line, ...position }, texts) {
  const cell = { ...movedBy(position, shifts), gone: position.gone ?? null, line };
  return { kind, author, created_ms, ...cell, sheet: nameOf(cell.sheetId), ...texts };
}

/** Return an item for each text that commands write, without texts that a later command overwrites. */
export function itemsOf(kind, commands, nameOf, more = {}) {
  return lastTexts(commands).map((command) => {
    const cell = { ...cellOf(command), sheet: nameOf(command.sheetId) };
    return { kind, author: "", text: command.content, ...cell, ...more };
  });
}

/**
 * Return the commands that write texts, without the commands whose text a later command overwrites. A row that is
 * inserted between two writes moves the cell of the first write, so equal positions may be different cells.
 */
function lastTexts(commands) {
  const gone = [];
  let writes = new Map();
  for (const command of commands) {
    if (isShift(command)) writes = shifted(writes, command, gone);
    if (!isText(command)) continue;
    writes.delete(keyOf(command)); // the newest write comes last
    writes.set(keyOf(command), { command, cell: cellOf(command) });
  }
  return [...gone, ...writes.values()].map((write) => write.command);
}

/** Return the writes at their positions after a command. Add the writes whose cells the command deletes to `gone`. */
function shifted(writes, command, gone) {
  const left = new Map();
  for (const write of writes.values()) {
    const cell = moved(write.cell, command);
    if (cell.gone) gone.push(write);
    else left.set(keyOf(cell), { ...write, cell });
  }
  return left;
}

/** Return two fields of an item that has no text: `change` with the names of the commands, and `commands`. */
export function changeOf(commands) {
  const names = new Set(commands.map(({ type }) => type.toLowerCase().replaceAll("_", " ")));
  return { change: [...names].join(", "), commands };
}

/**
 * Return an entry's commands. For a redo, return the commands of its target's effect. For an undo, return only the
 * commands of the effect that move cells, because an undo writes no new text.
 */
export function effectOf({ type }, commands, effectOfTarget) {
  if (type === "REVISION_UNDONE") return effectOfTarget().filter(isShift);
  return type === "REVISION_REDONE" ? effectOfTarget() : commands;
}

const isWrite = ({ type, content }) => type === "UPDATE_CELL" && content !== undefined;
const isText = (command) => isWrite(command) && command.content !== "";
const isShift = ({ type }) => SHIFTS.has(type);
const isClearing = ({ type }) => type === "DELETE_CONTENT" || type === "CLEAR_CELLS";
const cellOf = ({ sheetId, col, row }) => ({ sheetId, col, row });
const keyOf = ({ sheetId, col, row }) => `${sheetId} ${col} ${row}`;
/** Of the items with the same kind and existing cell, the list has only the latest. It has all other items. */
const identityOf = (item) =>
  item.col === undefined || item.kind === "deleted" || item.gone ? item.id : `${item.kind} ${keyOf(item)}`;

/**
 * Add the deleted line (a row, a column or a sheet) to a position. `Restorer` then restores all items of one line
 * together.
 */
export function withLine(source, position, moment) {
  if (!position.gone || source.gone === position.gone) return position;
  const at = { ROW: source.row, COL: source.col, SHEET: source.sheetId }[position.gone];
  const name = { row: source.row, col: source.col };
  return { ...position, line: `${moment} ${source.sheetId} ${position.gone} ${at}`, was: name };
}

/**
 * Return a function from a cell's position to `{ text }`, the text that `commands` leave in the cell. The function
 * returns null if `commands` do not write the cell.
 */
function writesOf(commands) {
  // A step has the texts of single cells up to a command that moves cells or clears a zone, and then this command.
  const steps = [];
  let texts = new Map();
  for (const command of commands) {
    if (isShift(command) || isClearing(command)) {
      steps.push({ texts, command });
      texts = new Map();
    } else {
      const text = textIn(command, command);
      if (text) texts.set(keyOf(command), text);
    }
  }
  return ({ sheetId, col, row }) => {
    let text = null;
    let position = { sheetId, col, row, gone: null };
    for (const step of steps) {
      if (position.gone) return text;
      text = textIn(step.command, position) ?? step.texts.get(keyOf(position)) ?? text;
      position = moved(position, step.command);
    }
    return position.gone ? text : (texts.get(keyOf(position)) ?? text);
  };
}

function textIn(command, position) {
  const { type, content, sheetId, target } = command;
  if (sheetId !== position.sheetId || position.gone) return null;
  const isThere = ({ top, left, bottom, right }) =>
    top <= position.row && position.row <= bottom && left <= position.col && position.col <= right;
  if (isClearing(command)) return target?.some(isThere) ? { text: "" } : null;
  if (!isSame(command, position)) return null;
  if (type === "CLEAR_CELL") return { text: "" };
  return isWrite(command) ? { text: content } : null;
}
