import assert from "node:assert/strict";
import { test } from "node:test";

import { Draft, State } from "../../src/stratalog/web/client/draft.js";
import { canonical, compare, decode, encode } from "../../src/stratalog/web/client/values.js";

test("keys are in order of code points, as on the server", () => {
  const keys = ["a", "\u{1F600}", "\uFF5E", "\uE000", "\uD7FF", "Z", "é", "a/b", ""];
  const byPoint = (left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right));
  assert.deepEqual([...keys].sort(compare), [...keys].sort(byPoint));
});

test("a scan shows the state with the changes of the draft, in order", () => {
  const draft = new Draft(
    new State(
      new Map([
        ["b", 1],
        ["c", 2],
        ["x", 3],
      ]),
    ),
  );
  draft.put("a", 0);
  draft.put("c", 9);
  assert.equal(draft.delete("b"), true);
  assert.equal(draft.delete("nothing"), false);
  assert.deepEqual(draft.scan(), [
    ["a", 0],
    ["c", 9],
    ["x", 3],
  ]);
  assert.deepEqual(draft.keys("x"), ["x"]);
});

test("a canonical value cannot be changed", () => {
  const value = canonical({ list: [1, { deep: true }] });
  assert.throws(() => (value.list[1].deep = false), TypeError);
});

for (const [what, value] of Object.entries({
  "not a number": NaN,
  infinity: Infinity,
  undefined,
  "a function": () => 1,
  "a date": new Date(0),
  "a big integer": 1n,
  "a lone surrogate": "\uD800",
  "a name with one": { "\uDC00": 1 },
  "a missing member": { a: undefined },
})) {
  test(`${what} is no value`, () => assert.throws(() => canonical(value), { code: "invalid" }));
}

test("a value may be nested 64 deep and no deeper", () => {
  const nested = (depth) => (depth ? [nested(depth - 1)] : 0);
  assert.equal(encode(canonical(nested(64))).length, 129);
  assert.throws(() => canonical(nested(65)), { code: "limit-exceeded" });
});

test("equal values have equal texts, from which they are decoded again", () => {
  const value = { b: [1, -0, 1e21, 2 ** 53], a: new Uint8Array([0, 255]), $x: { $y: 1 } };
  const text = encode(canonical(value));
  assert.equal(text, '{"$x":{"$$y":1},"a":{"$bytes":"AP8="},"b":[1,0,1e+21,9.007199254740992e+15]}');
  assert.equal(encode(canonical(decode(JSON.parse(text)))), text);
});

test("a value from the server cannot be changed", () => {
  const value = decode(JSON.parse('{"list":[1,{"deep":true}]}'));
  assert.throws(() => value.list.push(2), TypeError);
  assert.throws(() => (value.list[1].deep = false), TypeError);
});
