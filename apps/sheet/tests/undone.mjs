// Another client inserts rows, a column or a sheet. This client lists conflicts in the new cells or beside them. Then
// the other client undoes the insertion. `node undone.mjs ENGINE_FOLDER PAGE_FOLDER` prints for each case the kind of
// line that each conflict has lost (ROW, COL or SHEET). It also prints the cells with texts, and the size of the
// sheets, after the first conflict was restored.
import { made, named, sheetId } from "./lines.mjs";

const page = process.argv[3];
const { Conflicts } = await import(`${page}/conflicts.js`);
const { ConflictWatch } = await import(`${page}/conflictWatch.js`);
const { Restorer } = await import(`${page}/restorer.js`);
const { Tracker } = await import(`${page}/tracker.js`);

function play(theirs, ...cells) {
  const [here, there] = [made(named(), "here"), made(named(), "there")];
  const conflicts = new Conflicts();
  const tracker = new Tracker(conflicts, () => null);
  const watch = new ConflictWatch(
    conflicts,
    () => here.model,
    (model, deliver) => tracker.across(model, deliver),
  );
  let version = 0;
  const deliver = () => {
    for (const message of there.sent.splice(0).map((each) => structuredClone(each))) {
      watch.give({ version: ++version, author: "", created_ms: 0, message }, here.receive);
      there.receive(message);
    }
  };
  there.model.dispatch(...theirs);
  deliver();
  for (const [index, cell] of cells.entries()) {
    conflicts.add({ kind: "overwritten", sheetId, sheet: "Sheet1", text: `text ${index}`, ...cell });
  }
  there.model.dispatch("REQUEST_UNDO");
  deliver();
  const lost = conflicts.items.map(({ gone }) => gone);
  const isRestored = new Restorer(conflicts, () => here.model).restore(conflicts.items[0]);
  const { getters } = here.model;
  const sizes = getters.getSheetIds().map((id) => [getters.getNumberRows(id), getters.getNumberCols(id)]);
  const texts = getters.getSheetIds().flatMap((id) =>
    getters
      .getCells(id)
      .filter(({ content }) => content.startsWith("text"))
      .map((cell) => [getters.getSheetName(id), getters.getCellPosition(cell.id)])
      .map(([sheet, { col, row }]) => [sheet, col, row]),
  );
  return { lost, isRestored, texts, sizes, left: conflicts.items.map(({ gone }) => gone) };
}

const inserted = (dimension, quantity) => [
  "ADD_COLUMNS_ROWS",
  { sheetId, sheetName: "Sheet1", dimension, base: 3, position: "before", quantity },
];
const later = { sheetId: "later", sheet: "Later" };
const cases = {
  row: play(inserted("ROW", 1), { col: 5, row: 3 }, { col: 6, row: 3 }),
  rows: play(inserted("ROW", 2), { col: 5, row: 3 }, { col: 5, row: 4 }),
  column: play(inserted("COL", 1), { col: 3, row: 5 }),
  neighbour: play(inserted("COL", 1), { col: 4, row: 5 }),
  sheet: play(["CREATE_SHEET", { sheetId: "later", name: "Later", position: 1 }], { col: 1, row: 2, ...later }),
};
console.log(JSON.stringify(cases));
