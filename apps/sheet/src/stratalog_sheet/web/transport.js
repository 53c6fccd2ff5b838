// Transport: what carries the engine's messages to the sheet's log and back. A message that changes something is an
// append that expects the revision it was made at; where others were quicker, what they wrote is handed to the engine
// first, which rebases the message and gives it again. One request is under way at a time, so order is never in doubt.

import { StratalogError } from "/web/client/errors.js";
import { Alarm, pauseMs } from "/web/client/backoff.js";

const BACKOFF = { firstMs: 250, limitMs: 15_000 };
const IDLE_MS = 30_000;
/** The server's word for a version that its history does not have, or not with that hash. */
export const LOST = "version-lost";
const PRESENCE = new Set(["CLIENT_JOINED", "CLIENT_MOVED", "CLIENT_LEFT"]);

export class Transport {
  /** The version of the newest entry that the engine was given, and the hash of the history up to it. */
  version;
  hash;
  /** Why the server is not reached; null while it is. */
  lastError = null;
  #log;
  #hooks;
  #alarm = new Alarm();
  #callbacks = new Map();
  #outgoing = null;
  #isBehind = true;
  #isRunning = false;
  #loop = Promise.resolve();
  #failures = 0;

  /**
   * `log.append(message, version, hash)` answers the entry it became; `log.read(after, hash)` a page of the entries
   * after a version.
   * `hooks`: `onEntry(entry)` before the engine sees it; `onState()`; `onRefused(message, error)` for a message that no
   * further attempt helps; `onEnd(error)`; `onReload()` where the server says so; `onLost()` where it went back to an
   * older history; `onPresence(message)`; and `give(entry, emit)`, which hands the engine the message of an entry.
   */
  constructor({ version, hash }, log, hooks) {
    this.version = version;
    this.hash = hash;
    this.#log = log;
    this.#hooks = hooks;
  }

  // What the engine calls.

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

  // What the page calls.

  /** Hand the engine a message that is no entry, as presence is. */
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

  /** Say nothing more to the server; what is under way is let go of, and found out about later. */
  stop() {
    this.#isRunning = false;
    this.lastError = null;
    this.#alarm.ring();
    return this.#loop;
  }

  /** The server knows of this version; of some other where none is said. */
  poke(version = Infinity) {
    // An older one may be late, or say that the server went back.
    if (version === this.version) return;
    this.#isBehind = true;
    this.#failures = 0;
    this.#alarm.ring();
  }

  /** Give the engine entries that were read already. */
  take(entries) {
    for (const entry of entries) this.#deliver(entry);
  }

  /** Forget a message that the engine has taken back. */
  withdraw() {
    this.#outgoing = null;
  }

  /** Give the engine an entry that is the next one; earlier ones are known already. */
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
    if (this.#isBehind) return this.#read();
    if (this.#outgoing) return this.#append(this.#outgoing);
    await this.#alarm.wait(IDLE_MS);
    // Nothing rang: perhaps a poke was lost.
    this.#isBehind ||= !this.#outgoing;
  }

  async #read() {
    this.#isBehind = false;
    try {
      const page = await this.#log.read(this.version, this.hash);
      if (page.reload || page.entries.some(({ type }) => type === "restored")) return this.#hooks.onReload();
      this.take(page.entries);
      this.#isBehind ||= this.version < page.version;
    } catch (error) {
      if (error.code === LOST) return this.#hooks.onLost();
      this.#isBehind = true;
      throw error;
    }
  }

  async #append(message) {
    try {
      const entry = await this.#log.append(message, this.version, this.hash);
      if (entry.version === this.version + 1) this.#deliver(entry);
      // It was there already, before what this model began with.
      else if (entry.version <= this.version) this.#hooks.onRefused(message, null);
      else this.#isBehind = true;
    } catch (error) {
      if (error.code === LOST) this.#hooks.onLost();
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

/** Whether it is this message that the server will not have. */
const isRefusal = ({ code }) => code === "limit-exceeded" || code === "invalid";

/** Whether trying again may help, of itself: nobody answered, or the server says that it cannot now. */
function isPassing({ code, details }) {
  const status = details?.status ?? 0;
  return code === "outcome-unknown" || status === 429 || status === 408 || (status >= 500 && status !== 501);
}
