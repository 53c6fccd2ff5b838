import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { fetchBody } from "../../src/stratalog/web/client/transfer.js";

const { fetch } = globalThis;
afterEach(() => {
  globalThis.fetch = fetch;
});

const turns = async () => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
};

/** Replace `fetch`. The response begins after `firstMs`, and each of its parts comes after `partMs`. */
function network({ firstMs = 0, partMs = 0, parts = 1 }) {
  const after = (ms, signal) =>
    new Promise((resolve, reject) => {
      setTimeout(resolve, ms);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  const answer = async (url, { signal }) => {
    await after(firstMs, signal);
    let left = parts;
    const pull = async (body) => {
      await after(partMs, signal).catch((error) => body.error(error));
      if (!signal.aborted) body.enqueue(new TextEncoder().encode("é"));
      if (!signal.aborted && --left === 0) body.close();
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { headers: { "Content-Type": "a/b" } });
  };
  globalThis.fetch = /** @type {any} */ (answer);
}

/** Make a request while the time passes, and return its outcome. */
async function outcome(timers, options) {
  const asked = fetchBody("https://a.example", options).then(
    async ({ body }) => [await body.text(), body.type],
    (error) => error.name,
  );
  let result;
  asked.then((value) => (result = value));
  for (let second = 0; second < 600 && result === undefined; second += 1) {
    await turns();
    timers.tick(1000);
  }
  return asked;
}

test("a response may take as long as its parts keep coming", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  network({ firstMs: 25_000, partMs: 25_000, parts: 4 });
  assert.deepEqual(await outcome(t.mock.timers), ["éééé", "a/b"]);
});

test("a request ends after half a minute of silence", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const slow of [{ firstMs: 31_000 }, { partMs: 31_000 }]) {
    network(slow);
    assert.equal(await outcome(t.mock.timers), "TimeoutError");
  }
});

test("a large body has the time that a slow network needs to send it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  network({ firstMs: 90_000 });
  for (const body of ["x".repeat(256 * 1024), "漢".repeat(86 * 1024)]) {
    assert.deepEqual(await outcome(t.mock.timers, { body }), ["é", "a/b"]);
  }
  network({ firstMs: 400_000 });
  assert.equal(await outcome(t.mock.timers, { body: "x".repeat(16 * 1024 * 1024) }), "TimeoutError");
});
