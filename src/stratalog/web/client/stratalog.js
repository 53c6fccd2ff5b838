// The local-first client of a document in a browser. This client works offline. After `mutate` has resolved, the
// browser has stored the mutation durably. The client needs no build step: import this file as it is.
// docs/guides/browser-client.md explains its use.
//
// stratalog      `connect`, the client and its background sync loop
// replica        reads, mutations, subscriptions and handles
// local          the stored canonical state, cookie, pending mutations and failures
// confirmed      the newest confirmed mutations
// database       IndexedDB, and a lease for each tab
// syncCycle      one cycle of pushes and pulls
// pushDecision   the interpretation of an answer to a push
// undo           the inverse of one mutation
// backoff        wait times
// http           requests to the server
// live           pokes and presence over a WebSocket
// transfer       a request and its time limits
// mutators       the built-in mutators
// draft          a mutator's reads and writes
// values         values and their canonical form
// errors         errors and their codes

import { Database } from "./database.js";
import { StratalogError } from "./errors.js";
import { Http } from "./http.js";
import { Live } from "./live.js";
import { Local } from "./local.js";
import { BUILT_IN_MUTATORS } from "./mutators.js";
import { Alarm, pauseMs } from "./backoff.js";
import { Replica } from "./replica.js";
import { SyncCycle } from "./syncCycle.js";

export { Rejected, StratalogError } from "./errors.js";
export { BUILT_IN_MUTATORS } from "./mutators.js";

