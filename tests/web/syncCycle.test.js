import assert from "node:assert/strict";
import { test } from "node:test";

import { NEVER, OPEN } from "../../src/stratalog/web/client/pushDecision.js";
import { Local } from "../../src/stratalog/web/client/local.js";
import { SyncCycle } from "../../src/stratalog/web/client/syncCycle.js";
import { StratalogError } from "../../src/stratalog/web/client/errors.js";
import { Replica } from "../../src/stratalog/web/client/replica.js";
import { encode } from "../../src/stratalog/web/client/values.js";

// The declarations of stratalog.js export a type `Client`, but not the class.
const { Client } = /** @type {any} */ (await import("../../src/stratalog/web/client/stratalog.js"));

/** A database that accepts every write until `fails` is set. */
class Database {
  fails = false;

  async write(change) {
    if (this.fails) throw new StratalogError("storage-full", "the browser could not keep it");
    const store = { put() {}, delete() {} };
    change({ tabLeases: store, items: store, pending: store, confirmed: store, failures: store });
  }
}

Object.assign(globalThis, { IDBKeyRange: { bound: (lower, upper) => [lower, upper] } });

const cookie = (version, origin = "here") => ({ order: version, origin, version, hash: "", group: "g", last: {} });
const pulled = (version, more = {}) => ({
  cookie: cookie(version),
  last: {},
  patch: [],
  rejected: [],
  lost: {},
  ...more,
});

function newLocal(database, known = null) {
  return new Local(database, { tabLease: "t", sequence: 0, cookie: known, client: "me", group: "g", next: 1 });
}

/** A sync cycle with a server that gives `answers`. `asked` lists the requests to the server. */
function newCycle(local, answers) {
  const asked = [];
  const settle = async (change) => {
    await change(local).durable;
  };
  const request = async (what, question) => {
    asked.push(what);
    return answers[what](question);
  };
  return { asked, cycle: new SyncCycle({ local, settle, note() {} }, { request }) };
}

/** Return a client at version 1 that has sent a mutation and got no answer, and the client's cookie. */
async function withOneSent() {
  const asked = cookie(1);
  const local = newLocal(new Database(), asked);
  const { waiting, durable } = local.add("put", { key: "k", value: 1 });
  await durable;
  await local.noteSending([waiting]);
  return { local, asked };
}

test("after a refused push the client still pulls", async () => {
  const local = newLocal(new Database());
  await local.add("put", { key: "mine", value: 1 }).durable;
  let version = 0;
  const { asked, cycle } = newCycle(local, {
    pull: () => pulled(++version, { patch: [{ op: "clear" }, { op: "put", key: "theirs", value: version }] }),
    push: () => {
      throw new StratalogError("forbidden", "the token may only read");
    },
  });
  await assert.rejects(cycle.run(), { code: "forbidden" });
  assert.deepEqual(asked, ["pull", "push", "pull"]);
  assert.equal(local.state.value("theirs"), 2);
});

test("a committed mutation counts as applied only if the pull lists all rejections since the last pull", async () => {
  for (const [version, status] of [
    [1001, "applied"],
    [1002, "unknown"],
  ]) {
    const { local, asked } = await withOneSent();
    const { settled } = local.apply(asked, pulled(version, { last: { me: 1 } }));
    assert.deepEqual(
      settled.map((mutation) => mutation.status),
      [status],
    );
  }
});

test("at a copy that does not know the client, a sent mutation is unknown and the id changes", async () => {
  const { local, asked } = await withOneSent();
  const answer = pulled(7, { cookie: cookie(7, "elsewhere"), patch: [{ op: "clear" }] });
  const { settled } = local.apply(asked, answer);
  assert.deepEqual(
    settled.map((mutation) => mutation.status),
    ["unknown"],
  );
  assert.notEqual(local.client, "me");
  assert.deepEqual(local.pending, []);
});

