// A user cuts a cell and then inserts a cell at its position. The engine executes the insertion as several commands.
// `node cut.mjs ENGINE_FOLDER PAGE_FOLDER` prints the page's warnings.
import { made, named, sheetId } from "./lines.mjs";

await import(`${process.argv[3]}/clipboard.js`);

const zone = { left: 1, right: 1, top: 1, bottom: 1 };
const { model } = made(named(), "ada");
const warnings = [];
model.on("notify-ui", {}, ({ text }) => warnings.push(text));
model.selection.selectZone({ cell: { col: zone.left, row: zone.top }, zone });
model.dispatch("CUT");
model.dispatch("INSERT_CELL", { sheetId, zone, shiftDimension: "ROW" });
console.log(JSON.stringify(warnings));
