// Test sheets in real engines, which run with the page's own modules. The first row has a name for each column, and the
// first column has a name for each row. Programs that import this module take the arguments ENGINE_FOLDER PAGE_FOLDER.
// Programs that call `playAll` also take the arguments FIRST_SEED SEEDS.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [folder, page, first, count] = process.argv.slice(2);
console.debug = console.warn = console.info = () => {};
// Browsers have this function; Node 20 lacks it.
Object.groupBy ??= /** @type {any} */ (grouped);
globalThis.owl = { Component: class {}, markRaw: (it) => it, toRaw: (it) => it, whenReady() {}, xml: String.raw };
vm.runInThisContext(readFileSync(`${folder}/o-spreadsheet/dist/o_spreadsheet.iife.js`, "utf8"));
export const { effectOfHistory, makeModel, prepared, queuedOf, rewind, runQueued } = await import(`${page}/engine.js`);
export const { movedBy } = await import(`${page}/positions.js`);
const LINES = 12;
export const sheetId = "sheet1";

/**
 * Make a model that loads messages. `sent` has the changes that the model sends: revisions, undos and redos. `receive`
 * gives the model a later message.
 */
export function made(data, name, loaded = []) {
  const sent = [];
  let give;
  const transport = {
    onNewMessage: (_, receive) => (give = receive),
    sendMessage: async (message) => message.type.startsWith("RE") && sent.push(message),
    leave() {},
  };
  const model = makeModel(structuredClone(data), structuredClone(loaded), { client: { id: name, name }, transport });
  return { model, sent, receive: (message) => give(prepared(model, structuredClone(message))) };
}

function grouped(items, keyOf) {
  const groups = {};
  for (const [index, item] of [...items].entries()) (groups[keyOf(item, index)] ??= []).push(item);
  return groups;
}

const name = (dimension, index) => `${dimension} ${index}`;

/** Make the data of a sheet whose first row and column have the names of all columns and rows. */
export function named() {
  const cells = {};
  const column = (index) => String.fromCharCode(65 + index);
  for (let index = 1; index < LINES; index++) {
    cells[`${column(index)}1`] = name("COL", index);
    cells[`A${index + 1}`] = name("ROW", index);
  }
  const sheet = { id: sheetId, name: "Sheet1", colNumber: LINES, rowNumber: LINES, cells };
  return { version: "19.3.2", revisionId: "start", sheets: [sheet] };
}

/** Return the position of each name and each text. */
export function look({ getters }) {
  const positions = new Map();
  for (const { id, content } of getters.getCells(sheetId)) {
    if (content) positions.set(content, getters.getCellPosition(id));
  }
  return positions;
}

export function chanceOf(seed) {
  let state = seed >>> 0;
  // mulberry32, by Tommy Ettinger: public domain.
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Add or remove rows or columns. The first row and the first column stay in place, because they have the names. */
export function change(model, below) {
  const dimension = below(2) ? "ROW" : "COL";
  const size = dimension === "ROW" ? model.getters.getNumberRows(sheetId) : model.getters.getNumberCols(sheetId);
  const line = () => 1 + below(Math.min(size, LINES) - 1);
  const of = { sheetId, sheetName: "Sheet1", dimension };
  const position = below(2) ? "before" : "after";
  if (below(2)) model.dispatch("REMOVE_COLUMNS_ROWS", { ...of, elements: [...new Set([line(), line()])] });
  else model.dispatch("ADD_COLUMNS_ROWS", { ...of, base: line(), quantity: 1 + below(2), position });
}

/** Play every seed, print the first failures, and exit with 1 if a seed failed. */
export function playAll(play) {
  let wrong = 0;
  for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
    const lines = play(seed);
    if (lines.length && wrong++ < 5) console.log(lines.join("\n"));
  }
  console.log(`${count} runs, ${wrong} with texts in wrong cells`);
  process.exit(wrong ? 1 : 0);
}