test("a mutation confirmed just before another document takes the name is not called applied", async () => {
  for (const [answer, status] of [
    ["applied", "unknown"],
    ["seen", "unknown"],
    ["rejected", "rejected"],
  ]) {
    const { local, asked } = await withOneSent();
    local.pending[0].answer = answer;
    const elsewhere = pulled(7, { cookie: cookie(7, "elsewhere"), patch: [{ op: "clear" }] });
    const { settled } = local.apply(asked, elsewhere);
    assert.deepEqual(
      settled.map((mutation) => mutation.status),
      [status],
    );
  }
});

test("a client that cannot write its store pushes nothing more, however often it tries", async () => {
  const database = new Database();
  const local = newLocal(database, cookie(1));
  await local.add("put", { key: "k", value: 1 }).durable;
  const { asked, cycle } = newCycle(local, {
    pull: () => pulled(1),
    push: () => ({ outcomes: [{ client: "me", id: 1, status: "applied" }], queued: false }),
  });
  await cycle.run().catch(() => {});
  const before = asked.length;
  assert.deepEqual(asked, ["pull", "push", "pull"]);
  await local.add("put", { key: "k", value: 2 }).durable;
  database.fails = true;
  for (let attempt = 0; attempt < 2; attempt++) {
    await assert.rejects(cycle.run(), { code: "storage-full" });
  }
  assert.ok(!asked.slice(before).includes("push"));
});

test("a client whose token has expired keeps its id, so that it notices a loss of confirmed mutations", async () => {
  const local = newLocal(new Database(), cookie(1));
  const { cycle } = newCycle(local, {
    pull: () => {
      throw new StratalogError("forbidden", "the token has expired");
    },
  });
  await assert.rejects(cycle.run(), { code: "forbidden" });
  assert.equal(local.client, "me");
});

test("a push fits the time that a server gives a slow network", async () => {
  for (const [number, value] of /** @type {[number, any][]} */ ([
    [10, "x".repeat(50_000)],
    [100, "漢".repeat(2000)],
    [1000, "x".repeat(230)],
    [300, new Uint8Array(600)],
  ])) {
    const local = newLocal(new Database(), cookie(1));
    for (let count = 0; count < number; count += 1) await local.add("put", { key: "k", value }).durable;
    const sizes = [];
    const { cycle } = newCycle(local, {
      pull: () => pulled(2, { last: { me: 0 } }),
      push: (question) => {
        sizes.push(new TextEncoder().encode(encode(question)).length);
        const { client, mutations } = { client: local.client, ...question };
        return { outcomes: mutations.map(({ id }) => ({ client, id, status: "applied" })) };
      },
    });
    await cycle.run();
    // A server allows 60 s, and a second for each 64 KiB. A network with 4 KiB a second leaves a fifth of the time.
    for (const size of sizes) assert.ok(size / 4096 <= 0.8 * (60 + size / 65_536), `${size} bytes`);
    assert.ok(sizes.length > 1);
  }
});

test("a closed client refuses mutations and sync cycles, and changes nothing", async () => {
  Object.assign(globalThis, { removeEventListener() {} });
  const database = Object.assign(new Database(), { close() {} });
  const local = newLocal(database, cookie(1));
  const client = new Client(local, { database, mutators: undefined, http: {}, release() {} });
  client.close();
  await assert.rejects(client.mutate("put", { key: "k", value: 1 }), { code: "closed" });
  await assert.rejects(client.sync(), { code: "closed" });
  assert.throws(() => client.start(), { code: "closed" });
  assert.equal(client.has("k"), false);
});

