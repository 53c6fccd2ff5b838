// A client has a pending new sheet with a text, and gets another client's message. Then all models refuse the new
// sheet, except in the case `none`. `node refused.mjs ENGINE_FOLDER PAGE_FOLDER` prints for each case the lost texts
// that the client lists, and the names of the sheets.
import { made, named } from "./lines.mjs";

const page = process.argv[3];
const { Conflicts } = await import(`${page}/conflicts.js`);
const { ConflictWatch } = await import(`${page}/conflictWatch.js`);
const sheetId = "sheet1";
const copied = { sheetId, sheetName: "Sheet1", sheetNameTo: "Copy" };

function play(theirs, mine) {
  const data = named();
  data.sheets.push({ ...data.sheets[0], id: "other", name: "Other" });
  const [here, there] = [made(data, "here"), made(data, "there")];
  const conflicts = new Conflicts();
  const watch = new ConflictWatch(conflicts, () => here.model);
  there.model.dispatch(...theirs);
  here.model.dispatch(...mine);
  here.model.dispatch("UPDATE_CELL", { sheetId: "new", col: 2, row: 3, content: "text" });
  const messages = [];
  for (const client of [there, here, here]) {
    const message = structuredClone(client.sent.shift());
    messages.push(message);
    const entry = { version: messages.length, author: "", created_ms: 0, message };
    watch.give(entry, here.receive);
    there.receive(message);
  }
  const { getters } = there.model;
  const listed = conflicts.items.filter((item) => item.text).map(({ kind, gone, sheet }) => [kind, gone, sheet]);
  return { listed, sheets: getters.getSheetIds().map((id) => getters.getSheetName(id)) };
}

const created = (name, position) => ["CREATE_SHEET", { sheetId: "new", name, position }];
const cases = {
  position: play(["DELETE_SHEET", { sheetId, sheetName: "Sheet1" }], created("New", 2)),
  name: play(["RENAME_SHEET", { sheetId, oldName: "Sheet1", newName: "New" }], created("New", 1)),
  copy: play(
    ["DUPLICATE_SHEET", { ...copied, sheetIdTo: "one" }],
    ["DUPLICATE_SHEET", { ...copied, sheetIdTo: "new" }],
  ),
  none: play(["CREATE_SHEET", { sheetId: "third", name: "New", position: 1 }], created("New", 1)),
};
console.log(JSON.stringify(cases));
