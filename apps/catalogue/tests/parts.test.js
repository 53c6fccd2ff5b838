import assert from "node:assert/strict";
import { register } from "node:module";
import { afterEach, test } from "node:test";

const client = new URL("../../../src/stratalog/web/client/", import.meta.url).href;
const hook = `export const resolve = (name, context, next) =>
  next(name.replace(/^\\/web\\/client\\//, ${JSON.stringify(client)}), context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
const { fetchJson, moment } = await import("../src/stratalog_catalogue/web/parts.js");

const { fetch } = globalThis;
Object.assign(globalThis, {
  location: { hash: "" },
  sessionStorage: { getItem: () => null, setItem: () => {} },
});
afterEach(() => {
  globalThis.fetch = fetch;
});

const turns = async () => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
};

/** Return what `fetchJson` returns, or the message of its error, if the server answers with this text. */
function fetched(text, status = 200) {
  globalThis.fetch = async () => new Response(text, { status });
  return fetchJson("/v1", {}).catch((error) => `${error.name}: ${error.message}`);
}

test("an answer in JSON is returned", async () => {
  assert.deepEqual(await fetched('{"works": []}'), { works: [] });
  assert.equal(await fetched("null"), null);
});

test("an error in JSON is thrown with the message of the server", async () => {
  assert.equal(await fetched('{"message": "source not found"}', 404), "Error: source not found");
  assert.equal(await fetched('{"error": {"message": "too large"}}', 422), "Error: too large");
  assert.equal(await fetched("{}", 500), "Error: The server answered 500.");
});

test("an error page of a gateway is thrown with its status", async () => {
  assert.equal(await fetched("<html>Bad Gateway</html>", 502), "Error: The server answered 502.");
  assert.equal(await fetched("", 503), "Error: The server answered 503.");
  assert.equal(await fetched("null", 504), "Error: The server answered 504.");
});

test("a page in place of JSON is thrown with its status", async () => {
  assert.equal(await fetched("<html>Sign in</html>"), "Error: The server answered 200.");
});

test("a request ends after half a minute of silence, and not before", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let send;
  const answer = async (url, { signal }) =>
    new Response(
      new ReadableStream({
        start(body) {
          send = (text) => body.enqueue(new TextEncoder().encode(text));
          signal.addEventListener("abort", () => body.error(signal.reason));
        },
      }),
    );
  globalThis.fetch = /** @type {any} */ (answer);
  const asked = fetchJson("/v1", {}).catch((error) => [error.message, error.cause.name]);
  for (const part of ['{"works"', ": []", "}"]) {
    await turns();
    t.mock.timers.tick(29_000);
    send(part);
  }
  await turns();
  t.mock.timers.tick(30_000);
  assert.deepEqual(await asked, ["The server cannot be reached.", "TimeoutError"]);
});

test("a time outside the years 1 to 9999 is shown in milliseconds", () => {
  for (const ms of [8.7e15, 253_402_300_800_000, -62_135_596_800_001]) assert.equal(moment(ms), `${ms} ms`);
  assert.match(moment(253_402_214_400_000), /^31 Dec 9999/);
  assert.match(moment(-62_135_510_400_000), /^\d+ Jan 1,/);
  assert.equal(moment(null), "");
});
