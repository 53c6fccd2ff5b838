// The engine rebases pending messages over the commits of another client. Each text must stay in its row and column.
// The names of rows and columns show their positions. `node rebase.mjs ENGINE_FOLDER PAGE_FOLDER FIRST_SEED SEEDS`
// plays a run for each seed, and prints the missing and misplaced texts of the first seeds that have some.
import { chanceOf, change, look, made, named, playAll, sheetId } from "./lines.mjs";

/**
 * Play a run: one client has pending texts and changes of rows and columns, and the other client commits changes of
 * rows and columns. Return a line for each text that is missing or in another cell.
 */
function play(seed) {
  const chance = chanceOf(seed);
  const below = (limit) => Math.floor(chance() * limit);
  const [mine, other] = [made(named(), "mine"), made(named(), "other")];
  const typed = [];
  for (let step = 0; step < 4; step++) {
    change(mine.model, below);
    const lines = (dimension) => [...look(mine.model)].filter(([text]) => text.startsWith(dimension));
    const [row, { row: top }] = lines("ROW")[below(3)] ?? ["", {}];
    const [column, { col: left }] = lines("COL")[below(3)] ?? ["", {}];
    if (!row || !column) break;
    const text = `text ${step}`;
    const { isSuccessful } = mine.model.dispatch("UPDATE_CELL", { sheetId, col: left, row: top, content: text });
    if (isSuccessful) typed.push({ text, row, column });
  }
  for (let step = 0; step < 3; step++) {
    change(other.model, below);
    const message = other.sent.shift();
    if (!message) continue;
    other.receive(message);
    mine.receive(message);
  }
  const positions = look(mine.model);
  // If two texts were typed into one cell, the cell has the newer text.
  const last = new Map(typed.map((each) => [`${each.row} ${each.column}`, each]));
  return [...last.values()].flatMap(({ text, row, column }) => {
    const [there, top, left] = [text, row, column].map((each) => positions.get(each));
    const isGone = !top || !left;
    const isRight = isGone ? !there : there && there.row === top.row && there.col === left.col;
    const where = there ? `at ${JSON.stringify(there)}` : "nowhere";
    return isRight ? [] : [`seed ${seed}: “${text}” of ${row}, ${column} is ${where}`];
  });
}

playAll(play);
