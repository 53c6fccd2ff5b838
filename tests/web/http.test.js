import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Http } from "../../src/stratalog/web/client/http.js";

const DOCUMENT = "/v1/organisations/acme/documents/plan%2F2";
const { fetch } = globalThis;
afterEach(() => {
  globalThis.fetch = fetch;
});

/** Return the address of live connections after the server has answered with this header. */
async function heeded(origin, header, status = 200) {
  const headers = header === undefined ? {} : { "Stratalog-Live": header };
  globalThis.fetch = async () => new Response("{}", { status, headers });
  const http = new Http(origin + DOCUMENT);
  await http.request("pull", {}).catch(() => {});
  return http.live();
}

test("by default a client listens below the path of its document", async () => {
  const own = { url: `wss://api.example${DOCUMENT}/live` };
  assert.deepEqual(await heeded("https://api.example"), own);
  assert.deepEqual(new Http(`https://api.example${DOCUMENT}`).live(), own);
});

test("a client listens at the address in the header, and names its document there", async () => {
  const live = { url: "wss://sockets.example/live", document: "acme/plan%2F2" };
  assert.deepEqual(await heeded("https://api.example", live.url), live);
});

test("the token is not sent unencrypted, unless the requests are unencrypted too", async () => {
  const clear = "ws://sockets.example/live";
  assert.equal((await heeded("https://api.example", clear)).url, `wss://api.example${DOCUMENT}/live`);
  assert.equal((await heeded("http://127.0.0.1:8000", clear)).url, clear);
});

test("a header without the address of a WebSocket is ignored, and so is a header in an error's answer", async () => {
  for (const header of ["", "https://sockets.example/live", "javascript:alert(1)", "x wss://sockets.example"]) {
    assert.equal((await heeded("https://api.example", header)).url, `wss://api.example${DOCUMENT}/live`);
  }
  assert.equal((await heeded("https://api.example", "wss://a.example", 500)).document, undefined);
});

test("an error's answer without a code, as from a proxy, has the code of its status", async () => {
  for (const { status, code } of [
    { status: 413, code: "limit-exceeded" },
    { status: 404, code: "not-found" },
    { status: 400, code: "invalid" },
    { status: 408, code: "outcome-unknown" },
    { status: 502, code: "outcome-unknown" },
  ]) {
    globalThis.fetch = async () => new Response("<p>proxy</p>", { status });
    const error = await new Http("https://api.example" + DOCUMENT).request("push", {}).catch((thrown) => thrown);
    assert.deepEqual([error.code, error.message], [code, `the server answered ${status}`]);
  }
});

test("a token that no header can contain is invalid, and white space around a token is not sent", async () => {
  const sent = [];
  const answer = async (url, { headers }) => {
    sent.push(headers.Authorization);
    return new Response("{}");
  };
  globalThis.fetch = /** @type {any} */ (answer);
  const options = (token) => /** @type {any} */ ({ token: () => token });
  const ask = (token) => new Http("https://api.example" + DOCUMENT, options(token)).request("pull", {});
  for (const token of ["sécret", "“secret”", "sec\nret"]) {
    await assert.rejects(ask(token), { code: "invalid", message: "a token must be printable ASCII text" });
  }
  for (const token of ["secret\n", null, ""]) await ask(token);
  assert.deepEqual(sent, ["Bearer secret", undefined, undefined]);
});

test("an error has the value that the server names", async () => {
  const body = JSON.stringify({ code: "forbidden", message: "the group belongs to another principal", value: "g" });
  globalThis.fetch = async () => new Response(body, { status: 403 });
  const { details } = await new Http("https://api.example" + DOCUMENT).request("pull", {}).catch((error) => error);
  assert.equal(details.value, "g");
});
