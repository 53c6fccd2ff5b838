// Conflict watch: looks at all that goes between the log and a model, and notes what meets a conflict there.

import { changeOf, effectOf, itemsOf } from "./conflicts.js";
import { sentence } from "./dom.js";
import { commandsOf, commandsOfRevision, effectOfHistory, nextInHistory, pendingOf, prepared, redo } from "./engine.js";

export class ConflictWatch {
  #conflicts;
  #model;
  #across;

  /** `model()` gives the model; `across(model, deliver)` follows cells through an undo or redo. */
  constructor(conflicts, model, across = (_, deliver) => deliver()) {
    this.#conflicts = conflicts;
    this.#model = model;
    this.#across = across;
  }

  /** Hand the model an entry, and note what it and what waits did not know of each other. */
  give(entry, emit) {
    const model = this.#model();
    const { message } = entry;
    const target = message.undoneRevisionId ?? message.redoneRevisionId;
    const isOwn = this.#pendingMessage(message.nextRevisionId) !== undefined;
    const commands = effectOf(message, commandsOf(model, message), () => effectOfHistory(model, message));
    const pending = () => pendingOf(model).flatMap((waiting) => waiting.commands);
    const nameOf = this.#namesOfSheets();
    this.#conflicts.begin(entry, commands, pending());
    const deliver = () => emit(prepared(model, message));
    if (target) this.#across(model, deliver);
    else deliver();
    if (isOwn) this.#conflicts.note(entry, commands);
    else this.#conflicts.settle(pending(), nameOf);
    if (target) this.#conflicts.remove((item) => item.target === target);
  }

  /**
   * Move what waits to where another version has its cells. `commands` lead there from the version of the model, which
   * is not to be used but for what waits then.
   */
  carry(commands, version, emit) {
    const { serverRevisionId } = this.#model().session;
    const revision = { serverRevisionId, nextRevisionId: crypto.randomUUID(), clientId: "another" };
    const message = { type: "REMOTE_REVISION", version: 1, ...revision, commands };
    if (commands.length) this.give({ version, author: "", created_ms: Date.now(), message }, emit);
  }

  /** Do a message again. What the model does not take has lost its place, which was there before a restore, say. */
  redo(message) {
    const model = this.#model();
    const lost = redo(model, message);
    for (const item of itemsOf("deleted", lost, this.#namesOfSheets())) {
      this.#conflicts.add({ ...item, gone: model.getters.tryGetSheet(item.sheetId) ? "ROW" : "SHEET" });
    }
  }

  /** Date the changes that wait: each was typed at the version that the model had then. */
  date(version) {
    for (const message of this.#model().session.pendingMessages) message.typedAt ??= version;
  }

  /** A message with the version that it was typed at, where that is not the newest: others see what it did not know. */
  dated({ ...message }, version) {
    const { typedAt = version } = this.#pendingMessage(message.nextRevisionId) ?? {};
    delete message.typedAt;
    return typedAt < version ? { ...message, typedAt } : message;
  }

  noteRefused({ nextRevisionId, type }, error) {
    if (type !== "REMOTE_REVISION") return;
    const commands = commandsOfRevision(this.#model(), nextRevisionId);
    const reason = sentence(error);
    const items = itemsOf("refused", commands, this.#namesOfSheets(), { reason });
    const other = { kind: "refused", author: "", text: "", reason, ...changeOf(commands) };
    for (const item of items.length ? items : [other]) this.#conflicts.add(item);
  }

  /** Undos and redos that were taken back, since the server is away. */
  noteDropped(messages) {
    for (const { undoneRevisionId, redoneRevisionId } of messages) {
      this.#noteUndo(undoneRevisionId ?? redoneRevisionId, redoneRevisionId !== undefined);
    }
  }

  /** An undo that was asked for while the server is away: of the newest change that no other such undo is of. */
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
