// Clients with real engines share one sheet. A seed decides the order of their steps. The clients write each request to
// stdout, and read the server's answer from stdin. Each client uses the page's own modules for pending messages and
// conflicts.
// node clients.mjs ENGINE_FOLDER PAGE_FOLDER SEED CLIENTS STEPS
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import vm from "node:vm";

const [folder, page, seed, count, steps] = process.argv.slice(2);
console.debug = console.warn = console.info = () => {};
globalThis.owl = { Component: class {}, markRaw: (it) => it, toRaw: (it) => it, whenReady() {}, xml: String.raw };
vm.runInThisContext(readFileSync(`${folder}/o-spreadsheet/dist/o_spreadsheet.iife.js`, "utf8"));
const { makeModel, noteHistory, pendingOf, dropWaitingUndo } = await import(`${page}/engine.js`);
const { Conflicts } = await import(`${page}/conflicts.js`);
const { ConflictWatch } = await import(`${page}/conflictWatch.js`);
const { Tracker } = await import(`${page}/tracker.js`);
await import(`${page}/plugins.js`);

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
  typed = [];
  conflicts = new Conflicts();
  tracker = new Tracker(this.conflicts, () => null);
  watch = new ConflictWatch(this.conflicts, () => this.model, (model, deliver) => this.tracker.across(model, deliver));
  constructor(name) {
    this.name = name;
    this.page = {
      onMoved: (command) => this.tracker.move(command),
      refusesUndo: () => this.offline > 0,
      onUndoRefused: (isRedo) => this.watch.missUndo(isRedo),
    };
  }

  /** Load the sheet, and apply the pending messages again. */
  async load(without = "") {
    const loaded = await request("load");
    if (this.model?.session.pendingMessages.length) {
      // The server may have committed pending messages before a restore. So first take the entries before the restore.
      const { entries } = await request("since", { version: this.version });
      const restored = entries.findIndex(({ type }) => type === "restored");
      this.take(restored < 0 ? entries.slice(0, loaded.version - this.version) : entries.slice(0, restored));
      this.watch.noteDropped(dropWaitingUndo(this.model, () => {}));
      const moves = await request("moves", { source: this.version, target: loaded.version });
      this.watch.carry(moves, this.version, (message) => this.receive(message));
    }
    const waiting = this.model ? pendingOf(this.model).filter(({ nextRevisionId }) => nextRevisionId !== without) : [];
    this.cached = { data: JSON.stringify(loaded.data), version: loaded.base, entries: loaded.entries };
    this.make(loaded.entries.length, []);
    const known = new Set(loaded.entries.map(({ message }) => message?.nextRevisionId));
    for (const message of waiting) if (!known.has(message.nextRevisionId)) this.watch.redo(message);
  }

  /** Start again with the stored data only, like a page that was closed or whose browser crashed. */
  reopen() {
    const stored = JSON.parse(JSON.stringify([pendingOf(this.model), this.conflicts.stored, this.version]));
    const [waiting, conflicts, version] = stored;
    this.conflicts.load(conflicts);
    this.make(version - this.cached.version, waiting);
  }

  /** Make a model of the cached data and the first `count` cached entries, and apply the messages in `waiting`. */
  make(count, waiting) {
    this.outbox = [];
    this.offline = 0;
    const entries = this.cached.entries.slice(0, count);
    this.version = this.cached.version + count;
    // The engine treats a reloaded tab as a new client.
    const id = `${this.name}-${this.generation++}`;
    const sendMessage = async (message) => {
      if (message.type.startsWith("RE")) this.outbox.push(JSON.parse(JSON.stringify(message)));
    };
    const transport = { onNewMessage: (_, receive) => (this.receive = receive), leave() {}, sendMessage };
    const messages = entries.flatMap(({ message }) => message ?? []);
    const options = { client: { id, name: id }, transport, page: this.page };
    this.model = makeModel(JSON.parse(this.cached.data), messages, options);
    this.lost = false;
    this.model.on("unexpected-revision-id", this, () => (this.lost = true));
    for (const message of waiting) this.watch.redo(message);
  }

  /** Dispatch a command. If a new message results, record the command, the version and the earlier pending messages. */
  do(type, payload = {}) {
    const before = pendingOf(this.model).map(({ nextRevisionId: id, commands }) => ({ id, commands }));
    const copied = JSON.parse(JSON.stringify({ version: this.version, before, command: { type, ...payload } }));
    const { isSuccessful } = this.model.dispatch(type, payload);
    this.watch.date(this.version);
    const { type: kind, nextRevisionId: revision, commands } = this.model.session.pendingMessages.at(-1) ?? {};
    const isNew = isSuccessful && kind === "REMOTE_REVISION" && before.every(({ id }) => id !== revision);
    // If no undo precedes a redo, the redo repeats the newest command at the selected cell.
    if (isNew && type === "REQUEST_REDO") copied.command = JSON.parse(JSON.stringify(commands[0]));
    if (isNew) this.typed.push({ ...copied, revision });
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
      [30, () => this.do("UPDATE_CELL", { sheetId, ...position(), content: `${this.name} ${this.typed.length}` })],
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
    const answer = await request("append", { message: this.watch.dated(message, this.version) });
    if (answer.error && answer.error !== "version-conflict") await this.refuse(message, answer);
    // After a version conflict, the engine gets the missed entries, rebases the message, and sends the message again.
    return answer.error;
  }

  async refuse(message, error) {
    this.watch.noteRefused(message, { message: "", ...error });
    if (message.type === "REMOTE_REVISION") return this.load(message.nextRevisionId);
    this.watch.noteDropped(dropWaitingUndo(this.model, () => {}));
  }

  async receive_some(limit) {
    const since = await request("since", { version: this.version });
    if (since.reload) return this.load();
    this.take(since.entries.slice(0, limit));
    if (this.lost) throw new Error(`${this.name} got an unexpected revision at version ${this.version}`);
  }

  take(entries) {
    for (const entry of entries) {
      this.version = entry.version;
      this.cached.entries[entry.version - this.cached.version - 1] = entry;
      if (!entry.message) continue;
      noteHistory(this.model, entry.message);
      this.watch.give(entry, (message) => this.receive(message));
    }
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
  else if (roll < 0.955) {
    if (chance() < 0.5) client.reopen();
    else await client.load();
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
await request("end", {
  counts,
  pending,
  states: clients.map((client) => client.model._exportData(false)),
  typed: clients.flatMap(({ name, typed }) => typed.map((each) => ({ name, ...each }))),
  listed: clients.flatMap(({ conflicts }) => conflicts.items),
});
process.exit(0);
