import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Database } from "../../src/stratalog/web/client/database.js";
import { connect } from "../../src/stratalog/web/client/stratalog.js";

const { indexedDB, navigator } = globalThis;
const ours = Object.getOwnPropertyDescriptor(globalThis, "navigator");
afterEach(() => {
  Object.assign(globalThis, { indexedDB });
  if (ours) Object.defineProperty(globalThis, "navigator", ours);
  else delete globalThis.navigator;
});

/** Replace the browser's storage by one whose requests to open a database end with `end(request)`. */
function browser(open, locks = {}) {
  Object.assign(globalThis, { indexedDB: { open } });
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { ...navigator, locks } });
}

/** A request that ends with an error, or with a result. */
function request(change) {
  const made = { ...change };
  queueMicrotask(() => (made.error ? made.onerror() : made.onsuccess()));
  return made;
}

const named = (name) => new DOMException("the browser's own text", name);

test("an error of the browser's storage has a code", async () => {
  const thrown = () => {
    throw named("SecurityError");
  };
  for (const [open, code] of [
    [thrown, "unavailable"],
    [() => request({ error: named("UnknownError") }), "unavailable"],
    [() => request({ error: named("QuotaExceededError") }), "storage-full"],
    [() => request({ error: named("VersionError") }), "unsupported"],
  ]) {
    browser(open);
    await assert.rejects(Database.open("name"), { name: "StratalogError", code });
  }
  browser(undefined, null);
  await assert.rejects(Database.open("name"), { code: "unsupported", message: /use https or localhost/ });
});

test("a database that the browser has closed, and a refused lock, are unavailable", async () => {
  const connection = {
    transaction() {
      throw named("InvalidStateError");
    },
  };
  const refused = { request: async () => Promise.reject(named("SecurityError")) };
  browser(() => request({ result: connection }), refused);
  const database = await Database.open("name");
  assert.throws(() => database.write(() => {}), { name: "StratalogError", code: "unavailable" });
  await assert.rejects(database.tabLeases(), { code: "unavailable" });
  await assert.rejects(database.hold("lease"), { code: "unavailable" });
});

test("a client that cannot open its data releases its lease and closes its connection", async () => {
  const events = [];
  const empty = () => request({ result: [] });
  const reads = [{ objectStore: () => ({ getAll: empty, getAllKeys: empty }) }];
  const connection = {
    transaction() {
      if (!reads.length) throw named("InvalidStateError");
      return reads.shift();
    },
    close: () => events.push("closed"),
  };
  const locks = { request: async (name, options, held) => held({}).then(() => events.push("released")) };
  browser(() => request({ result: connection }), locks);
  const url = "https://a.example/v1/organisations/acme/documents/plan";
  await assert.rejects(connect(url, { start: false }), { code: "unavailable" });
  await Promise.resolve();
  assert.deepEqual(events, ["closed", "released"]);
});
