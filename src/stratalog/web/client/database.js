// The IndexedDB database of one document's clients. Each tab leases a part of the database and holds a Web Lock on that
// part, so two tabs never use the same client id. The browser releases the lock when the tab ends, also after a crash.

import { StratalogError } from "./errors.js";

const FORMAT = 1;
const RELOAD_MS_MAX = 1000;
const STORES = {
  tabLeases: "tabLease",
  items: null,
  pending: ["tabLease", "sequence"],
  confirmed: ["tabLease", "sequence"],
  failures: ["tabLease", "sequence"],
};

export class Database {
  #connection;

  /** Throws `unsupported`, and `unavailable` if the browser lets the page store nothing. */
  static async open(name) {
    try {
      if (!globalThis.indexedDB || !globalThis.navigator?.locks) {
        throw new StratalogError(
          "unsupported",
          "a page that stores data needs IndexedDB and Web Locks: use https or localhost",
        );
      }
      const request = indexedDB.open(name, FORMAT);
      request.onupgradeneeded = () => {
        for (const [store, keyPath] of Object.entries(STORES)) request.result.createObjectStore(store, { keyPath });
      };
      const connection = await answered(request);
      connection.onversionchange = () => connection.close();
      return new Database(name, connection);
    } catch (error) {
      throw storageError(error);
    }
  }

  /**
   * Open a database, take a lease, and return the result of `use({ database, tabLease, release })`. If this fails,
   * close the database and release the lease. Otherwise this tab would keep the lease until its end, and nothing would
   * show or send the pending mutations of the lease.
   */
  static async leased(name, use) {
    const database = await Database.open(name);
    let release = () => {};
    try {
      const lease = await database.takeTabLease();
      ({ release } = lease);
      return await use({ database, ...lease });
    } catch (error) {
      database.close();
      release();
      throw error;
    }
  }

  constructor(name, connection) {
    this.name = name;
    this.#connection = connection;
  }

  /** Call `change` at once with the stores of a new transaction. Transactions take effect in the order of the calls. */
  write(change) {
    const transaction = this.#begin("readwrite", { durability: "strict" });
    /** @type {Promise<void>} */
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(storageError(transaction.error));
    });
    change(Object.fromEntries(Object.keys(STORES).map((store) => [store, transaction.objectStore(store)])));
    // Commit before the requests have completed: if the page ends now, the browser has the whole transaction.
    transaction.commit();
    return done;
  }

  /**
   * Run requests in one transaction and return their results. `questions` returns the requests. The argument of
   * `questions` is a function that returns a store by name.
   */
  async read(questions) {
    const transaction = this.#begin("readonly");
    const requests = questions((store) => transaction.objectStore(store));
    return Promise.all(requests.map(answered));
  }

  async tabLeases() {
    const [rows, pending] = await this.read((store) => [store("tabLeases").getAll(), store("pending").getAllKeys()]);
    const waiting = new Set(pending.map(([tabLease]) => tabLease));
    return rows.map(({ tabLease, used }) => ({ tabLease, used, waits: waiting.has(tabLease) }));
  }

  /**
   * Take a lease that no other tab holds. The method tries this tab's own lease, then leases with pending mutations,
   * then the other leases, the last used first, and then a new lease.
   */
  async takeTabLease() {
    const mine = remembered(this.name);
    const order = ({ tabLease, waits, used }) => (tabLease === mine ? 2 ** 53 : (waits ? 2 ** 50 : 0) + used);
    const leases = (await this.tabLeases()).sort((left, right) => order(right) - order(left));
    const known = leases.map(({ tabLease }) => tabLease);
    for (const tabLease of [...known, crypto.randomUUID()]) {
      // During a reload the old page may still have this tab's lock, so wait a moment for the lock.
      const signal = tabLease === mine && isReload() ? AbortSignal.timeout(RELOAD_MS_MAX) : null;
      const release = await this.hold(tabLease, signal);
      if (release) {
        remember(this.name, tabLease);
        return { tabLease, release };
      }
    }
    throw new StratalogError("unavailable", "this tab could not get a lease on stored data");
  }

  /**
   * Hold a lease and return the function that releases the lease. Returns null if another tab holds the lease. With
   * `signal`, the method waits for the lease, and returns null only after the signal has timed out.
   */
  hold(tabLease, /** @type {AbortSignal | null} */ signal = null) {
    return new Promise((resolve, reject) => {
      const held = (lock) => (lock ? new Promise((release) => resolve(release)) : resolve(null));
      const missed = (error) => (error.name === "TimeoutError" ? resolve(null) : reject(storageError(error)));
      const options = signal ? { signal } : { ifAvailable: true };
      navigator.locks.request(`${this.name} ${tabLease}`, options, held).catch(missed);
    });
  }

  close() {
    this.#connection.close();
  }

  /** @param {IDBTransactionMode} mode @param {IDBTransactionOptions} [options] */
  #begin(mode, options) {
    try {
      return this.#connection.transaction(Object.keys(STORES), mode, options);
    } catch (error) {
      throw storageError(error);
    }
  }
}

/** The range of all keys of one tab lease, in the stores whose keys begin with the lease. */
export const within = (tabLease) => IDBKeyRange.bound([tabLease], [tabLease, []]);

function answered(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(storageError(request.error));
    request.onblocked = () => reject(new StratalogError("unavailable", "another tab has an older program open"));
  });
}

// Return the client's error for an error of the browser's storage. The error of an aborted transaction may be null.
function storageError(error) {
  if (error instanceof StratalogError) return error;
  const reason = String(error);
  switch (error?.name) {
    case "QuotaExceededError":
      return new StratalogError("storage-full", "the browser has no room to store data", { reason });
    case "VersionError":
      return new StratalogError("unsupported", "a newer program has stored data: reload the page", { reason });
    default:
      return new StratalogError("unavailable", "the browser does not let the page store data", { reason });
  }
}

function isReload() {
  const [entry] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
  return entry?.type === "reload";
}

// Return the last lease of this tab. The browser keeps the tab's session storage across a reload, but may refuse every
// access to this storage. So the lease is only a hint.
function remembered(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

function remember(name, tabLease) {
  try {
    sessionStorage.setItem(name, tabLease);
  } catch {
    return;
  }
}
