// Plugins: this page's additions to the engine. Each plugin calls functions of `page`, an argument of `makeModel`.

import "./clipboard.js";

const { registries, UIPlugin } = globalThis.o_spreadsheet;
const COLORS = { changed: "#d9772b", fresh: "#3f8f5f" };

/** Draws the page's marks above the cells, and below the engine's outlines of highlights and selections. */
class MarksPlugin extends UIPlugin {
  static layers = ["Highlights"];

  constructor(config) {
    super(config);
    this.page = config.custom.page;
  }

  drawLayer({ ctx, viewports, sheetId, thinLineWidth }) {
    for (const { kind, ...zone } of this.page.marks?.in(sheetId) ?? []) {
      const { x, y, width, height } = viewports.getVisibleRect(sheetId, this.within(sheetId, zone));
      if (width <= 0 || height <= 0) continue;
      ctx.fillStyle = `${COLORS[kind]}2e`;
      ctx.fillRect(x, y, width, height);
      ctx.strokeStyle = COLORS[kind];
      ctx.lineWidth = 1.5 * thinLineWidth;
      ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
  }

  within(sheetId, { top, left, bottom, right }) {
    const { getNumberRows, getNumberCols } = this.getters;
    const lastRow = getNumberRows(sheetId) - 1;
    const lastColumn = getNumberCols(sheetId) - 1;
    return { top, left, bottom: Math.min(bottom, lastRow), right: Math.min(right, lastColumn) };
  }
}

/**
 * Passes each command to the page once, in the coordinates of the optimistic state. From these commands, the page
 * computes how cells move. A store of the engine is unsuitable, because a store gets another client's commands twice,
 * and also gets replayed commands.
 */
class PositionsPlugin extends UIPlugin {
  constructor(config) {
    super(config);
    this.page = config.custom.page;
  }

  handle(command) {
    this.page.onMoved?.(command);
  }
}

/** Refuses an undo or redo while there is no connection. The undo would block the sheet until the next connection. */
class OnlinePlugin extends UIPlugin {
  constructor(config) {
    super(config);
    this.page = config.custom.page;
  }

  allowDispatch({ type }) {
    const isHistory = type === "REQUEST_UNDO" || type === "REQUEST_REDO";
    if (!isHistory || !this.page.refusesUndo?.()) return "Success";
    this.page.onUndoRefused?.(type === "REQUEST_REDO");
    return "WaitingSessionConfirmation";
  }
}

/**
 * Asks the user whether a first row of texts is a heading. The engine recognises a heading only if a cell of the second
 * row has another type than the cell above it. Otherwise the engine sorts the heading with the other rows.
 */
class SortPlugin extends registries.featurePluginRegistry.get("sort") {
  constructor(config) {
    super(config);
    this.page = config.custom.page;
  }

  hasHeader(sheetId, columns) {
    if (super.hasHeader(sheetId, columns)) return true;
    const [{ row }] = columns[0];
    if (!this.page.asksHeading || columns[0].length === 1 || this.hasTextAbove(columns, row)) return false;
    const texts = columns.map(([cell]) => this.getters.getEvaluatedCell(cell));
    const isHeading = texts.some(({ type }) => type === "text") && texts.every(({ type }) => /text|empty/.test(type));
    return isHeading && this.page.asksHeading(row + 1, texts.map(({ value }) => value).filter(Boolean));
  }

  hasTextAbove(columns, row) {
    const isFilled = ([cell]) => this.getters.getEvaluatedCell({ ...cell, row: row - 1 }).type !== "empty";
    return row > 0 && columns.some(isFilled);
  }
}

registries.featurePluginRegistry.replace("sort", SortPlugin);
registries.featurePluginRegistry.add("stratalog_marks", MarksPlugin);
registries.featurePluginRegistry.add("stratalog_online", OnlinePlugin);
registries.statefulUIPluginRegistry.add("stratalog_positions", PositionsPlugin);
