// Bridge: the engine's models by key, for a caller that exchanges JSON. V8 loads this file after the engine.
"use strict";
globalThis.bridge = (() => {
  const { Model, UIPlugin, constants, helpers, links, registries } = globalThis.o_spreadsheet;
  const { forFile, foreignFormulas, hasRestored, isOfFile, ruleForFile, unreadRules } = globalThis.fileFormulas;
  const models = new Map();
  const REFUSED = Symbol.for("stratalog.refused");
  const UNWRITABLE = /[^\t\n -\uFFFD]/g; // the characters that XML does not allow, and the carriage return

  // Changes the data that all other plugins export. Without these changes, the engine writes texts without the escapes
  // of ECMA-376 (part 1, 22.9.2.19), and drops characters that XML does not allow. It also fails on a validation whose
  // date is a formula or is relative, such as the last week.
  class Export extends UIPlugin {
    static getters = ["getFormulasWrittenAsValues"];

    exportForExcel({ sheets }) {
      this.writtenAsValues = [];
      for (const sheet of sheets) {
        const { id, cells, cellValues } = sheet;
        this.noteFormulas(sheet);
        for (const [name, value] of Object.entries(cellValues)) {
          if (typeof value !== "string") continue;
          if (cells[name] === value && this.isTextOfFormula(id, name)) cells[name] = `'${value}`;
          cellValues[name] = escaped(value);
        }
        for (const [name, content] of Object.entries(cells)) {
          if (content && !content.startsWith("=") && !links.isMarkdownLink(content)) cells[name] = escaped(content);
        }
        const rules = sheet.dataValidationRules.filter(({ criterion }) => isOfFile(criterion)).map(withNumbers);
        sheet.dataValidationRules = rules.map((rule) => ({ ...rule, criterion: ruleForFile(rule.criterion) }));
        const formats = sheet.conditionalFormats.filter(({ rule }) => isOfFile(rule));
        sheet.conditionalFormats = formats.map((cf) => ({ ...cf, rule: ruleForFile(cf.rule) }));
      }
    }

    noteFormulas({ id, cells }) {
      for (const cell of this.getters.getCells(id)) {
        if (!cell.isFormula || cell.compiledFormula.isBadExpression) continue;
        const position = this.getters.getCellPosition(cell.id);
        const name = helpers.toXC(position.col, position.row);
        if (!cells[name]?.startsWith("=")) this.writtenAsValues.push(position);
        else cells[name] = forFile(cells[name]);
      }
    }

    // Whether a formula computed a cell's text. The engine would export it as if typed: 007 as the number 7.
    isTextOfFormula(sheetId, name) {
      const position = { sheetId, ...helpers.toCartesian(name) };
      const { type, format } = this.getters.getEvaluatedCell(position);
      return type === "text" && !format?.includes("@") && Boolean(this.getters.getCorrespondingFormulaCell(position));
    }

    // The positions of the formulas that the last export contains only as values.
    getFormulasWrittenAsValues() {
      return this.writtenAsValues;
    }
  }
  registries.featurePluginRegistry.add("stratalog_export", Export);
  const OF_FILES = ["FILTER", "GROWTH", "OFFSET", "TREND", "YEARFRAC"]; // the engine would export only their values
  for (const name of OF_FILES) registries.functionRegistry.get(name).isExported = true;

  const RULES_OF_NUMBERS = {
    dateIs: "isEqual",
    dateIsBefore: "isLessThan",
    dateIsOnOrBefore: "isLessOrEqualTo",
    dateIsAfter: "isGreaterThan",
    dateIsOnOrAfter: "isGreaterOrEqualTo",
    dateIsBetween: "isBetween",
    dateIsNotBetween: "isNotBetween",
  };
  const DAYS = {
    today: "=TODAY()",
    yesterday: "=TODAY()-1",
    tomorrow: "=TODAY()+1",
    lastWeek: "=TODAY()-7",
    lastMonth: "=EDATE(TODAY(),-1)",
    lastYear: "=EDATE(TODAY(),-12)",
  };

  // Turns a rule of dates into a rule of numbers. The mark "date" in its ranges lets `xlsx_repair.py` undo this.
  function withNumbers(rule) {
    const { type, values, dateValue } = rule.criterion;
    if (!(type in RULES_OF_NUMBERS)) return rule;
    const isPeriod = type === "dateIs" && ["lastWeek", "lastMonth", "lastYear"].includes(dateValue);
    const number = (value) => (value.startsWith("=") ? value : `${helpers.toNumber(value, constants.DEFAULT_LOCALE)}`);
    const days = dateValue in DAYS ? [DAYS[dateValue], ...(isPeriod ? [DAYS.today] : [])] : values.map(number);
    const criterion = { type: isPeriod ? "isBetween" : RULES_OF_NUMBERS[type], values: days };
    return { ...rule, ranges: [...rule.ranges, "date"], criterion };
  }

  const codeOf = (mark) => `_x${mark.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase()}_`;
  const escaped = (text) => text.replace(/_(?=x[0-9A-Fa-f]{4}_)/g, "_x005F_").replace(UNWRITABLE, codeOf);

  // A transport that sends nothing. The caller commits the messages in `sent`, and then gives them to `apply`.
  class Line {
    sent = [];
    onNewMessage(client, receive) {
      this.receive = receive;
    }
    async sendMessage(message) {
      this.sent.push(message);
    }
    leave() {}
  }

  function openModel(key) {
    const entry = models.get(key);
    if (!entry) throw new Error(`no model is open under ${key}`);
    return entry;
  }

  function make(data, messages, client) {
    const line = new Line();
    const model = new Model(data, { transportService: line, client: { id: client, name: client } }, messages);
    line.sent = [];
    return { line, model };
  }

  function apply({ line, model }, messages) {
    for (const message of messages) {
      line.receive(message);
      if (model.session.serverRevisionId !== message.nextRevisionId) {
        throw new Error(`the model did not follow revision ${message.nextRevisionId}`);
      }
    }
  }

  function sheetOf(model, name) {
    if (!name) return model.getters.getSheetIds()[0];
    const id = model.getters.getSheetIds().find((id) => id === name);
    return id ?? model.getters.getSheetIdByName(name);
  }

  const exported = ({ model }) => model._exportData(false);

  // The values of formulas that the engine cannot read.
  const UNREAD = ["#BAD_EXPR", "#NAME?"];

  // Collects the count of cells, and the first `limit` cells.
  function counted(getters, limit) {
    const answer = { count: 0, cells: [] };
    const add = ({ sheetId, col, row }) => {
      if (answer.count++ < limit) answer.cells.push({ sheet: getters.getSheetName(sheetId), col, row });
    };
    return { answer, add };
  }

  // Return the formulas that have operands, or that spill, after the last column or row that a file can contain. An
  // operand that ends there is not one of them if its sheet ends earlier: `withFileRanges` shortens the operand.
  function wideFormulas(getters, columns, rows) {
    const exceeds = ({ sheetId, zone: { left, top, right, bottom } }) =>
      (right >= columns && (left >= columns || getters.getNumberCols(sheetId) > columns)) ||
      (bottom >= rows && (top >= rows || getters.getNumberRows(sheetId) > rows));
    const wide = new Set();
    const cells = getters.getSheetIds().flatMap((sheet) => getters.getCells(sheet));
    for (const { id, compiledFormula } of cells.filter(({ isFormula }) => isFormula)) {
      const position = getters.getCellPosition(id);
      const names = compiledFormula.getNamedRangesInFormula(getters).map(({ range }) => range);
      const ranges = [...names, ...compiledFormula.rangeDependencies];
      const spill = getters.getSpreadZone(position);
      if (spill) ranges.push({ sheetId: position.sheetId, zone: spill });
      if (ranges.some((range) => getters.tryGetSheet(range.sheetId) && exceeds(range))) wide.add(compiledFormula);
    }
    return wide;
  }

  // Return the formulas with a character that a file cannot contain. The engine would drop the character.
  function unwritableFormulas(getters) {
    const cells = getters.getSheetIds().flatMap((sheet) => getters.getCells(sheet));
    const formulas = cells.flatMap((cell) => (cell.isFormula ? [cell.compiledFormula] : []));
    const isUnwritable = ({ value }) => value.search(UNWRITABLE) >= 0;
    return new Set(formulas.filter(({ literalValues }) => literalValues.strings.some(isUnwritable)));
  }

  // Until a call of the returned function, let the model write ranges whose ends a file can contain. The engine would
  // end the open range A:A at the sheet's present size, and other ranges where inserted rows moved their ends. Also let
  // styles lack conditional formats: an export with links or tables would compute them, which may take minutes.
  function withFileRanges(model, columns, rows) {
    const changed = [model.getters, model.coreGetters];
    const conditional = model.getters.getCellConditionalFormatStyle;
    model.getters.getCellConditionalFormatStyle = () => undefined;
    const originals = changed.map((getters) => {
      const original = getters.getRangeString;
      getters.getRangeString = (range, ...rest) =>
        rest[1]?.useBoundedReference && !range.invalidXc
          ? written(original, range, ...rest, getters === model.getters)
          : original(range, ...rest);
      return original;
    });
    function written(original, range, sheet, options, ofFormulas) {
      const { zone, unboundedZone: open } = range;
      const [isColumns, isRows] = [open.bottom, open.right].map((end) => end === undefined);
      // A formula may have the range A:A or 1:1. The ranges of formats and validations need both ends.
      const isEntire = (isColumns && open.top === 0) || (isRows && open.left === 0);
      if (ofFormulas && isEntire && !open.hasHeader && !options.useFixedReference) return original(range, sheet);
      const bottom = isColumns || (zone.bottom >= rows && zone.top < rows) ? rows - 1 : zone.bottom;
      const right = isRows || (zone.right >= columns && zone.left < columns) ? columns - 1 : zone.right;
      return original({ ...range, zone: { ...zone, bottom, right } }, sheet, options);
    }
    return () => {
      changed.forEach((getters, position) => (getters.getRangeString = originals[position]));
      model.getters.getCellConditionalFormatStyle = conditional;
    };
  }

  // Return whether a value equals a file's. Numbers may differ slightly: their order of computation may differ.
  function isSame(here, there) {
    if (typeof here !== "number" || typeof there !== "number") return (here ?? "") === there;
    return Math.abs(here - there) <= 1e-9 * Math.max(1, Math.abs(here), Math.abs(there));
  }

  function cell({ model }, sheet, col, row) {
    const position = { sheetId: sheet, col, row };
    const evaluated = model.getters.getEvaluatedCell(position);
    return {
      content: model.getters.getCell(position) ? model.getters.getCellText(position, { showFormula: true }) : "",
      value: evaluated.value,
      formatted: evaluated.formattedValue,
      message: evaluated.message,
    };
  }

  const calls = {
    open({ key, data, messages, client }) {
      models.set(key, make(data, messages, client));
      return { revision: models.get(key).model.session.serverRevisionId };
    },
    close: ({ key }) => models.delete(key),
    apply({ key, messages }) {
      apply(openModel(key), messages);
      return null;
    },
    export: ({ key }) => exported(openModel(key)),
    sheets({ key }) {
      const { getters } = openModel(key).model;
      return getters.getSheetIds().map((id) => ({
        id,
        name: getters.getSheetName(id),
        rows: getters.getNumberRows(id),
        cols: getters.getNumberCols(id),
      }));
    },
    cell({ key, sheet, col, row }) {
      const entry = openModel(key);
      const id = sheetOf(entry.model, sheet);
      return id ? { sheet: id, ...cell(entry, id, col, row) } : null;
    },
    // Return a command's messages, which stay pending until `apply`, or the reasons for which the model refuses it.
    dispatch({ key, sheet, command }) {
      const { line, model } = openModel(key);
      const { type, ...payload } = command;
      payload.sheetId = sheetOf(model, sheet);
      if (!payload.sheetId) return { refused: ["InvalidSheetId"], messages: [] };
      if (type === "ADD_COLUMNS_ROWS") payload.sheetName = model.getters.getSheetName(payload.sheetId);
      line.sent = [];
      const result = model.dispatch(type, payload);
      return { refused: result.isSuccessful ? [] : result.reasons, messages: line.sent };
    },
    // Return the effective commands of messages: the commands of each revision that is not undone, at the positions
    // where the commands take effect after all undos. The result depends on positions only, so `data` may be empty.
    executed({ data, messages, client }) {
      const { tree } = make(data, messages, client).model.session.revisions;
      const executed = [];
      for (const { operation, isCancelled } of tree.execution(tree.branches[0])) {
        const { id, commands } = operation.data;
        if (commands.length && !isCancelled) executed.push({ id, commands });
      }
      return executed;
    },
    // Return the commands that the model has refused, because the engine cannot execute them: refusal.js.
    refused({ key }) {
      const { tree } = openModel(key).model.session.revisions;
      const refused = [];
      for (const { operation, isCancelled } of tree.execution(tree.branches[0])) {
        for (const command of isCancelled ? [] : operation.data.commands) {
          if (command[REFUSED]) refused.push({ id: operation.id, reason: command[REFUSED], command });
        }
      }
      return refused;
    },
    importXlsx({ key, files, client, names = {} }) {
      let entry = make(files, [], client), data = exported(entry);
      // The engine reads no named ranges from a workbook. So add them to its data, and make a new model of the data.
      if (hasRestored(data) || Object.keys(names).length) {
        entry = make({ ...data, namedRanges: { ...data.namedRanges, ...names } }, [], client);
        data = exported(entry);
      }
      models.set(key, entry);
      return data;
    },
    // Return the values of a sheet's cells as text: numbers with all their digits, dates and times as shown.
    values({ key, sheet }) {
      const { model, model: { getters } } = openModel(key);
      const id = sheetOf(model, sheet);
      const cells = [];
      for (let row = 0; row < getters.getNumberRows(id); row++) {
        for (let col = 0; col < getters.getNumberCols(id); col++) {
          const { value, type, format, formattedValue } = getters.getEvaluatedCell({ sheetId: id, col, row });
          if (value === null || value === "") continue;
          const isDate = type === "number" && format && globalThis.o_spreadsheet.helpers.isDateTimeFormat(format);
          const plain = typeof value === "boolean" ? String(value).toUpperCase() : String(value);
          cells.push({ row, col, text: isDate ? formattedValue : plain });
        }
      }
      return cells;
    },
    // Return the number formats that the engine cannot read.
    unreadFormats({ formats }) {
      return formats.filter((format) => {
        try {
          helpers.formatValue(0, { format, locale: constants.DEFAULT_LOCALE });
          return false;
        } catch {
          return true;
        }
      });
    },
    // Return the count and the first cells of formulas that the engine cannot read, or that use unknown names.
    brokenFormulas({ key, limit }) {
      const { getters } = openModel(key).model;
      const broken = counted(getters, limit);
      for (const sheetId of getters.getSheetIds()) {
        for (const { id } of getters.getCells(sheetId).filter(({ isFormula }) => isFormula)) {
          const position = getters.getCellPosition(id);
          if (UNREAD.includes(getters.getEvaluatedCell(position).value)) broken.add(position);
        }
        for (const cell of unreadRules(getters, sheetId)) broken.add(cell);
      }
      return broken.answer;
    },
    // Return the count of the cells whose values differ from the values in the file, and the first of these cells.
    // `values` has the file's values for each sheet, as [col, row, value].
    otherValues({ key, limit, values }) {
      const { getters } = openModel(key).model;
      const others = counted(getters, limit);
      for (const [number, sheetId] of getters.getSheetIds().entries()) {
        for (const [col, row, value] of values[number] ?? []) {
          const position = { sheetId, col, row };
          const here = getters.getEvaluatedCell(position).value;
          if (!UNREAD.includes(here) && !isSame(here, value)) others.add(position);
        }
      }
      return others.answer;
    },
    // Return the parts of a workbook with at most so many `columns` and `rows`. List the formulas written as values.
    async exportXlsx({ key, limit, columns, rows }) {
      const { model, model: { getters } } = openModel(key);
      const [wide, unwritable] = [wideFormulas(getters, columns, rows), unwritableFormulas(getters)];
      // The engine writes such a formula as values, in each cell of its spill.
      const asValues = [...wide, ...unwritable, ...foreignFormulas(getters)];
      for (const formula of asValues) formula.areAllFunctionsExportableToExcel = () => false;
      const restore = withFileRanges(model, columns, rows);
      const { files } = await model.exportXLSX().finally(() => {
        restore();
        for (const formula of asValues) delete formula.areAllFunctionsExportableToExcel;
      });
      const [beyond, unknown, characters] = [counted(getters, limit), counted(getters, limit), counted(getters, limit)];
      for (const position of getters.getFormulasWrittenAsValues()) {
        const { compiledFormula } = getters.getCell(position);
        const reason = unwritable.has(compiledFormula) ? characters : unknown;
        (wide.has(compiledFormula) ? beyond : reason).add(position);
      }
      const names = getters.getNamedRanges().map(({ name, range }) => [name, getters.getRangeString(range)]);
      const sheets = calls.sheets({ key }).map(({ id, name, rows }, position) => ({
        name,
        heights: [rows - 2, rows - 1].map((row) => getters.getUserRowSize(id, row) ?? null), // in pixels
        figures: getters.getFigures(id).length,
        formats: getters.getConditionalFormats(id).filter(({ rule }) => !isOfFile(rule)).length,
        validations: getters.getDataValidationRules(id).length,
        pivots: position ? 0 : getters.getPivotIds().length,
      }));
      const values = { beyond: beyond.answer, unknown: unknown.answer, characters: characters.answer };
      return { files, names: Object.fromEntries(names), sheets, values };
    },
  };

  // Return JSON without half characters. A formula such as LEFT can cut a character into halves, which no UTF-8 has.
  function json(answer) {
    const text = JSON.stringify(answer);
    if (!/\\ud[89a-f]/.test(text)) return text;
    return text.replace(/\\(?:ud[89a-f]..|.)/g, (escape) => (escape.startsWith("\\ud") ? "\uFFFD" : escape));
  }

  return {
    call(name, text) {
      const answer = calls[name](JSON.parse(text));
      if (!(answer instanceof Promise)) return json(answer);
      return answer.then(json, (error) => {
        throw error instanceof Error ? error.toString() : JSON.stringify(error);
      });
    },
    version: globalThis.o_spreadsheet.__info__.version,
  };
})();
