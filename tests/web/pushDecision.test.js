import assert from "node:assert/strict";
import { test } from "node:test";

import { NEVER, OPEN, REFUSED, interpretPush } from "../../src/stratalog/web/client/pushDecision.js";
import { pauseMs } from "../../src/stratalog/web/client/backoff.js";

const waiting = (id, sent = NEVER) => ({ id, sequence: id, sent });
const outcome = (id, status, more = {}) => ({ client: "me", id, status, ...more });

function decide(batch, ...outcomes) {
  return interpretPush(
    "me",
    batch,
    batch.map(({ sent }) => sent),
    { outcomes, queued: false },
    batch[0],
  );
}

test("committed mutations are returned with their outcomes", () => {
  const batch = [waiting(1), waiting(2), waiting(3)];
  const { committed, reset } = decide(
    batch,
    outcome(1, "applied"),
    outcome(2, "rejected", { reason: "no" }),
    outcome(3, "seen"),
  );
  assert.deepEqual(
    committed.map(([mutation, { status }]) => [mutation.id, status]),
    [
      [1, "applied"],
      [2, "rejected"],
      [3, "seen"],
    ],
  );
  assert.equal(reset, undefined);
});

test("a gap gives the id from which to send again", () => {
  const { resendFrom } = decide(
    [waiting(4), waiting(5), waiting(6)],
    outcome(4, "seen"),
    outcome(5, "seen"),
    outcome(6, "gap", { expected: 4 }),
  );
  assert.equal(resendFrom, 4);
});

test("a gap before all pending mutations means that the server lost confirmed mutations, so the client pulls", () => {
  const batch = [waiting(4, OPEN), waiting(5, OPEN)];
  const decision = decide(batch, outcome(4, "gap", { expected: 2 }), outcome(5, "gap", { expected: 2 }));
  assert.equal(decision.isBehind, true);
  assert.equal(decision.reset, undefined);
  assert.ok(batch.every(decision.uncommitted));
});

test("a client that the server does not know also pulls first", () => {
  const batch = [waiting(1, OPEN), waiting(2, REFUSED), waiting(3, NEVER)];
  const { isBehind, reset, uncommitted } = decide(batch, ...batch.map(({ id }) => outcome(id, "unknown-client")));
  assert.deepEqual([isBehind, reset], [true, undefined]);
  assert.deepEqual(batch.map(uncommitted), [false, true, true]);
});

test("a refused client takes another id, and sends again only mutations that were certainly not committed", () => {
  const batch = [waiting(1, OPEN), waiting(2, REFUSED), waiting(3, NEVER)];
  const { reset, uncommitted } = decide(batch, ...batch.map(({ id }) => outcome(id, "collected")));
  assert.equal(reset, true);
  assert.deepEqual(batch.map(uncommitted), [false, true, true]);
});

test("a mismatch means that the mutation was not committed", () => {
  const batch = [waiting(1, OPEN)];
  assert.equal(decide(batch, outcome(1, "mismatch")).uncommitted(batch[0]), true);
});

test("an answer about other mutations is corrupt", () => {
  assert.throws(() => decide([waiting(1)], outcome(2, "applied")), { code: "corrupt" });
  assert.throws(() => decide([waiting(2)], outcome(2, "gap", { expected: 2 })), { code: "corrupt" });
});

test("a gap without an expected number is corrupt", () => {
  for (const more of [{}, { expected: null }, { expected: "1" }]) {
    assert.throws(() => decide([waiting(2)], outcome(2, "gap", more)), { code: "corrupt" });
  }
});

test("pauses double up to a limit, with jitter, and are not shorter than the server's Retry-After", () => {
  const bounds = { firstMs: 100, limitMs: 30_000 };
  const pauses = [1, 2, 3, 20].map((failures) => pauseMs(failures, { ...bounds, random: () => 0.5 }));
  assert.deepEqual(pauses, [50, 100, 200, 15_000]);
  assert.equal(pauseMs(1, { ...bounds, random: () => 0, retryAfter: 7 }), 7000);
});

test("a queued push has no outcomes yet", () => {
  const { queued, committed } = interpretPush("me", [waiting(1)], [NEVER], { outcomes: [], queued: true }, waiting(1));
  assert.equal(queued, true);
  assert.deepEqual(committed, []);
});
