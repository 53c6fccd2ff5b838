import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Http } from "../../src/stratalog/web/client/http.js";
import { Live } from "../../src/stratalog/web/client/live.js";

const { fetch, WebSocket } = globalThis;
afterEach(() => Object.assign(globalThis, { fetch, WebSocket }));

/** Replace `WebSocket`, and return a list that receives each socket that the client opens. */
function sockets() {
  const opened = [];
  globalThis.WebSocket = /** @type {any} */ (class {
    /** @type {(event: any) => void} */
    onmessage = () => {};
    static OPEN = 1;
    readyState = 1;
    sent = [];
    constructor(url, protocols) {
      Object.assign(this, { url, protocols });
      opened.push(this);
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    close() {}
    say(message) {
      this.onmessage({ data: JSON.stringify(message) });
    }
  });
  return opened;
}

const turns = async () => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

test("presence comes complete and then as changes, with the principals that the server knows", async () => {
  const opened = sockets();
  const live = new Live(() => ({ url: "ws://a" }), () => "", { onPoke() {}, onPresence() {} });
  live.start();
  await turns();
  const [socket] = opened;
  assert.deepEqual(socket.protocols, ["stratalog.live.2", "stratalog.live.1"]);
  socket.say({ type: "ready", id: "me", version: 1 });
  socket.say({ type: "here", present: { a: 1, b: 2 }, principals: { a: { id: "u-ada", name: "Ada" } } });
  assert.deepEqual(live.present, { a: 1, b: 2 });
  assert.deepEqual(live.principals, { a: { id: "u-ada", name: "Ada" } });
  socket.say({ type: "here-changed", changed: { a: null, c: 3 }, principals: { c: { id: "u-cyd" } } });
  assert.deepEqual(live.present, { b: 2, c: 3 });
  assert.deepEqual(live.principals, { c: { id: "u-cyd", name: "" } });
  socket.say({ type: "something-new" });
  socket.say({ type: "here", present: {} });
  assert.deepEqual([live.present, live.principals], [{}, {}]);
  live.stop();
});

for (const code of [1009, 4400, 4422])
  test(`a presence that the server refuses with ${code} is reported and not shown again, so that pokes continue`, () =>
    refuse(code));

async function refuse(code) {
  const opened = sockets();
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.details.code);
  const pokes = [];
  const onPoke = (version) => pokes.push(version);
  const live = new Live(() => ({ url: "ws://a" }), () => "", { onPoke, onPresence() {} });
  live.start();
  await turns();
  live.show({ number: 1 });
  opened[0].say({ type: "ready", id: "me", version: 1 });
  assert.deepEqual(
    opened[0].sent.map(({ type }) => type),
    ["presence"],
  );
  opened[0].onclose({ code, reason: "refused" });
  await turns();
  live.hurry();
  await turns();
  opened[1].say({ type: "ready", id: "again", version: 2 });
  opened[1].say({ type: "poke", version: 3 });
  assert.deepEqual([opened[1].sent, pokes, reported], [[], [1, 2, 3], [code]]);
  live.show({ name: "Ada" });
  assert.deepEqual(opened[1].sent, [{ type: "presence", state: { name: "Ada" } }]);
  live.stop();
}

test("a presence over 1 KiB, beyond 64 bits or without a JSON form is not sent; the earlier one stays", async () => {
  const opened = sockets();
  const live = new Live(() => ({ url: "ws://a" }), () => "", { onPoke() {}, onPresence() {} });
  live.start();
  await turns();
  const cyclic = {};
  cyclic.self = cyclic;
  live.show("x".repeat(1021));
  assert.throws(() => live.show(cyclic), TypeError);
  for (const state of ["x".repeat(1022), "漢".repeat(341), Array(114).fill(0.5)]) {
    assert.throws(() => live.show(state), { code: "limit-exceeded" });
  }
  opened[0].say({ type: "ready", id: "me", version: 1 });
  for (const number of [2 ** 64, -(2 ** 63), 1e20]) {
    assert.throws(() => live.show({ number }), { code: "invalid" });
  }
  live.show(Array(113).fill(0.5));
  live.show(undefined);
  assert.deepEqual(
    opened[0].sent.map(({ state }) => state),
    ["x".repeat(1021), Array(113).fill(0.5), undefined],
  );
  live.stop();
});

test("an invalid token is sent once, and again after hurry(); another token is sent", async () => {
  const opened = sockets();
  let token = "wrong";
  const live = new Live(() => ({ url: "ws://a" }), () => token, { onPoke() {}, onPresence() {} });
  live.start();
  await turns();
  opened[0].onopen();
  assert.equal(opened[0].sent[0].token, "wrong");
  opened[0].onclose({ code: 4401 });
  for (let pause = 0; pause < 3; pause += 1) {
    await turns();
    live.stop();
    live.start();
  }
  await turns();
  assert.equal(opened.length, 1);
  live.hurry();
  await turns();
  assert.equal(opened.length, 2);
  opened[1].onclose({ code: 4401 });
  await turns();
  live.stop();
  token = "right";
  live.start();
  await turns();
  assert.equal(opened.length, 3);
  live.stop();
});

test("live updates continue after the function for the token or the function for the address has failed", async () => {
  const opened = sockets();
  let failure = "token";
  const token = async () => {
    if (failure === "token") throw new Error("the session has ended");
    return "good";
  };
  const address = () => {
    if (failure === "address") throw new SyntaxError("an insecure WebSocket");
    return { url: "ws://a" };
  };
  const live = new Live(address, token, { onPoke() {}, onPresence() {} });
  live.start();
  await turns();
  for (const next of ["address", ""]) {
    assert.equal(opened.length, 0);
    failure = next;
    live.hurry();
    await turns();
  }
  assert.equal(opened.length, 1);
  live.stop();
});

test("a listener that is stopped during the wait for its token opens no connection", async () => {
  const opened = sockets();
  let give;
  const given = new Promise((resolve) => (give = resolve));
  const live = new Live(() => ({ url: "ws://a" }), () => given, { onPoke() {}, onPresence() {} });
  live.start();
  await turns();
  live.stop();
  give("good");
  await turns();
  assert.equal(opened.length, 0);
  live.start();
  await turns();
  assert.equal(opened.length, 1);
  live.stop();
});

test("a refused token is not sent again: the request fails with the same error", async () => {
  let asked = 0;
  let token = "wrong";
  globalThis.fetch = async () => {
    asked += 1;
    return new Response(JSON.stringify({ code: "unauthenticated", message: "invalid token" }), { status: 401 });
  };
  const options = /** @type {any} */ ({ token: () => token });
  const http = new Http("https://a.example/v1/organisations/acme/documents/plan", options);
  for (let time = 0; time < 3; time += 1) {
    await assert.rejects(http.request("pull", {}), { code: "forbidden", message: /invalid token/ });
  }
  assert.equal(asked, 1);
  token = "another";
  await assert.rejects(http.request("pull", {}));
  http.retry();
  await assert.rejects(http.request("pull", {}));
  assert.equal(asked, 3);
});
