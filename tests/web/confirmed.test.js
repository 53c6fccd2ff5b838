import assert from "node:assert/strict";
import { test } from "node:test";

import { Confirmed } from "../../src/stratalog/web/client/confirmed.js";

const row = (id, args = null) => ({ tabLease: "a", sequence: id, id, name: "put", args });
const ids = (rows) => rows.map(({ id }) => id);

test("mutations of a lost branch are returned once, and the others stay", () => {
  const confirmed = new Confirmed([1, 2, 3, 4, 5, 6].map((id) => row(id)));
  const ranges = [
    [1, 3],
    [4, 5],
  ];
  assert.deepEqual(ids(confirmed.lose(ranges)), [2, 3, 5]);
  assert.deepEqual(confirmed.lose(ranges), []);
  assert.deepEqual(ids(confirmed.rows), [1, 4, 6]);
});

test("the newest thousand mutations are kept", () => {
  const confirmed = new Confirmed();
  const rows = Array.from({ length: 1003 }, (_, index) => row(index + 1));
  assert.deepEqual(confirmed.add(rows.slice(0, 1000)), []);
  assert.deepEqual(ids(confirmed.add(rows.slice(1000))), [1, 2, 3]);
  assert.equal(confirmed.rows.length, 1000);
});

test("the newest mutations are kept up to 16 MiB of arguments", () => {
  const large = "x".repeat(6 * 1024 * 1024);
  const confirmed = new Confirmed([row(1, large)]);
  assert.deepEqual(confirmed.add([row(2, large)]), []);
  assert.deepEqual(ids(confirmed.add([row(3), row(4, large)])), [1]);
  assert.deepEqual(ids(confirmed.rows), [2, 3, 4]);
  assert.deepEqual(ids(confirmed.add([row(5, large + large + large)])), [2, 3, 4, 5]);
});

test("the bytes of arguments are those of UTF-8, as in the Python client", () => {
  const large = "漢".repeat(2 * 1024 * 1024); // 6 MiB
  const confirmed = new Confirmed([row(1, large), row(2, large)]);
  assert.deepEqual(ids(confirmed.add([row(3, large)])), [1]);
  assert.deepEqual(ids(confirmed.rows), [2, 3]);
});
