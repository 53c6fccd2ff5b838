// A few real engines share one sheet, in an order that a seed decides. They ask the server over stdio, a line each way.
// node clients.mjs ENGINE_FOLDER SEED CLIENTS STEPS
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import vm from "node:vm";

const [folder, seed, count, steps] = process.argv.slice(2);
console.debug = console.warn = console.info = () => {};
globalThis.owl = { Component: class {}, markRaw: (it) => it, toRaw: (it) => it, whenReady() {}, xml: String.raw };
vm.runInThisContext(readFileSync(`${folder}/o-spreadsheet/dist/o_spreadsheet.iife.js`, "utf8"));
const { Model } = globalThis.o_spreadsheet;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function request(name, values = {}) {
  process.stdout.write(JSON.stringify({ name, ...values }) + "\n");
  const answer = JSON.parse((await lines.next()).value);
  return answer;
}

// mulberry32, by Tommy Ettinger: public domain.
let state = Number(seed) >>> 0;
function chance() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (limit) => Math.floor(chance() * limit);
const pick = (list) => list[below(list.length)];
const cell = () => String.fromCharCode(65 + below(6)) + (1 + below(12));

class Client {
  generation = 0;
  constructor(name) {
    this.name = name;
  }

  async load() {
    const loaded = await request("load");
    this.outbox = [];
    this.offline = 0;
    this.version = loaded.version;
    // A tab that loads again is somebody new to the engine.
    const id = `${this.name}-${this.generation++}`;
    const line = { onNewMessage: (_, receive) => (this.receive = receive), leave() {}, sendMessage: async (message) => {
      if (message.type.startsWith("RE")) this.outbox.push(JSON.parse(JSON.stringify(message)));
    } };
    this.model = new Model(loaded.data, { transportService: line, client: { id, name: id } }, loaded.messages);
    this.lost = false;
    this.model.on("unexpected-revision-id", this, () => (this.lost = true));
  }

  do(type, payload = {}) {
    return this.model.dispatch(type, payload);
  }

  edit() {
    const { getters } = this.model;
    const sheetId = pick(getters.getSheetIds());
    const sheetName = getters.getSheetName(sheetId);
    const position = () => ({ col: below(6), row: below(12) });
    const dimension = pick(["ROW", "COL"]);
    // A page never selects a part of a merged range.
    const zone = () => {
      const { col, row } = position();
      return getters.expandZone(sheetId, { left: col, right: col + below(3), top: row, bottom: row + below(3) });
    };
    /** @type {[number, () => any][]} */
    const edits = [
      [30, () => this.do("UPDATE_CELL", { sheetId, ...position(), content: String(below(1000)) })],
      [12, () => this.do("UPDATE_CELL", { sheetId, ...position(), content: `=SUM(${cell()}:${cell()})+${cell()}` })],
      [6, () => this.do("CLEAR_CELL", { sheetId, ...position() })],
      [8, () => this.do("ADD_COLUMNS_ROWS", {
        sheetId, sheetName, dimension, base: below(6), quantity: 1 + below(3), position: pick(["before", "after"]),
      })],
      [6, () => this.do("REMOVE_COLUMNS_ROWS", {
        sheetId, sheetName, dimension, elements: [...new Set([below(6), below(6)])],
      })],
      [5, () => this.do("SET_FORMATTING", {
        sheetId, target: [zone()], style: { bold: chance() < 0.5, fillColor: pick(["#ff0000", "#00ff00"]) },
      })],
      [3, () => this.do("DELETE_CONTENT", { sheetId, target: [zone()] })],
      [3, () => this.do("ADD_MERGE", { sheetId, target: [zone()] })],
      [2, () => this.do("CREATE_SHEET", { sheetId: `s${below(1e9)}`, position: 1, name: `S${below(1e6)}` })],
      [1, () => getters.getSheetIds().length > 1 && this.do("DELETE_SHEET", { sheetId, sheetName })],
      [1, () => this.do("RENAME_SHEET", { sheetId, newName: `N${below(1e6)}`, oldName: sheetName })],
      [3, () => this.do("AUTOFILL_CELL", { originCol: 0, originRow: 0, ...position() })],
      [18, () => this.do("REQUEST_UNDO")],
      [8, () => this.do("REQUEST_REDO")],
    ];
    let at = below(edits.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, run] of edits) if ((at -= weight) < 0) return run();
  }

  async send() {
    const message = this.outbox.shift();
    const answer = await request("append", { message });
    if (answer.error === "limit-exceeded") {
      const { session } = this.model;
      session.dropPendingHistoryMessages();
      session.waitingAck = false;
      session.sendPendingMessage();
    }
    // What was refused for its revision is sent again by the engine, rebased, once it has what it missed.
    return answer.error;
  }

  async receive_some(limit) {
    const since = await request("since", { version: this.version });
    if (since.reload) return this.load();
    for (const entry of since.entries.slice(0, limit)) {
      this.version = entry.version;
      if (entry.message) this.receive(entry.message);
    }
    if (this.lost) throw new Error(`${this.name} lost its way at version ${this.version}`);
  }

  get pending() {
    return this.model.session.pendingMessages.length;
  }
}

const clients = Array.from({ length: Number(count) }, (_, index) => new Client(`c${index}`));
for (const client of clients) await client.load();
const counts = { edits: 0, conflicts: 0, refused: 0, reloads: 0 };
for (let step = 0; step < Number(steps); step++) {
  const client = pick(clients);
  if (client.offline > 0) client.offline--;
  const roll = chance();
  if (roll < 0.35) {
    client.edit();
    counts.edits++;
  } else if (roll < 0.7 && !client.offline && client.outbox.length) {
    if (chance() < 0.7) await client.receive_some(Infinity);
    const error = client.outbox.length ? await client.send() : "";
    if (error) counts[error === "version-conflict" ? "conflicts" : "refused"]++;
  } else if (roll < 0.92 && !client.offline) {
    await client.receive_some(1 + below(6));
  } else if (roll < 0.94) client.offline = below(30);
  else if (roll < 0.955 && !client.pending) {
    await client.load();
    counts.reloads++;
  } else if (roll < 0.965) await request("snapshot");
  else if (roll < 0.975) await request("restart");
  else if (roll < 0.979) await request("name");
  else if (roll < 0.982) await request("rename", { title: `Title ${below(20)}` });
  else if (roll < 0.984) await request("restore", { back: 1 + below(20) });
  else if (roll < 0.99) await request("set", { cell: cell(), content: String(below(1000)) });
}
for (let cycle = 0; cycle < 10_000; cycle++) {
  for (const client of clients) {
    client.offline = 0;
    await client.receive_some(Infinity);
    while (client.outbox.length) if ((await client.send()) === "version-conflict") counts.conflicts++;
  }
  const { version } = await request("since", { version: 0, only: "version" });
  if (clients.every((client) => !client.pending && client.version === version)) break;
}
const pending = clients.map((client) => client.pending);
await request("end", { counts, pending, states: clients.map((client) => client.model._exportData(false)) });
process.exit(0);
