// Keep: what the browser keeps of a sheet. A snapshot as the server sent it and the entries after it, for all tabs; and
// of each tab what was typed and is in no entry yet, with the version that it was typed at.

import { Database } from "/web/client/database.js";

const SNAPSHOT = ["snapshot"];
const ENTRIES = IDBKeyRange.bound(["entry"], ["entry", []]);

export class Keep {
  #database;
  #release;
  #told = "";

  /** Take a place of its own among the tabs of this browser. Throws where the browser keeps nothing. */
  static async open(name) {
    const database = await Database.open(`stratalog sheet ${name}`);
    const { tabLease, release } = await database.takeTabLease();
    await database.write(({ slots }) => slots.put({ slot: tabLease, used: Date.now() }));
    return new Keep(database, tabLease, release);
  }

  constructor(database, tabLease, release) {
    this.#database = database;
    this.#release = release;
    this.tabLease = tabLease;
  }

  /** The snapshot or null; the entries after it without a gap; what waits, or null. */
  async load() {
    const [snapshot, entries, pending] = await this.#database.read((store) => [
      store("items").get(SNAPSHOT),
      store("items").getAll(ENTRIES),
      store("pending").get([this.tabLease, 0]),
    ]);
    this.#told = signature(pending?.version, pending?.messages ?? []);
    return { snapshot: snapshot ?? null, entries: following(snapshot, entries), pending: pending ?? null };
  }

  /** Keep another snapshot, and no entry before it. */
  putSnapshot(snapshot) {
    return this.#database.write(({ items }) => {
      items.delete(ENTRIES);
      items.put(snapshot, SNAPSHOT);
    });
  }

  putEntries(entries) {
    return this.#database.write(({ items }) => {
      for (const entry of entries) items.put(entry, ["entry", entry.version]);
    });
  }

  /** Keep what waits, unless that is what is kept. */
  async putPending(version, messages, incarnation) {
    const told = signature(version, messages);
    if (told === this.#told) return;
    this.#told = told;
    await this.#database.write(({ pending }) => {
      if (messages.length) pending.put({ slot: this.tabLease, sequence: 0, version, messages, incarnation });
      else pending.delete([this.tabLease, 0]);
    });
  }

  /** Keep nothing of this tab's any more; nor anything else, unless something of another tab waits. */
  async forget() {
    const leases = await this.#database.tabLeases();
    const isLast = leases.every(({ tabLease, waits }) => tabLease === this.tabLease || !waits);
    await this.#database.write(({ items, pending }) => {
      pending.delete([this.tabLease, 0]);
      if (isLast) items.clear();
    });
  }

  close() {
    this.#release();
    this.#database.close();
  }
}

// What waits is rebased by entries alone, and each is a version.
const signature = (version, messages) =>
  messages.length ? [version, ...messages.map(({ nextRevisionId }) => nextRevisionId)].join() : "";

function following(snapshot, entries) {
  if (!snapshot) return [];
  const after = entries.filter(({ version }) => version > snapshot.version);
  const gap = after.findIndex(({ version }, index) => version !== snapshot.version + 1 + index);
  return gap < 0 ? after : after.slice(0, gap);
}
