// Formulas and rules of workbooks. V8 loads this file after the engine.
"use strict";
globalThis.fileFormulas = (() => {
  const { CompiledFormula, astToFormula, convertAstNodes, iterateAstNodes, parse } = globalThis.o_spreadsheet;
  const SIGNED = /\^|\)\s*%|[-*/][\s(]*[-+]/; // every formula that `forFile` changes has a match
  const PRODUCTS = ["*", "/", "^"];
  const ZERO = { type: "NUMBER", value: 0 };
  const ONE = { type: "NUMBER", value: 1 };
  const MARK = "\uFDD0"; // as `xlsx_rules.py` writes it
  const EMPTY = { type: "EMPTY", value: "" };
  // The position of the last argument, which the engine replaces by 0. Files need it, or replace it by another value.
  const WITH_LAST = { CUMIPMT: 5, CUMPRINC: 5, EXPAND: 3, IFNA: 1, INDEX: 1, WRAPCOLS: 2, WRAPROWS: 2 };
  const CALLS = new RegExp(`\\b(?:SORT|${Object.keys(WITH_LAST).join("|")})\\s*\\(`, "i");
  const isUnreadable = (formula) => CompiledFormula.IsBadExpression(formula);
  const isBinary = ({ type }) => type === "BIN_OPERATION";
  const isSign = ({ type, postfix }) => type === "UNARY_OPERATION" && !postfix;
  const isProduct = (ast) => isBinary(ast) && PRODUCTS.includes(ast.value);
  const isOfProduct = (ast) => isSign(ast) && (isProduct(ast.operand) || isOfProduct(ast.operand));
  const beginsWithPower = (ast) => isProduct(ast) && (ast.value === "^" || beginsWithPower(ast.left));
  const fromZero = ({ value, operand: right }) => ({ type: "BIN_OPERATION", value, left: ZERO, right });
  const closed = (ast) => {
    if (isProduct(ast)) return { ...ast, left: isSign(ast.left) ? fromZero(ast.left) : closed(ast.left) };
    return isOfProduct(ast) ? fromZero(ast) : ast;
  };

  // The order of a SORT: in the engine whether it ascends, in a file 1 or -1.
  function order(ast) {
    const descending = { type: "UNARY_OPERATION", value: "-", operand: ONE };
    if (["NUMBER", "BOOLEAN"].includes(ast.type)) return ast.value ? ONE : descending;
    return { type: "FUNCALL", value: "IF", args: [ast, ONE, descending] };
  }

  // In files a sign binds before all operators. In the engine it binds after *, / and ^, and the engine writes no
  // parentheses around it. So write -A1^2 as 0-A1^2, and 2/-(A1*3) as 2/(0-A1*3).
  const CONVERSIONS = {
    UNARY_OPERATION(ast) {
      while (ast.value === "+" && (isBinary(ast.operand) || isSign(ast.operand))) ast = ast.operand;
      if (ast.postfix) return { ...ast, operand: closed(ast.operand) };
      return ast.value === "-" && isSign(ast) && beginsWithPower(ast.operand) ? fromZero(ast) : ast;
    },
    BIN_OPERATION(ast) {
      const left = ast.value === "^" && ast.left.value !== "^" ? closed(ast.left) : ast.left;
      return { ...ast, left, right: ["/", "^"].includes(ast.value) ? closed(ast.right) : ast.right };
    },
    FUNCALL(ast) {
      const [name, args] = [ast.value.toUpperCase(), [...ast.args]];
      if (name === "SORT" && args.length > 2) args[2] = order(args[2]);
      if (name in WITH_LAST && args.length <= WITH_LAST[name]) {
        while (args.length < WITH_LAST[name]) args.push(EMPTY);
        args.push(ZERO);
      }
      return { ...ast, args };
    },
  };

  const isConstant = ({ type, value, operand }) =>
    ["NUMBER", "STRING", "BOOLEAN"].includes(type) ||
    (type === "UNARY_OPERATION" && value === "-" && operand.type === "NUMBER");

  function forFile(formula) {
    if (!SIGNED.test(formula) && !CALLS.test(formula)) return formula;
    const convert = (ast, [type, conversion]) => convertAstNodes(ast, type, conversion);
    return `=${astToFormula(Object.entries(CONVERSIONS).reduce(convert, parse(formula)))}`;
  }

  const THRESHOLDS = ["minimum", "midpoint", "maximum", "lowerInflectionPoint", "upperInflectionPoint"];
  const thresholdsOf = (rule) => THRESHOLDS.filter((name) => rule[name]?.type === "formula");
  // The formula of a threshold. In a stored message or state, it may lack the "=".
  const formulaOf = ({ value = "" }) => (value.startsWith("=") ? value : `=${value}`);
  const formulasOf = (rule) => {
    const values = [...(rule.values ?? []), ...thresholdsOf(rule).map((name) => formulaOf(rule[name]))];
    return values.filter((value) => typeof value === "string" && value.startsWith("="));
  };

  const isUnread = (rule) => formulasOf(rule).some(isUnreadable);

  // A rule may have formulas that the engine cannot read.
  function valueForFile(value) {
    try {
      return typeof value === "string" && value.startsWith("=") ? forFile(value) : value;
    } catch {
      return value;
    }
  }

  // The engine would leave out a rule with a formula as a threshold. `xlsx_repair.py` restores the type.
  const asNumber = (point) => ({ ...point, type: "number", value: valueForFile(formulaOf(point)).slice(1) });

  const FOREIGN_FROM = { COUNTBLANK: 2, FILTER: 3, SORT: 4 };
  const hasOtherArguments = (name, args) =>
    args.length >= FOREIGN_FROM[name] || (name === "SORT" && /:/.test(args[1]?.value)); // a range instead of a column

  // Whether a formula has an array of other parts than constants, which .xlsx lacks, or a call with arguments that
  // mean something else in a file, such as the second condition of a FILTER.
  const isForeign = (ast) =>
    iterateAstNodes(ast).some(
      ({ type, value, args }) =>
        (type === "ARRAY" && !value.flat().every(isConstant)) ||
        (type === "FUNCALL" && hasOtherArguments(value.toUpperCase(), args)),
    );

  return {
    forFile,
    // Return a conditional format's rule, or a validation's criterion, with the formulas of a file.
    ruleForFile(rule) {
      const change = rule.type === "isValueInList" ? (text) => text.replaceAll('"', '""') : valueForFile;
      const thresholds = thresholdsOf(rule).map((name) => [name, asNumber(rule[name])]);
      const values = Array.isArray(rule.values) ? { values: rule.values.map(change) } : {};
      return { ...rule, ...values, ...Object.fromEntries(thresholds) };
    },
    // Whether a file can contain a rule or a criterion. A comma separates the texts of a list.
    isOfFile(rule) {
      if (rule.type === "isValueInList") return !rule.values.some((text) => text.includes(","));
      return !formulasOf(rule).some((formula) => !isUnreadable(formula) && isForeign(parse(formula)));
    },
    // Return the first cell of each conditional format and validation with a formula that the engine cannot read.
    unreadRules(getters, sheetId) {
      const formats = getters.getConditionalFormats(sheetId).filter(({ rule }) => isUnread(rule));
      const validations = getters.getDataValidationRules(sheetId).filter(({ criterion }) => isUnread(criterion));
      const zones = [
        ...formats.map(({ ranges: [cells] }) => getters.getRangeFromSheetXC(sheetId, cells).zone),
        ...validations.map(({ ranges: [{ zone }] }) => zone),
      ];
      return zones.map(({ left: col, top: row }) => ({ sheetId, col, row }));
    },
    // Restore the quotation marks in the lists of imported validations, and return whether there were any.
    hasRestored({ sheets }) {
      const lists = sheets.flatMap(({ dataValidationRules }) => dataValidationRules.map(({ criterion }) => criterion));
      const marked = lists.filter(({ type, values }) => type === "isValueInList" && values.join().includes(MARK));
      for (const list of marked) list.values = list.values.map((text) => text.replaceAll(MARK, '"'));
      return marked.length > 0;
    },
    // Return the formulas with a part that .xlsx lacks, other than a function. A formula without a value stays one.
    foreignFormulas(getters) {
      const cells = getters.getSheetIds().flatMap((sheet) => getters.getCells(sheet));
      const formulas = cells.filter(({ isFormula, compiledFormula }) => isFormula && !compiledFormula.isBadExpression);
      const foreign = formulas.filter(({ compiledFormula }) => isForeign(compiledFormula.getAst(getters)));
      const hasValue = ({ id }) => getters.getEvaluatedCell(getters.getCellPosition(id)).type !== "error";
      return foreign.filter(hasValue).map(({ compiledFormula }) => compiledFormula);
    },
  };
})();
