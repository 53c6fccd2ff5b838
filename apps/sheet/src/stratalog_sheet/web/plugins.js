// Plugins: what this page adds to the engine. Each asks the page that its model was made for.

const { registries, UIPlugin } = globalThis.o_spreadsheet;
const COLORS = { changed: "#d9772b", fresh: "#3f8f5f" };

/** Draws the page's marks below the engine's own borders. */
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

/** Refuses what needs the server's word while the server is not reached: an undo would block the sheet until then. */
class OnlinePlugin extends UIPlugin {
  constructor(config) {
    super(config);
    this.page = config.custom.page;
  }

  allowDispatch({ type }) {
    const isHistory = type === "REQUEST_UNDO" || type === "REQUEST_REDO";
    return isHistory && this.page.refusesUndo?.() ? "WaitingSessionConfirmation" : "Success";
  }
}

registries.featurePluginRegistry.add("stratalog_marks", MarksPlugin);
registries.featurePluginRegistry.add("stratalog_online", OnlinePlugin);
