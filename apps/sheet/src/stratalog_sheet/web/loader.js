// Loader: the snapshot and entries of a sheet, from the server, from the offline cache, or from both.

import { StratalogError } from "/web/client/errors.js";
import { isPassing, LOST } from "./transport.js";

const BEHIND_ENTRIES_MAX = 1500;

export class Loader {
  #server;
  #sheet;
  #offlineCache;
  #complain;
  #facts;

  /** `complain(error)` shows an error to the user. */
  constructor(server, sheet, offlineCache, complain) {
    this.#server = server;
    this.#sheet = sheet;
    this.#offlineCache = offlineCache;
    this.#complain = complain;
  }

  /**
   * Return `facts` (the server's description of the sheet), `loaded` (a snapshot and entries) and `fault`. `fault` is
   * the error if the sheet was deleted while changes were pending; otherwise it is null.
   *
   * This method may change `cached`. It sets `pending` to null if the pending changes belong to a deleted sheet, and
   * another tab has cached a new sheet of the same name. It sets `pending.version` to -1 if the server has lost the
   * cached history, or the state on which the pending changes build. If neither the cache nor the loaded data have this
   * state, it puts the server's copy into `cached`.
   *
   * Throws if the load fails and the page cannot show the cached sheet instead.
   */
  async load(cached) {
    try {
      await this.#fetchFacts();
      this.#checkIncarnation(cached);
      const loaded = await this.#fetch(cached);
      await this.#fetchBase(cached, loaded);
      return { facts: this.#facts, loaded, fault: null };
    } catch (error) {
      return this.#fallBack(cached, error);
    }
  }

  /** Load the facts and the newest state from the server, and store the state in the offline cache. */
  async loadNewest() {
    await this.#fetchFacts();
    const loaded = await this.#fetch({ snapshot: null, entries: [], pending: null });
    return { facts: this.#facts, loaded };
  }

  async #fetchFacts() {
    this.#facts = await this.#server.get(this.#server.path(this.#sheet, "/"));
    this.#server.incarnation = this.#facts.incarnation;
  }

  /** Check the history of the pending changes. Throw an error or drop the changes if they belong to a deleted sheet. */
  #checkIncarnation(cached) {
    const known = cached.snapshot?.facts.incarnation;
    const typed = cached.pending && (cached.pending.incarnation ?? known);
    if (!typed || typed === this.#facts.incarnation) return;
    if (typed === known) throw new StratalogError("not-found", "the sheet was deleted, and its name was reused");
    // Another tab has cached the new sheet, so the base snapshot of the pending changes is gone. Drop these changes.
    cached.pending = null;
    const text = "pending changes were dropped, because they belong to a deleted sheet of this name";
    this.#complain(new StratalogError("conflict", text));
  }

  /**
   * Fetch the state on which the pending changes build, if neither the cache nor the loaded data have this state. If
   * the server does not have it either, the page repeats the pending changes on the new state.
   */
  async #fetchBase(cached, { snapshot }) {
    const { pending } = cached;
    if (!pending || pending.version >= snapshot.version || hasBase(cached)) return;
    try {
      const answer = await this.#server.get(this.#server.path(this.#sheet, "/load"), { at: pending.version });
      const { base: version, hash, data, entries } = answer;
      Object.assign(cached, { snapshot: { version, hash, facts: this.#facts, data }, entries });
    } catch (error) {
      if (isPassing(error)) throw error;
      pending.version = -1;
    }
  }

  /**
   * Return the cached sheet if the server is unreachable or refuses requests for now, and the cache has the state on
   * which the pending changes build. Also return the cached sheet if the sheet was deleted while changes were pending.
   * Otherwise throw the error. If the sheet was deleted and no change is pending, delete the cached sheet.
   */
  async #fallBack(cached, error) {
    const isGone = error.code === "not-found";
    const isShown = cached.snapshot && (isGone ? cached.pending : isPassing(error) && hasBase(cached));
    if (isGone && !isShown) await this.#offlineCache?.forget();
    if (!isShown) throw error;
    const title = cached.entries.findLast(({ data }) => data?.title)?.data.title ?? cached.snapshot.facts.title;
    const version = cached.entries.at(-1)?.version ?? cached.snapshot.version;
    const facts = { ...cached.snapshot.facts, title, version };
    this.#server.incarnation = facts.incarnation;
    return { facts, loaded: cached, fault: isGone ? error : null };
  }

  /**
   * Return the snapshot and entries for the model. Use the cached snapshot, unless it is too old, belongs to another
   * history, or is from before a restore.
   */
  async #fetch(cached) {
    const { snapshot, entries } = cached;
    const path = this.#server.path(this.#sheet, "/load");
    if (snapshot?.facts.incarnation === this.#facts.incarnation && this.#isNear(cached)) {
      const { version: after, hash } = entries.at(-1) ?? snapshot;
      const answer = await this.#server
        .get(path, { known: snapshot.version, after, hash })
        .catch((error) => this.#leaveLost(cached, error));
      if (answer?.data === null && !hasRestore(answer.entries)) {
        this.#offlineCache.putEntries(answer.entries);
        return { snapshot, entries: [...entries, ...answer.entries] };
      }
    }
    const answer = await this.#server.get(path);
    const fresh = { version: answer.base, hash: answer.hash, facts: this.#facts };
    // Store the data as text, because the browser stores and reads an object more slowly.
    this.#offlineCache?.putSnapshot({ ...fresh, text: JSON.stringify(answer.data) });
    this.#offlineCache?.putEntries(answer.entries);
    return { snapshot: { ...fresh, data: answer.data }, entries: answer.entries };
  }

  /** If the server lost the cached history, mark the pending changes. The page then repeats them on the new state. */
  #leaveLost({ pending }, error) {
    if (error.code !== LOST) throw error;
    if (pending) pending.version = -1;
    this.#complain(historyLost());
  }

  /** Whether to use the cached snapshot. Pending changes need this snapshot in any case, for their rebase. */
  #isNear({ snapshot, pending }) {
    return pending !== null || this.#facts.version - snapshot.version <= BEHIND_ENTRIES_MAX;
  }
}

/** The error for a server that went back to an older history, for example after a restore from a backup. */
export const historyLost = () =>
  new StratalogError(
    LOST,
    "the server went back to an older state of this sheet. Later versions are lost, your pending changes are kept",
  );

/**
 * Whether the cache has the state on which the pending changes build. Another tab may have replaced this state. Changes
 * with a version below 0 need no such state, because the page repeats them on any state.
 */
const hasBase = ({ snapshot, entries, pending }) =>
  !pending ||
  pending.version < 0 ||
  (snapshot?.version <= pending.version && pending.version <= (entries.at(-1) ?? snapshot).version);

const hasRestore = (entries) => entries.some(({ type }) => type === "restored");
