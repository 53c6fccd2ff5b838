// Offline cache: what the browser stores of a sheet. For all tabs, a snapshot as the server sent it and the entries
// after it; for each tab, what was typed and is in no entry yet, with the version that it was typed at.

import { Database } from "/web/client/database.js";

const SNAPSHOT = ["snapshot"];
const ENTRIES = IDBKeyRange.bound(["entry"], ["entry", []]);

export class OfflineCache {
  #database;
  #release;
  #stored = "";

  /** Open the cache of a sheet under a tab lease. Throws where the browser stores nothing. */
  static async open(name) {
    const database = await Database.open(`stratalog sheet ${name}`);
    const { tabLease, release } = await database.takeTabLease();
    await database.write(({ tabLeases }) => tabLeases.put({ tabLease, used: Date.now() }));
    return new OfflineCache(database, tabLease, release);
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
    this.#stored = signature(pending?.version, pending?.messages ?? []);
    return { snapshot: snapshot ?? null, entries: following(snapshot, entries), pending: pending ?? null };
  }

  /** Store another snapshot, and delete the entries before it. */
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

  /** Store what waits, unless it is stored already. */
  async putPending(version, messages, incarnation) {
    const latest = signature(version, messages);
    if (latest === this.#stored) return;
    this.#stored = latest;
    await this.#database.write(({ pending }) => {
      if (messages.length) pending.put({ tabLease: this.tabLease, sequence: 0, version, messages, incarnation });
      else pending.delete([this.tabLease, 0]);
    });
  }

  /** Delete what is stored for this tab; and everything else, unless something of another tab waits. */
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
