// What waits is rebased past what somebody else committed: each text stays in its row and column, which have names that
// the engine moves. node rebase.mjs ENGINE_FOLDER PAGE_FOLDER FIRST_SEED SEEDS; prints each text that is elsewhere.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [folder, page, first, count] = process.argv.slice(2);
console.debug = console.warn = console.info = () => {};
globalThis.owl = { Component: class {}, markRaw: (it) => it, toRaw: (it) => it, whenReady() {}, xml: String.raw };
vm.runInThisContext(readFileSync(`${folder}/o-spreadsheet/dist/o_spreadsheet.iife.js`, "utf8"));
const { makeModel, prepared } = await import(`${page}/engine.js`);
const LINES = 12;
const sheetId = "sheet1";

/** A model and what it would send; `receive` is how it is given what was committed. */
function made(data, name) {
  const sent = [];
  let give;
  const transport = {
    onNewMessage: (_, receive) => (give = receive),
    sendMessage: async (message) => message.type.startsWith("RE") && sent.push(message),
    leave() {},
  };
  const model = makeModel(structuredClone(data), [], { client: { id: name, name }, transport });
  return { model, sent, receive: (message) => give(prepared(model, structuredClone(message))) };
}

const name = (dimension, index) => `${dimension} ${index}`;

/** A sheet whose first row and column name all others. */
function named() {
  const cells = {};
  const column = (index) => String.fromCharCode(65 + index);
  for (let index = 1; index < LINES; index++) {
    cells[`${column(index)}1`] = name("COL", index);
    cells[`A${index + 1}`] = name("ROW", index);
  }
  const sheet = { id: sheetId, name: "Sheet1", colNumber: LINES, rowNumber: LINES, cells };
  return { version: "19.3.2", revisionId: "start", sheets: [sheet] };
}

/** Where each line with a name is, and each text. */
function look({ getters }) {
  const positions = new Map();
  for (const { id, content } of getters.getCells(sheetId)) {
    if (content) positions.set(content, getters.getCellPosition(id));
  }
  return positions;
}

function chanceOf(seed) {
  let state = seed >>> 0;
  // mulberry32, by Tommy Ettinger: public domain.
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Do something to lines; the first row and column, which hold the names, stay first. */
function change(model, below) {
  const dimension = below(2) ? "ROW" : "COL";
  const size = dimension === "ROW" ? model.getters.getNumberRows(sheetId) : model.getters.getNumberCols(sheetId);
  const line = () => 1 + below(Math.min(size, LINES) - 1);
  const of = { sheetId, sheetName: "Sheet1", dimension };
  const position = below(2) ? "before" : "after";
  if (below(2)) model.dispatch("REMOVE_COLUMNS_ROWS", { ...of, elements: [...new Set([line(), line()])] });
  else model.dispatch("ADD_COLUMNS_ROWS", { ...of, base: line(), quantity: 1 + below(2), position });
}

/** A run: somebody commits changes of lines, beside changes and texts that wait. Answers what is elsewhere. */
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
  // Of two texts of one cell the newer one is there.
  const last = new Map(typed.map((each) => [`${each.row} ${each.column}`, each]));
  return [...last.values()].flatMap(({ text, row, column }) => {
    const [there, top, left] = [text, row, column].map((each) => positions.get(each));
    const isGone = !top || !left;
    const isRight = isGone ? !there : there && there.row === top.row && there.col === left.col;
    const where = there ? `at ${JSON.stringify(there)}` : "nowhere";
    return isRight ? [] : [`seed ${seed}: “${text}” of ${row}, ${column} is ${where}`];
  });
}

let wrong = 0;
for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
  const lines = play(seed);
  if (lines.length && wrong++ < 5) console.log(lines.join("\n"));
}
console.log(`${count} runs, ${wrong} with texts elsewhere`);
process.exit(wrong ? 1 : 0);
