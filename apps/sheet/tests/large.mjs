// Messages with many cells, as after the paste of a table. `node large.mjs PAGE_FOLDER` prints for each case how often
// the conflicts read the sheets of a message's commands, for each command, and the number of listed conflicts.
const { Conflicts, itemsOf } = await import(`${process.argv[2]}/conflicts.js`);

const COUNT = 600;
const lines = { type: "ADD_COLUMNS_ROWS", dimension: "ROW", base: 99, quantity: COUNT, position: "after" };
const message = { type: "REMOTE_REVISION" };
let reads = 0;

class Command {
  constructor(fields) {
    Object.assign(this, fields);
    Object.defineProperty(this, "sheetId", { enumerable: true, get: () => (reads += 1) && "s" });
  }
}

const table = (name, first = []) => {
  const cells = Array.from({ length: COUNT }, (_, index) => ({ col: index % 5, row: Math.floor(index / 5), index }));
  const writes = cells.map(({ index, ...cell }) => ({ type: "UPDATE_CELL", ...cell, content: `${name} ${index}` }));
  return [...first, ...writes].map((fields) => new Command(fields));
};

/** Give the conflicts an entry of another user with commands, while other commands are pending before and after it. */
function settle(conflicts, theirs, before, after, isSheetGone) {
  conflicts.begin({ version: 2, author: "b", created_ms: 1, message }, theirs, before);
  conflicts.settle(after, () => "Sheet1", isSheetGone);
}

const CASES = {
  committed(conflicts) {
    const own = table("own", [lines]);
    conflicts.begin({ version: 2, message }, own, own);
    conflicts.note({ version: 2 }, own);
  },
  waiting(conflicts) {
    const own = table("own");
    settle(conflicts, [{ type: "UPDATE_CELL", sheetId: "s", col: 9, row: 9, content: "x" }], own, own);
  },
  overwritten(conflicts) {
    const own = table("own", [lines]);
    settle(conflicts, table("theirs"), own, own);
  },
  deleted(conflicts) {
    settle(conflicts, [{ type: "DELETE_SHEET", sheetId: "s" }], table("own", [lines]), [], () => true);
  },
  refused(conflicts) {
    conflicts.addAll(itemsOf("refused", table("own"), () => "Sheet1"));
  },
};

const results = Object.entries(CASES).map(([name, play]) => {
  const conflicts = new Conflicts();
  reads = 0;
  play(conflicts);
  return [name, { reads: Math.ceil(reads / COUNT), listed: conflicts.items.filter(({ text }) => text).length }];
});
console.log(JSON.stringify(Object.fromEntries(results)));
