// Trial: tries the content of a command in a small workbook. The engine checks only a part of such content when it
// executes the command, and throws later: when it draws a cell, copies a sheet or loads the state. The result depends
// on the content only, so all models refuse the same commands. The server's engines load this file as a script.
{
  const { CorePlugin, Model, registries } = globalThis.o_spreadsheet;
  const REFUSED = Symbol.for("stratalog.refused");
  const [SHEET, ROWS, COLUMNS, REMOVED, TRIALS_MAX] = ["trial", 7, 7, 2, 1000];
  const [ZONE, RANGES] = [zone(COLUMNS - 1, ROWS - 1), ["A1:A7", "B1:B7", "C2"]];
  const FIGURE = { figureId: "figure", col: 0, row: 0, offset: { x: 0, y: 0 }, size: { width: 400, height: 300 } };
  const VALUES = ["1", "-2.5", "text", "1/31/2024", "TRUE", "=1/0"];
  const point = (value) => ({ type: "number", operator: "gt", value });
  const POINTS = { upperInflectionPoint: point("1000"), lowerInflectionPoint: point("0") };
  const REFERENCE = /^('.*'!|[^!'"]+!)?\$?[A-Z]{1,3}\$?[1-9]\d*(:\$?[A-Z]{1,3}\$?[1-9]\d*)?$/;
  const DATA = { sheetId: SHEET, zone: ZONE };
  const PIVOT = { name: "", type: "SPREADSHEET", dataSet: DATA, columns: [], rows: [], measures: [] };

  const ranges = [{ _sheetId: SHEET, _zone: ZONE }];
  const target = [ZONE];
  const format = (cf) => ({ type: "ADD_CONDITIONAL_FORMAT", ranges, cf });
  const chart = ({ definition, chartId, offset = FIGURE.offset }) => [
    { type: "CREATE_CHART", ...FIGURE, offset, chartId: chartId && "chart", definition },
  ];
  const carousel = ({ definition }) => [{ type: "CREATE_CAROUSEL", ...FIGURE, definition }];
  const pivot = ({ pivot }) => [{ type: "ADD_PIVOT", pivotId: "pivot", pivot }, written(0, ROWS, "=PIVOT(1)")];
  const table = ({ config, tableType }) => [{ type: "CREATE_TABLE", ranges, tableType: tableType ?? "static", config }];

  /** The commands that put the content of a command into the workbook. */
  const TRIALS = {
    // The engine looks up an icon only if a value gets that icon. The second format gives each icon to some value.
    ADD_CONDITIONAL_FORMAT: ({ cf }) => (cf?.rule?.icons ? [format(cf), format(withEachIcon(cf))] : [format(cf)]),
    ADD_DATA_VALIDATION_RULE: ({ rule }) => [{ type: "ADD_DATA_VALIDATION_RULE", ranges, rule }],
    CREATE_CHART: chart,
    UPDATE_CHART: chart,
    CREATE_CAROUSEL: carousel,
    UPDATE_CAROUSEL: carousel,
    CREATE_IMAGE: ({ definition, offset }) => [{ type: "CREATE_IMAGE", ...FIGURE, offset, definition }],
    CREATE_FIGURE: ({ tag, offset }) => [{ type: "CREATE_FIGURE", ...FIGURE, offset, tag }],
    CREATE_TABLE: table,
    UPDATE_TABLE: table,
    ADD_PIVOT: pivot,
    UPDATE_PIVOT: pivot,
    INSERT_PIVOT: ({ table }) => [
      { type: "ADD_PIVOT", pivotId: "pivot", pivot: PIVOT },
      { type: "INSERT_PIVOT", pivotId: "pivot", col: 0, row: ROWS, table },
    ],
    SET_BORDER: ({ border }) => [{ type: "SET_BORDER", col: 0, row: 0, border }],
    SET_ZONE_BORDERS: ({ border }) => [{ type: "SET_ZONE_BORDERS", target, border }],
    SET_BORDERS_ON_TARGET: ({ border }) => [{ type: "SET_BORDERS_ON_TARGET", target, border }],
    UPDATE_LOCALE: ({ locale }) => [{ type: "UPDATE_LOCALE", locale }],
  };

  const withEachIcon = ({ rule: { icons } }) => ({ id: "icons", rule: { type: "IconSetRule", icons, ...POINTS } });

  let isTrying = false;
  const failures = new Map();

  class Trial extends CorePlugin {
    allowDispatch(command) {
      if (isTrying || !(command.type in TRIALS)) return "Success";
      return failureOf(command) || "Success";
    }
  }

  registries.corePluginRegistry.add("stratalog_trial", Trial);

  /** Return the reason why the engine cannot use the content of a command; empty if it can. */
  function failureOf(command) {
    const commands = framed(TRIALS[command.type](command));
    const key = JSON.stringify(commands);
    if (!failures.has(key)) {
      if (failures.size >= TRIALS_MAX) failures.delete(failures.keys().next().value);
      failures.set(key, attempt(commands));
    }
    return failures.get(key);
  }

  function attempt(commands) {
    isTrying = true;
    try {
      use(commands);
      return "";
    } catch (error) {
      return `Unusable: ${error?.message ?? error}`;
    } finally {
      isTrying = false;
    }
  }

  /** Execute the commands. Load the state in another model, change and copy the sheet there, and show the workbook. */
  function use(commands) {
    const model = made(dataFor(commands), []);
    for (const { type, ...payload } of commands) model.dispatch(type, { sheetId: SHEET, ...payload });
    const data = JSON.parse(JSON.stringify(model._exportData(false)));
    const lines = { sheetId: SHEET, sheetName: SHEET };
    const later = [
      { type: "ADD_COLUMNS_ROWS", ...lines, dimension: "ROW", base: 1, quantity: 1, position: "before" },
      { type: "REMOVE_COLUMNS_ROWS", ...lines, dimension: "COL", elements: [REMOVED] },
      { type: "DUPLICATE_SHEET", sheetId: SHEET, sheetIdTo: "copy", sheetNameTo: "copy" },
    ];
    const ids = { serverRevisionId: data.revisionId, nextRevisionId: "later", clientId: "other" };
    const copy = made(data, [{ type: "REMOTE_REVISION", version: 1, ...ids, commands: later }]);
    const refused = copy.session.revisions.get("later").commands.find((command) => command[REFUSED]);
    if (refused) throw new Error(refused[REFUSED]);
    show(copy);
  }

  function made(data, messages) {
    return new Model(data, { custom: { page: {} }, client: { id: SHEET, name: SHEET } }, messages);
  }

  function show({ getters }) {
    for (const sheetId of getters.getSheetIds()) {
      for (let row = 0; row < getters.getNumberRows(sheetId); row++) {
        for (let col = 0; col < getters.getNumberCols(sheetId); col++) {
          const position = { sheetId, col, row };
          getters.getEvaluatedCell(position);
          for (const shown of SHOWN) getters[shown](position);
        }
      }
      for (const id of getters.getChartIds(sheetId)) [getters.getChartRuntime(id), getters.getChartDefinition(id)];
    }
    for (const id of getters.getPivotIds()) {
      const pivot = getters.getPivot(id);
      // A formula of the pivot table hides an error of the pivot table's load, and the engine then does not load the
      // pivot table again. So load it here.
      pivot.init({ reload: true });
      // An older browser lacks this function, and the engine then shows no pivot table.
      if (Object.groupBy && pivot.isValid()) pivot.getExpandedTableStructure();
    }
    getters.getCustomColors();
  }

  const SHOWN = [
    "getCellComputedStyle",
    "getCellComputedBorder",
    "getCellIcons",
    "getConditionalDataBar",
    "getInvalidDataValidationMessage",
    "getDataValidationCellStyle",
    "getTable",
  ];

  /**
   * Return the data of a workbook in which the first row has the names of fields that a pivot table uses. The column
   * that the trial removes has no such name, because the engine does not evaluate a pivot table that lacks a field.
   */
  function dataFor(commands) {
    const names = [...new Set(namesIn(commands))];
    names.splice(REMOVED, 0, "");
    const cells = {};
    for (let col = 0; col < COLUMNS; col++) {
      const letter = String.fromCharCode(65 + col);
      cells[`${letter}1`] = names[col] || letter;
      for (let row = 1; row < ROWS; row++) cells[`${letter}${row + 1}`] = VALUES[(row + col) % VALUES.length];
    }
    return { sheets: [{ id: SHEET, name: SHEET, colNumber: COLUMNS + 2, rowNumber: ROWS + 4, cells }] };
  }

  function* namesIn(value) {
    if (typeof value !== "object" || value === null) return;
    for (const [key, each] of Object.entries(value)) {
      if (key === "fieldName" && typeof each === "string") yield each;
      else yield* namesIn(each);
    }
  }

  /** Replace each sheet, zone and reference of the commands by a sheet, zone or reference of the small workbook. */
  function framed(value, key = "") {
    if (typeof value === "string") return framedText(value, key);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => framed(each));
    if (["left", "top", "right", "bottom"].every((side) => Number.isInteger(value[side]))) return ZONE;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, framed(each, name)]));
  }

  function framedText(text, key) {
    if (key === "sheetId" || key === "_sheetId") return SHEET;
    if (key === "styleId" && text) return "TableStyleMedium5";
    return REFERENCE.test(text) ? RANGES[text.includes(":") ? +(key !== "labelRange") : 2] : text;
  }

  function zone(right, bottom) {
    return { left: 0, top: 0, right, bottom };
  }

  function written(col, row, content) {
    return { type: "UPDATE_CELL", col, row, content };
  }
}
