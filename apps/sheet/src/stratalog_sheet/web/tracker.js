// Tracker: follows the cell that is being edited and the cells of conflicts while rows, columns and sheets are inserted
// and deleted.

import { withLine } from "./conflicts.js";
import { editOf, moveEdit, moveSelection, traced } from "./engine.js";
import { moved } from "./positions.js";

export class Tracker {
  #conflicts;
  #composer;

  /** `composer()` returns the composer of the workbook's model, or null. */
  constructor(conflicts, composer) {
    this.#conflicts = conflicts;
    this.#composer = composer;
  }

  /** Follow a command that the model has executed. The command has coordinates of the optimistic state. */
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

  /**
   * Call `deliver`, which gives the model the message of an undo or redo, and update the followed cells. This message
   * does not state how it moves cells, so `traced` finds the new positions of the cells.
   */
  across(model, deliver) {
    const composer = this.#composer();
    const edit = editOf(composer);
    const items = this.#conflicts.items.filter(({ sheetId, gone }) => sheetId && !gone);
    const cells = [...items, ...(edit ? [edit] : [])].map(({ sheetId, col, row }) => ({ sheetId, col, row }));
    if (!cells.length) return deliver();
    const positions = traced(model, cells, deliver);
    const moment = crypto.randomUUID();
    items.forEach((item, index) => Object.assign(item, withLine(item, positions[index], moment)));
    this.#conflicts.changes += 1;
    // The undo or redo may have deleted the sheet. Then the engine has called `lose` and ended the edit.
    if (!edit || !editOf(composer)) return;
    const { gone, ...position } = positions.at(-1);
    if (gone) return this.lose(composer, { gone });
    moveEdit(composer, position);
    moveSelection(model, position);
  }

  /**
   * Handle an edit whose cell was deleted. Record the typed text as a conflict, unless the text is empty or unchanged,
   * and cancel the edit. If the whole sheet was deleted, the engine ends the edit.
   */
  lose(composer, position = { gone: "SHEET" }) {
    const { sheetId, col, row, text, isChanged } = editOf(composer);
    const cell = { sheetId, col, row, ...position, was: { col, row }, line: `typed ${sheetId} ${col} ${row}` };
    const sheet = composer.getters.tryGetSheet(sheetId)?.name ?? "";
    if (isChanged && text) this.#conflicts.add({ kind: "deleted", text, sheet, ...pick(cell) });
    if (composer.getters.tryGetSheet(sheetId)) composer.cancelEdition();
  }
}

const pick = ({ sheetId, col, row, gone, was, line }) => ({ sheetId, col, row, gone, was, line });
