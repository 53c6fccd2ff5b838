// A user adds a rule and inserts a row above it, before the server has acknowledged an earlier change. The message of
// the rule must have the formula of the sheet without the row. `node rules.mjs ENGINE_FOLDER PAGE_FOLDER` prints the
// formula of each sent rule.
import { made, named, sheetId } from "./lines.mjs";

const ranges = [{ _sheetId: sheetId, _zone: { left: 0, right: 0, top: 0, bottom: 9 } }];
const criterion = { type: "isGreaterThan", values: ["=$A$3"] };
const format = { type: "CellIsRule", operator: criterion.type, values: [...criterion.values], style: { bold: true } };
const rules = {
  format: ["ADD_CONDITIONAL_FORMAT", { cf: { id: "rule", rule: format } }],
  validation: ["ADD_DATA_VALIDATION_RULE", { rule: { id: "rule", criterion, isBlocking: false } }],
};
const row = { sheetId, sheetName: "Sheet1", dimension: "ROW", base: 0, quantity: 1, position: "before" };

function sentFormula(type, rule) {
  const { model, receive, sent } = made(named(), "mine");
  model.dispatch("UPDATE_CELL", { sheetId, col: 1, row: 1, content: "earlier" });
  model.dispatch(type, { sheetId, ranges, ...rule });
  model.dispatch("ADD_COLUMNS_ROWS", row);
  receive(sent[0]);
  const [{ cf, rule: validation }] = sent[1].commands;
  return (cf?.rule ?? validation.criterion).values[0];
}

console.log(JSON.stringify(Object.fromEntries(Object.entries(rules).map(([name, of]) => [name, sentFormula(...of)]))));
process.exit(0);
