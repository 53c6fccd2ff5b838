// mutators.json has the cases of the built-in mutators of both languages. These tests run the mutators in JavaScript.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Draft, State } from "../../src/stratalog/web/client/draft.js";
import { BUILT_IN_MUTATORS, run } from "../../src/stratalog/web/client/mutators.js";
import { canonical, decode, encode } from "../../src/stratalog/web/client/values.js";

const cases = JSON.parse(readFileSync(new URL("mutators.json", import.meta.url), "utf8"));
const texts = (pairs) => Object.fromEntries(pairs.map(([key, value]) => [key, encode(value)]));
/** @returns {[string, any][]} */
const values = (plain) => Object.entries(plain).map(([key, value]) => [key, canonical(decode(value))]);

for (const { name, state, run: mutator, args, left, rejected } of cases) {
  test(name, () => {
    const draft = new Draft(new State(new Map(values(state))));
    const attempt = () => run(draft, BUILT_IN_MUTATORS, mutator, canonical(decode(args)));
    if (left) {
      attempt();
      assert.deepEqual(texts(draft.scan()), texts(values(left)));
    } else {
      assert.throws(attempt, (/** @type {any} */ error) => rejected === null || error.reason === rejected);
      assert.deepEqual(texts(draft.scan()), texts(values(state)));
    }
  });
}

test("a mutator whose call returns before its end is an error and has no effect", () => {
  const draft = new Draft(new State(new Map()));
  const mutators = {
    waits: async (child) => child.put("a", 1),
    fails: async () => Promise.reject(new Error("the mutator's own error")),
    *yields(child) {
      yield child.put("a", 1);
    },
  };
  for (const name of Object.keys(mutators)) {
    assert.throws(() => run(draft, mutators, name, {}), /must not/);
  }
  assert.deepEqual([...draft.scan()], []);
});
