// Offline cache: a sheet's data in the browser. All tabs share one snapshot from the server and the entries after it.
// Each tab has its own conflicts and pending changes. Each change has the version at which the user typed the change.

import { Database, within } from "/web/client/database.js";

const SNAPSHOT = ["snapshot"];
const ENTRIES = IDBKeyRange.bound(["entry"], ["entry", []]);

export class OfflineCache {
  #database;
  #release;
  #stored = "";
  /** Whether the browser has stored the latest pending changes, as far as is known. */
  isStored = true;

  /** Open the cache of a sheet under a tab lease. Throws if the browser cannot store data. */
  static open(name) {
    return Database.leased(`stratalog sheet ${name}`, async ({ database, tabLease, release }) => {
      await database.write(({ tabLeases }) => tabLeases.put({ tabLease, used: Date.now() }));
      return new OfflineCache(database, tabLease, release);
    });
  }

  constructor(database, tabLease, release) {
    this.#database = database;
    this.#release = release;
    this.tabLease = tabLease;
  }

  /**
   * Return the snapshot, the entries after the snapshot up to a gap, the pending changes and the conflicts. All except
   * the entries may be null.
   */
  async load() {
    const [snapshot, entries, pending, own, conflicts] = await this.#database.read((store) => [
      store("items").get(SNAPSHOT),
      store("items").getAll(ENTRIES),
      store("pending").get([this.tabLease, 0]),
      store("confirmed").get([this.tabLease, 0]),
      store("pending").get([this.tabLease, 1]),
    ]);
    this.#stored = signature(pending?.version, pending?.messages ?? []);
    return {
      snapshot: snapshot ?? null,
      entries: following(snapshot, entries),
      pending: pending ?? null,
      conflicts: own || conflicts ? { ...own, ...conflicts } : null,
    };
  }

  /** Store another snapshot, and delete all stored entries. */
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

  /**
   * Store the pending changes and the conflicts, unless they are stored already. A pending change whose row was deleted
   * becomes a conflict. One transaction writes both lists, so that a crash cannot lose such a change.
   */
  async putPending(version, messages, incarnation, conflicts) {
    const latest = signature(version, messages, conflicts.changes);
    if (latest === this.#stored) return;
    this.#stored = latest;
    const key = { tabLease: this.tabLease, sequence: 0 };
    const { items = [], own = [] } = conflicts.stored ?? {};
    try {
      await this.#database.write(({ pending, confirmed }) => {
        if (messages.length) pending.put({ ...key, version, messages, incarnation });
        else pending.delete([this.tabLease, 0]);
        // Store conflicts as pending data, so that the next tab takes this lease and shows the conflicts.
        if (items.length) pending.put({ ...key, sequence: 1, version, items, incarnation });
        else pending.delete([this.tabLease, 1]);
        if (own.length) confirmed.put({ ...key, version, own });
        else confirmed.delete([this.tabLease, 0]);
      });
      this.isStored ||= latest === this.#stored;
    } catch (error) {
      this.isStored = false;
      this.#stored = null; // the next call stores the changes again
      throw error;
    }
  }

  /** Delete this tab's data, and the shared data unless another tab has pending changes or conflicts. */
  async forget() {
    const leases = await this.#database.tabLeases();
    const isLast = leases.every(({ tabLease, waits }) => tabLease === this.tabLease || !waits);
    await this.#database.write(({ items, pending, confirmed }) => {
      pending.delete(within(this.tabLease));
      confirmed.delete(within(this.tabLease));
      if (isLast) items.clear();
    });
  }

  close() {
    this.#release();
    this.#database.close();
  }
}

// Only entries rebase pending changes, and each entry has a new version. So the version and the ids of the messages
// identify the present form of the pending changes.
const signature = (version, messages, changes = 0) =>
  messages.length || changes ? [version, changes, ...messages.map(({ nextRevisionId }) => nextRevisionId)].join() : "";

function following(snapshot, entries) {
  if (!snapshot) return [];
  const after = entries.filter(({ version }) => version > snapshot.version);
  const gap = after.findIndex(({ version }, index) => version !== snapshot.version + 1 + index);
  return gap < 0 ? after : after.slice(0, gap);
}
