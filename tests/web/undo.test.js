import assert from "node:assert/strict";
import { test } from "node:test";

import { inverse } from "../../src/stratalog/web/client/undo.js";

const mutation = (name, args, before, after) => ({
  name,
  args,
  status: "applied",
  isUndone: false,
  effect: { before: new Map([["a", before]]), after: new Map([["a", after]]) },
});
const undone = (current, ...made) => inverse(mutation(...made), () => current, true);

test("undo deletes a new key, and restores a former value", () => {
  assert.deepEqual(undone(1, "put", {}, undefined, 1), [["del", { key: "a" }]]);
  assert.deepEqual(undone(undefined, "del", {}, 1, undefined), [["put", { key: "a", value: 1 }]]);
});

test("undo of a count subtracts it, whatever was counted since", () => {
  assert.deepEqual(undone(9, "inc", { key: "a", by: 2 }, 1, 3), [["inc", { key: "a", by: -2 }]]);
  assert.deepEqual(undone(9, "inc", { key: "a" }, 1, 2), [["inc", { key: "a", by: -1 }]]);
});

test("undo of a count is refused if the number was deleted since, or if it may lack the count", () => {
  const counted = mutation("inc", { key: "a", by: 2 }, 1, 3);
  const changed = { name: "Rejected", reason: "the key has changed since: key=a" };
  assert.throws(() => inverse(counted, () => undefined, true), changed);
  assert.throws(() => inverse({ ...counted, status: "unknown" }, () => 9, true), changed);
  assert.deepEqual(inverse({ ...counted, status: "unknown" }, () => 3, true), [["put", { key: "a", value: 1 }]]);
});

test("undo restores only the members of an object that the mutation changed", () => {
  const [before, after] = [
    { x: 1, z: 0 },
    { x: 2, y: 3, z: 0 },
  ];
  const merge = { x: 1, y: null };
  assert.deepEqual(undone({ ...after, z: 7 }, "put", {}, before, after), [["patch", { key: "a", merge }]]);
});

test("a later change is not undone", () => {
  const changed = { name: "Rejected", reason: "the key has changed since: key=a" };
  assert.throws(() => undone(3, "put", {}, 1, 2), changed);
  assert.throws(() => undone({ x: 3 }, "put", {}, { x: 1 }, { x: 2 }), changed);
});

test("a mutation without effect cannot be undone", () => {
  assert.throws(() => undone(1, "put", {}, 1, 1), { reason: "the mutation had no effect" });
});

test("a lost or rejected mutation cannot be undone", () => {
  for (const status of ["lost", "rejected"]) {
    const refused = { ...mutation("inc", { key: "a" }, 1, 2), status };
    assert.throws(() => inverse(refused, () => 1, true), { reason: `the mutation is ${status}` });
  }
});
