// Each command of a file is tried: one model loads the command, and another model receives it. Both must show the same
// texts, and further models must load their states. Later messages must not make the second model throw.
// `node refusals.mjs ENGINE_FOLDER PAGE_FOLDER COMMANDS_FILE` prints the first five failures.
import { readFileSync } from "node:fs";
import { made } from "./lines.mjs";

console.error = console.trace = () => {};

const { data, before, commands } = JSON.parse(readFileSync(process.argv[4], "utf8"));
const on = { sheetId: "s2", sheetName: "Two" };
/** Messages after the tried command. A list has commands. The number 1 is an undo of the tried command, message 1. */
const LATER = [
  [{ type: "ADD_COLUMNS_ROWS", ...on, dimension: "ROW", base: 1, quantity: 1, position: "before" }],
  [{ type: "REMOVE_COLUMNS_ROWS", ...on, sheetId: "sheet1", dimension: "COL", elements: [2] }],
  [{ type: "DUPLICATE_SHEET", sheetId: "sheet1", sheetIdTo: "copy", sheetNameTo: "copy" }],
  1,
];

function messageOf(change, index) {
  const ids = { serverRevisionId: index ? `r${index - 1}` : "start", nextRevisionId: `r${index}` };
  const common = { version: 1, clientId: "other", ...ids };
  if (typeof change === "number") return { type: "REVISION_UNDONE", ...common, undoneRevisionId: `r${change}` };
  return { type: "REMOTE_REVISION", ...common, commands: change };
}

/** Call the functions by which the page draws a sheet, and return the shown texts. */
function show({ getters }) {
  const texts = [];
  for (const sheetId of getters.getSheetIds()) {
    for (let row = 0; row < Math.min(getters.getNumberRows(sheetId), 12); row++) {
      for (let col = 0; col < Math.min(getters.getNumberCols(sheetId), 14); col++) {
        const position = { sheetId, col, row };
        texts.push(getters.getEvaluatedCell(position).formattedValue);
        getters.getCellComputedStyle(position);
        getters.getCellComputedBorder(position);
        getters.getConditionalDataBar(position);
        getters.getCellIcons(position);
        getters.getInvalidDataValidationMessage(position);
      }
    }
    for (const id of getters.getChartIds(sheetId)) getters.getChartRuntime(id);
  }
  for (const id of getters.getPivotIds()) {
    const pivot = getters.getPivot(id);
    if (pivot.isValid()) pivot.getExpandedTableStructure();
  }
  return texts.join();
}

function play(command) {
  const [first, second, ...later] = [before, [command], ...LATER].map(messageOf);
  const loaded = made(data, "loaded", [first, second]);
  const live = made(data, "live", [first]);
  show(live.model);
  live.receive(second);
  if (show(loaded.model) !== show(live.model)) throw new Error("the model that loaded the command shows other texts");
  for (const model of [loaded.model, live.model]) show(made(model.exportData(), "next").model);
  for (const message of later) {
    live.receive(message);
    show(live.model);
  }
}

let wrong = 0;
for (const command of commands) {
  try {
    play(command);
  } catch (error) {
    if (wrong++ < 5) console.log(JSON.stringify(command), error.stack.split("\n").slice(0, 3).join("\n"));
  }
}
process.exit(wrong ? 1 : 0);
