// The local-first client of a document in a browser. It works offline, loses nothing that `mutate` resolved, and needs
// no build step: import it as it is. docs/guides/browser-client.md tells how to use it.
//
// stratalog      `connect`, the client and the loop that keeps it in step
// replica        what is shown and changed, subscriptions, handles
// local          what is kept: canonical state, cookie, pending mutations      confirmed   those that were confirmed
// database       IndexedDB, and a lease for each tab
// syncCycle      one push and one pull      pushDecision   what an answer to a push means
// undo           what takes one mutation back      backoff   how long to wait
// http live      the way to the server, and its pokes
// mutators       the built-in ones      draft   what a mutator reads and writes      values errors   the ground floor

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
 * A client of the document at `url`, `http://host/v1/organisations/{organisation}/documents/{document}`, which keeps
 * itself in step. The server need not be reachable. `name` tells apart what is kept for several people of one browser.
 */
export async function connect(url, options = {}) {
  const { token, mutators = BUILT_IN_MUTATORS, create = false, name = "", start = true } = options;
  const address = new URL(url, globalThis.location?.href).href;
  if (!DOCUMENT.test(address)) throw new StratalogError("invalid", "this is no document's URL", { value: url });
  const database = await Database.open(`stratalog ${address} ${name}`);
  const { tabLease, release } = await database.takeTabLease();
  const client = new Client(await Local.open(database, tabLease), {
    database,
    release,
    tabLease,
    mutators,
    http: new Http(address, { token, create }),
    url: address,
  });
  if (start) client.start();
  return client;
}

export class Client extends Replica {
  /** Why the last sync cycle failed; null where it did not. @type {any} */
  lastError = null;
  #parts;
  #syncCycle;
  #live;
  #alarm = new Alarm();
  #loop = Promise.resolve();
  #running = false;
  #closed = false;
  #failures = 0;
  /** How often in a row something of another tab could not be sent. */
  #adoptFailures = 0;
  #hurry = () => this.hurry();

  constructor(local, parts) {
    super(local, parts.mutators);
    this.#parts = parts;
    this.#syncCycle = new SyncCycle(this, parts.http);
    const hear = { onPoke: () => this.#wake(), onPresence: () => this.note() };
    this.#live = new Live(() => parts.http.live(), () => parts.http.token(), hear);
  }

  /** The version that the canonical state stands at; 0 before the first pull. */
  get version() {
    return this.local.cookie?.version ?? 0;
  }

  /** Whether it keeps itself in step: see `start` and `stop`. */
  get running() {
    return this.#running;
  }

  /** The present client id, as the history names it. It changes where the server refuses it. */
  get id() {
    return this.local.client;
  }

  /** What was rejected, lost, and what nobody can say of: the newest thousand, oldest first. */
  get failures() {
    return [...this.local.failures];
  }

  /** Forget a failure, once somebody has seen it. */
  async dismiss(failure) {
    const done = this.local.dropFailure(failure.sequence);
    this.note();
    await done;
  }

  /** What the other connections show of themselves, by id. */
  get others() {
    return Object.fromEntries(Object.entries(this.#live.present).filter(([id]) => id !== this.#live.id));
  }

  /** Whom the other connections speak for, by id, as the server knows it: `{id, name}`. */
  get principals() {
    return Object.fromEntries(Object.entries(this.#live.principals).filter(([id]) => id !== this.#live.id));
  }

  /** Let others see this of the client, such as its cursor: up to a KiB; null for nothing. */
  show(state) {
    this.#live.show(state);
  }

  async mutate(name, args = null) {
    const handle = await super.mutate(name, args);
    this.#wake();
    return handle;
  }

  /** Run one sync cycle now: push, then pull. Throws what went wrong. */
  sync() {
    return this.#syncCycle.run();
  }

  /** Keep in step from now on: after each change, at each poke, and now and then. */
  start() {
    if (this.#closed) throw new StratalogError("closed", "the client is closed");
    if (this.#running) return;
    this.#running = true;
    globalThis.addEventListener("online", this.#hurry);
    this.#live.start();
    // A loop that has not noticed the stop goes on; then the new one finds nothing to do.
    this.#loop = this.#loop.then(() => this.#run());
    this.hurry();
  }

  /** Be offline until `start`. What is changed meanwhile waits. */
  stop() {
    this.#running = false;
    globalThis.removeEventListener("online", this.#hurry);
    this.#live.stop();
    this.#alarm.ring();
    this.note();
  }

  /** Try again without further waiting, also with a token that was refused. */
  hurry() {
    this.#failures = 0;
    this.#parts.http.retry();
    this.#live.hurry();
    this.#alarm.ring();
  }

  /** Stop, and leave what is kept to the next tab. A sync cycle that does not end soon is left to itself. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.stop();
    this.#parts.database.close();
    this.#parts.release();
  }

  // While the server is away, the back-off has to end first.
  #wake() {
    if (!this.#failures) this.#alarm.ring();
  }

  async #run() {
    while (this.#running) {
      await this.#alarm.wait(await this.#attempt());
    }
  }

  // Run one sync cycle. Returns how long to wait after it.
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

  // Send what tabs that ended left behind: each as the client it was, so that nothing is applied twice. Returns whether
  // something stays that could not be sent.
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
        // It stays where it is, and is tried again after the next sync cycle.
        stays = true;
      } finally {
        release();
      }
    }
    return stays;
  }
}
