// Draft: the object that a mutator reads and writes. The draft keeps its changes apart from the state or draft under
// it. The caller applies or drops all changes together.

import { exceeded, invalid } from "./errors.js";
import { canonical, compare } from "./values.js";

const KEY_BYTES_MAX = 512;
const COLLECTION_ESCAPED_BYTES_MAX = 200;
const ESCAPED = /[^A-Za-z0-9._\-\u{a0}-\u{fffd}\u{10000}-\u{10ffff}]/gu;

/** The canonical state: the keys and values of the newest pull, without the changes of any draft. */
export class State {
  #items;
  /** @type {string[] | null} */
  #sorted = null;

  constructor(items = new Map()) {
    this.#items = items;
  }

  value(key) {
    return this.#items.get(key);
  }

  keys(prefix = "") {
    this.#sorted ??= [...this.#items.keys()].sort(compare);
    return prefix ? this.#sorted.filter((key) => key.startsWith(prefix)) : [...this.#sorted];
  }

  set(key, value) {
    if (!this.#items.has(key)) this.#sorted = null;
    this.#items.set(key, value);
  }

  remove(key) {
    if (this.#items.delete(key)) this.#sorted = null;
  }

  clear() {
    this.#items.clear();
    this.#sorted = null;
  }
}

export class Draft {
  /** The value of each changed key, or undefined for a deleted key. */
  changes = new Map();
  #below;

  constructor(below) {
    this.#below = below;
  }

  /** The frozen value of `key`, or `fallback` if the key is missing. */
  get(key, fallback = null) {
    const value = this.value(checkKey(key));
    return value === undefined ? fallback : value;
  }

  has(key) {
    return this.value(key) !== undefined;
  }

  put(key, value) {
    const frozen = canonical(value);
    this.changes.set(checkKey(key), frozen);
  }

  /** Remove `key`. Returns whether the key existed. */
  delete(key) {
    const was = this.has(checkKey(key));
    if (was) this.changes.set(key, undefined);
    return was;
  }

  /** [key, current value] of each key that starts with `prefix`, in order. */
  scan(prefix = "") {
    return this.keys(prefix).map((key) => [key, this.value(key)]);
  }

  /** The keys that start with `prefix`, in order. */
  keys(prefix = "") {
    const below = this.#below.keys(prefix);
    if (!this.changes.size) return below;
    const changed = [...this.changes].filter(([key, value]) => value !== undefined && key.startsWith(prefix));
    return [...below.filter((key) => !this.changes.has(key)), ...changed.map(([key]) => key)].sort(compare);
  }

  /** Apply the changes of a draft that lies on top of this draft. */
  merge(child) {
    for (const [key, value] of child.changes) this.changes.set(key, value);
  }

  /** The value of `key`, or undefined. Does not check that `key` is valid. */
  value(key) {
    return this.changes.has(key) ? this.changes.get(key) : this.#below.value(key);
  }
}

function checkKey(key) {
  if (typeof key !== "string" || !key || key[0] === "\0" || key[0] === "/") {
    throw invalid("a key must be text that starts with neither a slash nor a zero character", { value: key });
  }
  if (!key.isWellFormed()) throw invalid("a key holds a lone surrogate");
  const size = new TextEncoder().encode(key).length;
  if (size > KEY_BYTES_MAX) throw exceeded("a key is too long", { value: size, limit: KEY_BYTES_MAX });
  checkCollection(key);
  return key;
}

// The server puts the escaped collection into blob names, whose length is limited.
function checkCollection(key) {
  const slash = key.indexOf("/");
  if (slash < 0) return;
  const escaped = key
    .slice(0, slash)
    .replace(ESCAPED, (character) => "%00".repeat(new TextEncoder().encode(character).length))
    .replace(/^\./, "%2E");
  const size = new TextEncoder().encode(escaped).length;
  if (size > COLLECTION_ESCAPED_BYTES_MAX) {
    throw exceeded("collection is too long once escaped", {
      value: size,
      limit: COLLECTION_ESCAPED_BYTES_MAX,
    });
  }
}