test("a client pulls as soon as its page is shown again", async () => {
  let pulls = 0;
  globalThis.WebSocket = /** @type {any} */ (class {
    close() {}
  });
  const page = Object.assign(new EventTarget(), { hidden: true });
  Object.assign(globalThis, { document: page, addEventListener() {}, removeEventListener() {} });
  const database = Object.assign(new Database(), { close() {}, tabLeases: async () => [] });
  const request = async () => {
    pulls += 1;
    return pulled(1);
  };
  const http = { request, retry() {}, token: () => "", live() {} };
  const client = new Client(newLocal(database, cookie(1)), { database, mutators: undefined, http, release() {} });
  const show = async () => {
    page.dispatchEvent(new Event("visibilitychange"));
    await new Promise((resolve) => setImmediate(resolve));
    return pulls;
  };
  client.start();
  const started = await show();
  assert.equal(await show(), started);
  page.hidden = false;
  assert.ok((await show()) > started);
  client.close();
  const closed = pulls;
  assert.equal(await show(), closed);
  Reflect.deleteProperty(globalThis, "document");
});

test("a mutation beyond the limit of pending mutations is refused and not shown", async () => {
  const local = newLocal(new Database(), cookie(1));
  const replica = new Replica(local);
  for (let count = 0; count < 10_000; count += 1) local.add("put", { key: "k", value: 1 });
  await assert.rejects(replica.mutate("put", { key: "other", value: 1 }), { code: "limit-exceeded" });
  assert.equal(replica.has("other"), false);
});

test("a mutation is shown until the browser fails to store it, and the next one is refused immediately", async () => {
  const database = new Database();
  const local = newLocal(database, cookie(1));
  const replica = new Replica(local);
  await replica.mutate("put", { key: "stored", value: 1 });
  database.fails = true;
  const seen = [];
  replica.subscribe((keys) => seen.push(...keys));
  const change = replica.mutate("put", { key: "k", value: 1 });
  assert.equal(replica.get("k"), 1);
  await assert.rejects(change, { code: "storage-full" });
  await assert.rejects(replica.mutate("put", { key: "other", value: 1 }), { code: "storage-full" });
  assert.deepEqual(replica.keys(), ["stored"]);
  assert.deepEqual(
    replica.pending().map(({ args }) => args.key),
    ["stored"],
  );
  assert.deepEqual(seen, ["k", "k"]);
});

test("a mutation is undone once, unless its undo was itself undone or rejected", async () => {
  const replica = new Replica(newLocal(new Database(), cookie(1)));
  const counted = await replica.mutate("inc", { key: "k", by: 5 });
  const undo = replica.undo(counted);
  await assert.rejects(replica.undo(counted), { name: "Rejected", reason: "the mutation is already undone" });
  assert.equal(replica.get("k"), 0);
  const [undone] = await undo;
  await replica.undo(undone);
  assert.equal(replica.get("k"), 5);
  const [again] = await replica.undo(counted);
  assert.deepEqual([replica.get("k"), counted.isUndone], [0, true]);
  again.end("rejected", "the server refused it");
  assert.equal(counted.isUndone, false);
});

test("a client leaves another principal's group if the error names it, and keeps its unsent mutations", async () => {
  for (const [value, sent] of [
    ["g", NEVER],
    ["g", OPEN],
    [undefined, NEVER],
  ]) {
    const local = newLocal(new Database(), cookie(1));
    const { waiting: former, durable } = local.add("put", { key: "former", value: 1 });
    await durable;
    if (sent === OPEN) await local.noteSending([former]);
    await local.add("put", { key: "k", value: 1 }).durable;
    const { asked, cycle } = newCycle(local, {
      pull: () => {
        if (local.group === "g") throw new StratalogError("forbidden", "another principal's", { value });
        return pulled(2, { last: { [local.client]: 2 } });
      },
      push: () => ({ outcomes: local.pending.map(({ id }) => ({ client: local.client, id, status: "applied" })) }),
    });
    await assert.rejects(cycle.run(), { code: "forbidden" });
    assert.deepEqual(asked, ["pull"]);
    assert.equal(local.group === "g", value === undefined);
    assert.equal(local.pending.length, sent === OPEN ? 1 : 2);
    assert.deepEqual(
      local.failures.map(({ args, status }) => [args.key, status]),
      sent === OPEN ? [["former", "unknown"]] : [],
    );
    if (value === undefined) continue;
    await cycle.run().catch(() => {});
    assert.ok(asked.includes("push"));
  }
});