const PULL_MS = 60_000;
const PULL_MS_WITHOUT_POKES = 5_000;
const BACKOFF = { firstMs: 100, limitMs: 30_000 };
const DOCUMENT = /\/organisations\/[^/?#]+\/documents\/[^/?#]+$/;

/**
 * Return a client of the document at `url`, `http://host/v1/organisations/{organisation}/documents/{document}`. Unless
 * `start` is false, the client synchronises in the background. The server need not be reachable. `name` separates the
 * stored data of several people who use one browser.
 */
export async function connect(url, options = {}) {
  const { token, mutators = BUILT_IN_MUTATORS, create = false, name = "", start = true } = options;
  const address = new URL(url, globalThis.location?.href).href;
  if (!DOCUMENT.test(address)) throw new StratalogError("invalid", "the URL is not a document's URL", { value: url });
  const http = new Http(address, { token, create });
  const client = await Database.leased(
    `stratalog ${address} ${name}`,
    async (lease) => new Client(await Local.open(lease.database, lease.tabLease), { ...lease, mutators, http }),
  );
  if (start) client.start();
  return client;
}

export class Client extends Replica {
  /** The error of the last sync cycle in the background, or null if the cycle succeeded. @type {any} */
  lastError = null;
  #parts;
  #syncCycle;
  #live;
  #alarm = new Alarm();
  #loop = Promise.resolve();
  #running = false;
  #closed = false;
  #failures = 0;
  /** The number of consecutive cycles that could not send all mutations of the ended tabs. */
  #adoptFailures = 0;
  #hurry = () => this.hurry();
  // While a page is hidden, the machine may sleep for hours, and its timers with it.
  #seen = () => globalThis.document?.hidden || this.hurry();

  constructor(local, parts) {
    super(local, parts.mutators);
    this.#parts = parts;
    this.#syncCycle = new SyncCycle(this, parts.http);
    const hear = { onPoke: () => this.#wake(), onPresence: () => this.note() };
    this.#live = new Live(() => parts.http.live(), () => parts.http.token(), hear);
  }

  /** The version of the canonical state, or 0 before the first pull. */
  get version() {
    return this.local.cookie?.version ?? 0;
  }

  /** Whether the client synchronises in the background: see `start` and `stop`. */
  get running() {
    return this.#running;
  }

  /** The client id in the document's history. The id changes when the client must continue under another id. */
  get id() {
    return this.local.client;
  }

  /** The newest thousand mutations that were rejected, lost or of unknown outcome, oldest first. */
  get failures() {
    return [...this.local.failures];
  }

  /** Remove a failure from `failures`, for example after the user has seen it. */
  async dismiss(failure) {
    const done = this.local.dropFailure(failure.sequence);
    this.note();
    await done;
  }

  /** The presence states of the other connections, by connection id. */
  get others() {
    return Object.fromEntries(Object.entries(this.#live.present).filter(([id]) => id !== this.#live.id));
  }

  /** The principals of the other connections as the server reports them, `{id, name}`, by connection id. */
  get principals() {
    return Object.fromEntries(Object.entries(this.#live.principals).filter(([id]) => id !== this.#live.id));
  }

  /**
   * Set this client's presence state, for example its cursor. `null` removes the state. Throws `limit-exceeded` for a
   * state over 1 KiB, and `invalid` for a whole number beyond 64 bits. A state that the server refuses is reported as
   * an uncaught error, and is not shown.
   */
  show(state) {
    this.#live.show(state);
  }

  async mutate(name, args = null) {
    this.#checkOpen();
    const handle = await super.mutate(name, args);
    this.#wake();
    return handle;
  }

  async undo(handle) {
    this.#checkOpen();
    try {
      return await super.undo(handle);
    } finally {
      this.#wake();
    }
  }

  /** Run one sync cycle now: push, then pull. Throws the cycle's error. */
  async sync() {
    this.#checkOpen();
    return this.#syncCycle.run();
  }

  /** Synchronise in the background from now on: after each mutation, at each poke, and at regular intervals. */
  start() {
    this.#checkOpen();
    if (this.#running) return;
    this.#running = true;
    globalThis.addEventListener("online", this.#hurry);
    globalThis.document?.addEventListener("visibilitychange", this.#seen);
    this.#live.start();
    // If the old loop has not noticed `stop`, it continues. The new loop starts after the old loop has ended.
    this.#loop = this.#loop.then(() => this.#run());
    this.hurry();
  }

  /** Stop synchronising until `start`. New mutations stay pending. */
  stop() {
    this.#running = false;
    globalThis.removeEventListener("online", this.#hurry);
    globalThis.document?.removeEventListener("visibilitychange", this.#seen);
    this.#live.stop();
    this.#alarm.ring();
    this.note();
  }

  /** Try again now, without the rest of the back-off, and even with a token that the server refused. */
  hurry() {
    this.#failures = 0;
    this.#parts.http.retry();
    this.#live.hurry();
    this.#alarm.ring();
  }

  /**
   * Stop synchronising, and release the tab's lease. The next tab can take over the stored data. Does not wait for a
   * running sync cycle.
   */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.stop();
    this.#parts.database.close();
    this.#parts.release();
  }

  #checkOpen() {
    if (this.#closed) throw new StratalogError("closed", "the client is closed");
  }

  // After a failed cycle, a poke or a mutation does not shorten the back-off.
  #wake() {
    if (!this.#failures) this.#alarm.ring();
  }

  async #run() {
    while (this.#running) {
      await this.#alarm.wait(await this.#attempt());
    }
  }

  // Run one sync cycle. Returns the time to wait before the next cycle, in milliseconds.
  async #attempt() {
    try {
      await this.sync();
      this.#adoptFailures = (await this.#adopt()) ? this.#adoptFailures + 1 : 0;
      this.lastError = null;
      this.#failures = 0;
    } catch (error) {
      this.lastError = error;
      this.#failures += 1;
      this.#alarm.calm();
    }
    this.note();
    if (!this.lastError && this.#adoptFailures) return pauseMs(this.#adoptFailures, BACKOFF);
    if (!this.lastError) return this.#live.id ? PULL_MS : PULL_MS_WITHOUT_POKES;
    return pauseMs(this.#failures, { ...BACKOFF, retryAfter: this.lastError.details?.retryAfter });
  }

  // Send the pending mutations of tabs that have ended. Each mutation keeps the client id of its tab, so the server
  // applies no mutation twice. Returns whether some tab's mutations could not be sent.
  async #adopt() {
    const { database, http, tabLease } = this.#parts;
    const others = (await database.tabLeases()).filter((other) => other.tabLease !== tabLease);
    let stays = false;
    for (const { tabLease: other } of others) {
      const release = await database.hold(other);
      if (!release) continue;
      try {
        const left = new Replica(await Local.open(database, other), {});
        if (left.local.pending.length) await new SyncCycle(left, http).run();
        if (!left.local.pending.length) await this.local.inherit(left.local);
      } catch {
        // The tab's mutations stay stored. The client tries again to send them after its next sync cycle.
        stays = true;
      } finally {
        release();
      }
    }
    return stays;
  }
}
