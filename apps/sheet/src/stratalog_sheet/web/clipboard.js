// Clipboard: exchanges tables with other programs, and forgets cut cells that change before the user pastes them. In a
// table's text, a tab ends a cell and a line break ends a row. Spreadsheet programs put a cell that contains a tab or a
// line break into quotation marks, and also end the last row with a line break: docs/concepts/sheet-engine-reports.md.

const { registries } = globalThis.o_spreadsheet;
const { cellHandlers } = registries.clipboardHandlersRegistries;
const plugins = registries.statefulUIPluginRegistry;
const DELIMITER = /[\t\n]/g;

/** Reads a table's text. */
class Cells extends cellHandlers.get("cell") {
  convertTextToClipboardData(text) {
    const rows = rowsOf(text.replaceAll("\r", ""));
    const columns = rows.reduce((width, row) => Math.max(width, row.length), 0);
    return { cells: rows.map((row) => Array.from({ length: columns }, (_, column) => this.cellOf(row[column] ?? ""))) };
  }

  cellOf(text) {
    // The engine reads numbers and formulas in the user's locale. A text of several lines or cells is not a number.
    if (/[\t\n]/.test(text)) return { content: text, evaluatedCell: { formattedValue: text } };
    return super.convertTextToClipboardData(text).cells[0][0];
  }
}

class Clipboard extends plugins.get("clipboard") {
  isPasting = false;

  /**
   * Forget the cut cells if they change. The engine pastes the contents that the cells had when the user cut them, and
   * clears the positions of that time. So a paste would delete a later text of another user, or clear other cells.
   */
  handle(command) {
    if (this.isPasting) return super.handle(command);
    const cut = this._isCutOperation ? this.copiedData : undefined;
    this.isPasting = command.type.startsWith("PASTE");
    try {
      super.handle(command);
      if (!cut || this.isPasting) return;
    } finally {
      this.isPasting = false;
    }
    if (this.copiedData === cut && changes(command, cut)) this.copiedData = undefined;
    // A command such as DELETE_CELL dispatches others inside `handle`, and the call for one of these may have reported.
    if (this.copiedData || !this._isCutOperation) return;
    Object.assign(this, { status: "invisible", _isCutOperation: false });
    this.ui.notifyUI({ type: "warning", text: "The cells that you cut have changed. Cut them again.", sticky: false });
  }

  getPlainTextContent() {
    const cells = this.copiedData?.cells;
    if (!cells || isSingle(cells)) return super.getPlainTextContent();
    const textOf = ({ content, compiledFormula, evaluatedCell }) =>
      compiledFormula && this.getters.shouldShowFormulas() ? content : evaluatedCell.formattedValue;
    return cells.map((row) => row.map((cell) => quoted(textOf(cell))).join("\t")).join("\n");
  }

  /** In HTML, a line break is an element. The engine writes the text of a single cell without escaping it. */
  async getHTMLContent() {
    const html = await super.getHTMLContent();
    const cells = this.copiedData?.cells;
    if (!cells || !isSingle(cells)) return html.replaceAll("\n", "<br>");
    const text = this.getters.getCellText(cells[0][0].position);
    return `${html.slice(0, -`${text}</div>`.length)}${escaped(text)}</div>`;
  }
}

cellHandlers.replace("cell", Cells);
plugins.replace("clipboard", Clipboard);

const isSingle = (cells) => cells.length === 1 && cells[0].length === 1;
const quoted = (text) => (/[\t\n]|^"/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>" };
const escaped = (text) => text.replace(/[&<>\n]/g, (character) => ENTITIES[character]);

/** Return the rows of a table's text, each as a list of cells. */
function rowsOf(table) {
  const text = table.replace(/\n$/, "");
  const rows = [[]];
  for (let at = 0; ; at += 1) {
    const end = endOfQuoted(text, at);
    const start = at;
    at = end ?? nextDelimiter(text, at);
    rows.at(-1).push(end === null ? text.slice(start, at) : text.slice(start + 1, at - 1).replaceAll('""', '"'));
    if (at >= text.length) return rows;
    if (text[at] === "\n") rows.push([]);
  }
}

/**
 * Return the position after a cell in quotation marks that begins at `start`; null if no such cell begins there. Other
 * programs quote only a text that contains a tab, a line break or a quotation mark. Around any other text, the marks
 * are a part of the text.
 */
function endOfQuoted(text, start) {
  if (text[start] !== '"') return null;
  let close = text.indexOf('"', start + 1);
  while (close >= 0 && text[close + 1] === '"') close = text.indexOf('"', close + 2);
  const isClosed = close >= 0 && ["\t", "\n", undefined].includes(text[close + 1]);
  return isClosed && /[\t\n"]/.test(text.slice(start + 1, close)) ? close + 1 : null;
}

function nextDelimiter(text, start) {
  DELIMITER.lastIndex = start;
  return DELIMITER.exec(text)?.index ?? text.length;
}

/**
 * Whether a command may change the contents of copied cells. Commands that add or delete rows, columns or sheets are
 * not checked here: after these commands, the engine itself forgets the cut cells.
 */
function changes(command, copied) {
  const { type, sheetId, col, row, content, target, commands } = command;
  // The commands of an undo or redo have the positions of an earlier version.
  if (type === "UNDO" || type === "REDO") return commands.some((each) => each.sheetId === copied.sheetId);
  if (sheetId !== copied.sheetId || !copied.zones) return false;
  const touches = ({ left, right, top, bottom }) =>
    copied.zones.some((zone) => left <= zone.right && right >= zone.left && top <= zone.bottom && bottom >= zone.top);
  if (type === "CLEAR_CELL" || (type === "UPDATE_CELL" && content !== undefined))
    return touches({ left: col, right: col, top: row, bottom: row });
  return ["CLEAR_CELLS", "DELETE_CONTENT", "ADD_MERGE"].includes(type) && target.some(touches);
}
