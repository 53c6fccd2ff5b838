// A page loads some messages and receives later messages, among them undos of loaded messages. At the end, the sheets,
// the heights of rows and the value of a SUBTOTAL must not depend on the number of loaded messages.
// `node loaded.mjs ENGINE_FOLDER PAGE_FOLDER CASE` prints each wrong result.
import { made, rewind } from "./lines.mjs";

// Node has no canvas, and the engine's own canvas measures no heights.
globalThis.OffscreenCanvas = /** @type {any} */ (
  class {
    font = "";
    getContext = () => this;
    save() {}
    restore() {}
    measureText({ length: width }) {
      return { width, fontBoundingBoxAscent: Number(/(\d+)px/.exec(this.font)?.[1]), fontBoundingBoxDescent: 0 };
    }
  }
);

const [one, two] = ["one", "two"];
const put = (sheetId, row, content) => [{ type: "UPDATE_CELL", sheetId, col: 0, row, content }];
const large = [{ type: "SET_FORMATTING", sheetId: two, target: [zone(2)], style: { fontSize: 40 } }];
const rows = { sheetId: two, sheetName: two, dimension: "ROW" };
const added = [{ type: "ADD_COLUMNS_ROWS", ...rows, base: 1, quantity: 2, position: "before" }];
const removed = [{ type: "REMOVE_COLUMNS_ROWS", ...rows, elements: [1] }];
const deleted = (sheetId) => [{ type: "DELETE_SHEET", sheetId, sheetName: sheetId }];
const duplicated = [{ type: "DUPLICATE_SHEET", sheetId: two, sheetIdTo: "copy", sheetNameTo: "copy" }];

/** The messages of each case. A number is an undo of the message at that index. Cases without an undo test `rewind`. */
const cases = {
  deletedSheet: [deleted(two), 0],
  twoDeletedSheets: [deleted(two), deleted("three"), 0, 1],
  rowsAddedBeforeADeletion: [put(one, 0, "text"), added, deleted(two), 0],
  rowsRemovedBeforeADeletion: [put(one, 0, "text"), removed, deleted(two), 0],
  sheetDuplicatedBeforeADeletion: [put(one, 0, "text"), duplicated, deleted(two), 0],
  rowsAddedAboveALargeText: [large, added, 1],
  largeText: [large, added, 0],
  deletedSubtotal: [put(one, 3, ""), 0],
  viewedDeletion: [deleted(two)],
  viewedLargeText: [large, added],
};

function zone(row) {
  return { left: 0, right: 0, top: row, bottom: row };
}

function data() {
  const cells = { A1: "1", A2: "2", A3: "text", A4: "=SUBTOTAL(109,A1:A2)" };
  const sheet = (id) => ({ id, name: id, colNumber: 6, rowNumber: 6, cells });
  return { version: "19.3.2", revisionId: "start", sheets: [one, two, "three"].map(sheet) };
}

function messagesOf(changes) {
  return changes.map((change, index) => {
    const common = { version: 1, clientId: "other", nextRevisionId: `r${index}` };
    const after = { ...common, serverRevisionId: index ? `r${index - 1}` : "start" };
    if (typeof change === "object") return { type: "REMOTE_REVISION", ...after, commands: change };
    return { type: "REVISION_UNDONE", ...after, undoneRevisionId: `r${change}` };
  });
}

function sizes({ getters }) {
  const all = (id) => Array.from({ length: getters.getNumberRows(id) }, (_, row) => getters.getRowSize(id, row));
  return getters.getSheetIds().map((id) => [id, ...all(id)].join(" "));
}

/** Return the heights and the SUBTOTAL of a page that loaded the first `count` messages and received the others. */
function shown(messages, count) {
  const { model, receive } = made(data(), "mine", messages.slice(0, count));
  for (const message of messages.slice(count)) receive(message);
  const heights = sizes(model);
  model.dispatch("HIDE_COLUMNS_ROWS", { sheetId: one, dimension: "ROW", elements: [1] });
  const { value } = model.getters.getEvaluatedCell({ sheetId: one, col: 0, row: 3 });
  return [...heights, value].join(", ");
}

/** Return the heights of a page that loaded all messages and took them back, as the version viewer does. */
function rewound(messages) {
  const { model } = made(data(), "mine", messages);
  rewind(model, messages);
  return sizes(model).join(", ");
}

function check(label, wanted, run) {
  let seen;
  try {
    seen = run();
  } catch (error) {
    seen = String(error);
  }
  if (seen === wanted) return;
  console.log(`${label}: ${seen}; it should be ${wanted}`);
  process.exitCode = 1;
}

const messages = messagesOf(cases[process.argv[4]]);
if (messages.some(({ type }) => type === "REVISION_UNDONE")) {
  const wanted = shown(messages, 0);
  for (let count = 1; count < messages.length; count++) {
    check(`after ${count} loaded messages`, wanted, () => shown(messages, count));
  }
} else check("taken back", sizes(made(data(), "mine").model).join(", "), () => rewound(messages));
