// Tracker: follows the cell that is typed into, and those of conflicts, as rows, columns and sheets come and leave.

import { editOf, moveEdit, moveSelection, traced } from "./engine.js";
import { moved } from "./positions.js";

export class Tracker {
  #conflicts;
  #composer;

  /** `composer()` gives the composer of the model that is edited, or null. */
  constructor(conflicts, composer) {
    this.#conflicts = conflicts;
    this.#composer = composer;
  }

  /** The model has done this, in the coordinates that it shows. */
  move(command) {
    this.#conflicts.move(command);
    const composer = this.#composer();
    const edit = editOf(composer);
    if (!edit) return;
    const { sheetId, col, row } = edit;
    const position = { sheetId, col, row, ...moved({ sheetId, col, row }, command) };
    if (position.gone) this.lose(composer, position);
    else moveEdit(composer, position);
  }

  /** Give the model an undo or redo, which moves cells without saying how. */
  across(model, deliver) {
    const composer = this.#composer();
    const edit = editOf(composer);
    const items = this.#conflicts.items.filter(({ sheetId, gone }) => sheetId && !gone);
    const cells = [...items, ...(edit ? [edit] : [])].map(({ sheetId, col, row }) => ({ sheetId, col, row }));
    if (!cells.length) return deliver();
    const positions = traced(model, cells, deliver);
    items.forEach((item, index) => Object.assign(item, positions[index] ?? { gone: "ROW" }));
    this.#conflicts.changes += 1;
    // The sheet may have gone, and what is typed with it.
    if (!edit || !editOf(composer)) return;
    const position = positions.at(-1);
    if (!position) return this.lose(composer, { gone: "ROW" });
    moveEdit(composer, position);
    moveSelection(model, position);
  }

  /** What is being typed has lost its cell. */
  lose(composer, position = { gone: "SHEET" }) {
    const { sheetId, col, row, text, isChanged } = editOf(composer);
    const cell = { sheetId, col, row, ...position, was: { col, row }, line: `typed ${sheetId} ${col} ${row}` };
    const sheet = composer.getters.tryGetSheet(sheetId)?.name ?? "";
    if (isChanged && text) this.#conflicts.add({ kind: "deleted", text, sheet, ...pick(cell) });
    if (composer.getters.tryGetSheet(sheetId)) composer.cancelEdition();
  }
}

const pick = ({ sheetId, col, row, gone, was, line }) => ({ sheetId, col, row, gone, was, line });
