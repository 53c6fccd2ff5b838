// Transport: sends the engine's messages to the sheet's log, and gives the engine the log's new entries. The server
// appends a message with a change only if the message is based on the log's present revision. If another client was
// faster, the transport gives the engine the newer entries. The engine then rebases the message and sends it again.
// Only one request is in flight at a time, so the messages keep their order.

import { StratalogError } from "/web/client/errors.js";
import { Alarm, pauseMs } from "/web/client/backoff.js";

const BACKOFF = { firstMs: 250, limitMs: 15_000 };
const IDLE_MS = 30_000;
/** The server's error code for a version that its history does not have, or has with another hash. */
export const LOST = "version-lost";
const PRESENCE = new Set(["CLIENT_JOINED", "CLIENT_MOVED", "CLIENT_LEFT"]);

export class Transport {
  /** The version of the newest entry that the engine has, and the hash of the history up to this entry. */
  version;
  hash;
  /** The first error since the last successful step, or the error that ended the transport; otherwise null. */
  lastError = null;
  #log;
  #hooks;
  #alarm = new Alarm();
  #callbacks = new Map();
  #outgoing = null;
  #isBehind = true;
  /** The cause of a due reload; otherwise null. */
  #reload = null;
  #isRunning = false;
  #loop = Promise.resolve();
  #failures = 0;

  /**
   * `log.append(message, version, hash)` returns the new entry; `log.read(after, hash)` returns a page of the entries
   * after a version.
   * `hooks` has these functions:
   * - `onEntry(entry)`: before the engine gets the entry;
   * - `onState()`: after a new message of the engine, after the first failed step, and after the next successful step;
   * - `onRefused(message, error)`: for a message that the server will never accept; the error is null if an older entry
   *   of the log already has the message;
   * - `onEnd(error)`: after an error that a retry cannot solve;
   * - `onReload(cause)`: loads a new model, and stops this transport after success. `cause` is `{without, isLost}`, as
   *   in `requestReload`. The transport calls `onReload` again after an error that a retry may solve;
   * - `onPresence(message)`: for the presence of this page;
   * - `give(entry, emit)`: gives the engine the message of an entry.
   */
  constructor({ version, hash }, log, hooks) {
    this.version = version;
    this.hash = hash;
    this.#log = log;
    this.#hooks = hooks;
  }

  // Methods for the engine.

  async sendMessage(message) {
    if (PRESENCE.has(message.type)) return this.#hooks.onPresence(message);
    if (message.type === "SNAPSHOT") return;
    this.#outgoing = message;
    this.#alarm.ring();
    this.#hooks.onState();
  }

  onNewMessage(id, callback) {
    this.#callbacks.set(id, callback);
  }

  leave(id) {
    this.#callbacks.delete(id);
  }

  // Methods for the page.

  /** Give the engine the message of an entry, a message of presence, or a message that the page made. */
  emit(message) {
    for (const callback of this.#callbacks.values()) callback(message);
  }

  get waits() {
    return this.#outgoing !== null;
  }

  get isRunning() {
    return this.#isRunning;
  }

  start() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#isBehind = true;
    this.#failures = 0;
    this.#loop = this.#loop.then(() => this.#run());
  }

  /** Send nothing more. A request in flight finishes, and the returned promise resolves after the request. */
  stop() {
    this.#isRunning = false;
    this.lastError = null;
    this.#alarm.ring();
    return this.#loop;
  }

  /** Read new entries, because the server has `version`. Without `version`, read in any case. */
  poke(version = Infinity) {
    // Do not ignore a poke of an older version. The poke may be late, but it may also come from a server that went back
    // to an older history.
    if (version === this.version) return;
    this.#isBehind = true;
    this.#failures = 0;
    this.#alarm.ring();
  }

  /**
   * Call `onReload` in the next step, because the engine can no longer follow the log. `without` is the id of a message
   * to drop. `isLost` is true if the server went back to an older history.
   */
  requestReload({ without = "", isLost = false } = {}) {
    this.#reload ??= { without, isLost };
    this.#alarm.ring();
  }

  /** Give the engine entries that the caller has read. */
  take(entries) {
    for (const entry of entries) this.#deliver(entry);
  }

  /** Forget a message that the engine has taken back. */
  withdraw() {
    this.#outgoing = null;
  }

  /** Give the engine the next entry. Ignores an entry that the engine already has. */
  #deliver(entry) {
    if (entry.version <= this.version) return;
    if (entry.version !== this.version + 1) throw new StratalogError("corrupt", "an entry is missing", entry);
    this.version = entry.version;
    this.hash = entry.hash;
    this.#hooks.onEntry(entry);
    if (entry.type !== "revision") return;
    if (this.#outgoing?.nextRevisionId === entry.message.nextRevisionId) this.#outgoing = null;
    this.#hooks.give(entry, (message) => this.emit(message));
  }

  async #run() {
    while (this.#isRunning) {
      try {
        await this.#step();
        this.#failures = 0;
        this.#note(null);
      } catch (error) {
        if (!isPassing(error)) return this.#end(error);
        this.#failures += 1;
        this.#note(error);
        const { retryAfter } = error.details ?? {};
        if (this.#isRunning) await this.#alarm.wait(pauseMs(this.#failures, { ...BACKOFF, retryAfter }));
      }
    }
  }

  async #step() {
    if (this.#reload) return this.#hooks.onReload(this.#reload);
    if (this.#isBehind) return this.#read();
    if (this.#outgoing) return this.#append(this.#outgoing);
    await this.#alarm.wait(IDLE_MS);
    // Read after an idle wait, because a poke may have been lost.
    this.#isBehind ||= !this.#outgoing;
  }

  async #read() {
    this.#isBehind = false;
    try {
      const page = await this.#log.read(this.version, this.hash);
      if (page.reload || page.entries.some(({ type }) => type === "restored")) return this.requestReload();
      this.take(page.entries);
      this.#isBehind ||= this.version < page.version;
    } catch (error) {
      if (error.code === LOST) return this.requestReload({ isLost: true });
      this.#isBehind = true;
      throw error;
    }
  }

  async #append(message) {
    try {
      const entry = await this.#log.append(message, this.version, this.hash);
      if (entry.version === this.version + 1) this.#deliver(entry);
      // The message is in an entry that the engine already has, so no later entry will acknowledge the message.
      else if (entry.version <= this.version) this.#hooks.onRefused(message, null);
      else this.#isBehind = true;
    } catch (error) {
      if (error.code === LOST) this.requestReload({ isLost: true });
      else if (error.code === "version-conflict") this.#isBehind = true;
      else if (isRefusal(error)) this.#hooks.onRefused(message, error);
      else throw error;
    }
  }

  #note(error) {
    if (Boolean(error) === Boolean(this.lastError)) return;
    this.lastError = error;
    this.#hooks.onState();
  }

  #end(error) {
    this.#isRunning = false;
    this.lastError = error;
    this.#hooks.onEnd(error);
  }
}

/** Whether the error code means that the server will never accept this message. */
const isRefusal = ({ code }) => code === "limit-exceeded" || code === "invalid";

/** Whether a retry may help: no response came, or the server is temporarily unable to answer. */
export function isPassing({ code, details }) {
  const status = details?.status ?? 0;
  return code === "outcome-unknown" || code === "unreached" || status === 408 || (status >= 500 && status !== 501);
}
