// Conflict watch: checks all messages between the log and a model, and records their conflicts.

import { changeOf, effectOf, itemsOf, withLine } from "./conflicts.js";
import { sentence } from "./dom.js";
import { commandsOf, commandsOfRevision, effectOfHistory, moveQueued, nextInHistory } from "./engine.js";
import { pendingOf, prepared, redo, runQueued } from "./engine.js";

export class ConflictWatch {
  #conflicts;
  #model;
  #across;

  /**
   * `model()` returns the model. `across(model, deliver)` calls `deliver`, which gives the model an undo or redo. Then
   * `across` updates the positions of the listed conflicts and of the open edit.
   */
  constructor(conflicts, model, across = (_, deliver) => deliver()) {
    this.#conflicts = conflicts;
    this.#model = model;
    this.#across = across;
  }

  /** Give the model an entry, and record its conflicts with this page's pending changes and recent writes. */
  give(entry, emit) {
    const model = this.#model();
    const { message } = entry;
    const target = message.undoneRevisionId ?? message.redoneRevisionId;
    const isOwn = this.#pendingMessage(message.nextRevisionId) !== undefined;
    const commands = effectOf(message, commandsOf(model, message), () => effectOfHistory(model, message));
    const pending = () => pendingOf(model).flatMap((waiting) => waiting.commands);
    const nameOf = this.#namesOfSheets();
    const isSheetGone = (id) => nameOf(id) !== "" && !model.getters.tryGetSheet(id);
    this.#conflicts.begin(entry, commands, pending());
    const deliver = () => this.#noteDeleted(moveQueued(model, () => emit(prepared(model, message))));
    if (target) this.#across(model, deliver);
    else deliver();
    if (isOwn) this.#conflicts.note(entry, commands);
    else this.#conflicts.settle(pending(), nameOf, isSheetGone);
    if (target) this.#conflicts.remove((item) => item.target === target);
    runQueued(model);
  }

  /**
   * Move the pending changes to the positions that their cells have in another version. `commands` move the cells of
   * the model's version to those positions. After this call, use the model only to read its pending changes.
   */
  carry(commands, version, emit) {
    const { serverRevisionId } = this.#model().session;
    const revision = { serverRevisionId, nextRevisionId: crypto.randomUUID(), clientId: "another" };
    const message = { type: "REMOTE_REVISION", version: 1, ...revision, commands };
    if (commands.length) this.give({ version, author: "", created_ms: Date.now(), message }, emit);
  }

  /**
   * Apply a pending message again, in a new model. The model refuses a command whose cell is gone, for example after a
   * restore. Record the text of each refused command as `deleted`.
   */
  redo(message) {
    this.#noteDeleted(redo(this.#model(), message));
  }

  #noteDeleted(commands) {
    const model = this.#model();
    const moment = model.session.serverRevisionId;
    const items = itemsOf("deleted", commands, this.#namesOfSheets());
    this.#conflicts.addAll(items.map((item) => withLine(item, { ...item, gone: missingLine(model, item) }, moment)));
  }

  /** Mark the new pending changes as typed at `version`, the model's current version. */
  date(version) {
    for (const message of this.#model().session.pendingMessages) message.typedAt ??= version;
  }

  /**
   * Add to a message the version at which the user typed the message, if `version` is newer. From the added version,
   * other pages compute which entries the author had not seen.
   */
  dated({ ...message }, version) {
    const { typedAt = version } = this.#pendingMessage(message.nextRevisionId) ?? {};
    delete message.typedAt;
    return typedAt < version ? { ...message, typedAt } : message;
  }

  noteRefused({ nextRevisionId, type }, error) {
    if (type === "REMOTE_REVISION") this.#list(commandsOfRevision(this.#model(), nextRevisionId), sentence(error));
  }

  /** Record pending changes that the model does not have, because the engine failed to open the sheet with them. */
  noteUnopened(messages, error) {
    const reason = `The sheet could not be opened with this change: ${sentence(error)}`;
    for (const { commands } of messages) this.#list(commands, reason);
  }

  #list(commands, reason) {
    const items = itemsOf("refused", commands, this.#namesOfSheets(), { reason });
    const other = { kind: "refused", author: "", text: "", reason, ...changeOf(commands) };
    this.#conflicts.addAll(items.length ? items : [other]);
  }

  /**
   * Record undos and redos that the page cancelled before the server acknowledged them, for example while offline. Then
   * give the model the commands that waited for them, and record the undos and redos among these commands.
   */
  noteDropped(messages) {
    for (const { undoneRevisionId, redoneRevisionId } of messages) {
      this.#noteUndo(undoneRevisionId ?? redoneRevisionId, redoneRevisionId !== undefined);
    }
    runQueued(this.#model(), (isRedo) => this.missUndo(isRedo));
  }

  /**
   * Record an undo or redo that the user requested while the page was not connected. Its target is the newest change in
   * the undo or redo history, without the targets of undos and redos that are already recorded.
   */
  missUndo(isRedo) {
    const waiting = this.#conflicts.items.filter(({ kind }) => kind === "undo").map(({ target }) => target);
    const target = nextInHistory(this.#model(), isRedo, waiting);
    if (target) this.#noteUndo(target, isRedo);
  }

  #noteUndo(target, isRedo) {
    const [write] = itemsOf("undo", commandsOfRevision(this.#model(), target), this.#namesOfSheets());
    const { sheet, col, row, text = "a change" } = write ?? {};
    this.#conflicts.add({ kind: "undo", author: "", target, isRedo, text, was: write && { sheet, col, row } });
  }

  #pendingMessage(id) {
    return this.#model().session.pendingMessages.find(({ nextRevisionId }) => nextRevisionId === id);
  }

  #namesOfSheets() {
    const { getters } = this.#model();
    const names = new Map(getters.getSheetIds().map((id) => [id, getters.getSheetName(id)]));
    return (id) => names.get(id) ?? "";
  }
}

/** Return which line of a cell the model lacks, as `gone` in positions.js. */
function missingLine({ getters }, { sheetId, col }) {
  if (!getters.tryGetSheet(sheetId)) return "SHEET";
  return col < getters.getNumberCols(sheetId) ? "ROW" : "COL";
}
