// Restorer: restores a conflict's lost text or change. For a deleted cell, the restorer adds a row, column or sheet.

import { moveInHistory } from "./engine.js";

export class Restorer {
  #conflicts;
  #model;

  /** `model()` returns the editable model. */
  constructor(conflicts, model) {
    this.#conflicts = conflicts;
    this.#model = model;
  }

  /** Restore an item. Returns false if the model refuses the change, or if the cell no longer exists. */
  restore(item) {
    const isUndo = item.kind === "undo";
    const isRestored = isUndo ? moveInHistory(this.#model(), item.target, item.isRedo) : this.#write(item);
    if (isRestored) this.#conflicts.remove(({ id }) => id === item.id);
    return isRestored;
  }

  #write(item) {
    if (item.gone && !this.#reopen(item)) return false;
    const { sheetId, col, row, text } = item;
    const model = this.#model();
    if (!model.getters.tryGetSheet(sheetId)) return false;
    if (row >= model.getters.getNumberRows(sheetId)) return false;
    if (model.getters.getActiveSheetId() !== sheetId) {
      const sheetIdFrom = model.getters.getActiveSheetId();
      model.dispatch("ACTIVATE_SHEET", { sheetIdFrom, sheetIdTo: sheetId });
    }
    model.selection.selectCell(col, row);
    return model.dispatch("UPDATE_CELL", { sheetId, col, row, content: text }).isSuccessful;
  }

  /** Add a row, column or sheet in place of a deleted one. The conflicts of all cells deleted with it move there. */
  #reopen(item) {
    const { gone, line } = item;
    const all = this.#conflicts.items.filter((other) => other === item || (line && other.gone && other.line === line));
    const at = gone === "SHEET" ? this.#addSheet(item, all) : this.#addLine(item);
    if (at) for (const each of all) Object.assign(each, at, { gone: null });
    return at !== null;
  }

  #addLine({ sheetId, gone, col, row }) {
    const { getters, dispatch } = this.#model();
    if (!getters.tryGetSheet(sheetId)) return null;
    const isRow = gone === "ROW";
    const count = isRow ? getters.getNumberRows(sheetId) : getters.getNumberCols(sheetId);
    const at = Math.min(isRow ? row : col, count);
    const side = at < count ? { base: at, position: "before" } : { base: count - 1, position: "after" };
    const sheetName = getters.getSheetName(sheetId);
    const command = { sheetId, sheetName, dimension: gone, quantity: 1, ...side };
    if (!dispatch("ADD_COLUMNS_ROWS", command).isSuccessful) return null;
    return isRow ? { row: at } : { col: at };
  }

  #addSheet({ sheet }, all) {
    const { getters, dispatch } = this.#model();
    const sheetId = crypto.randomUUID();
    const names = new Set(getters.getSheetIds().map((id) => getters.getSheetName(id).toLowerCase()));
    const base = sheet || "Restored";
    let name = base;
    for (let number = 2; names.has(name.toLowerCase()); number++) name = `${base} ${number}`;
    const cols = Math.max(26, ...all.map(({ col }) => col + 1));
    const rows = Math.max(100, ...all.map(({ row }) => row + 1));
    const position = getters.getSheetIds().length;
    return dispatch("CREATE_SHEET", { sheetId, name, position, cols, rows }).isSuccessful ? { sheetId } : null;
  }
}
