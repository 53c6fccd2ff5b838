// The built-in mutators behave like the server's mutators (`stratalog.protocol.mutators`): one table of cases tests
// both implementations. A mutator depends only on its draft and its arguments: it uses no clock, no random numbers and
// no network.

import { Draft } from "./draft.js";
import { Rejected, invalid } from "./errors.js";
import { compare, isObject } from "./values.js";

/** `{key, value}`: set the key. */
function put(draft, args) {
  const [key, value] = take(args, ["key", "value"]);
  draft.put(key, value);
}

/** `{key}`: remove the key. A missing key is no error. */
function del(draft, args) {
  const [key] = take(args, ["key"]);
  draft.delete(key);
}

/** `{key, merge}`: JSON merge patch (RFC 7396) of the key's value. */
function patch(draft, args) {
  const [key, merge] = take(args, ["key", "merge"]);
  draft.put(key, merged(draft.get(key), merge));
}

/** `{key, by = 1}`: add a number to the key's number. A missing key counts as 0. */
function inc(draft, args) {
  const [key, by] = take(args, ["key"], { by: 1 });
  const present = draft.get(key, 0);
  if (typeof present !== "number" || typeof by !== "number") throw new Rejected(`inc needs numbers: key=${key}`);
  draft.put(key, sum(present, by));
}

/** `{key, item}`: add the item to the end of the key's list. A missing key counts as an empty list. */
function append(draft, args) {
  const [key, item] = take(args, ["key", "item"]);
  const present = draft.get(key, []);
  if (!Array.isArray(present)) throw new Rejected(`append needs a list: key=${key}`);
  draft.put(key, [...present, item]);
}

export const BUILT_IN_MUTATORS = Object.freeze({ put, del, patch, inc, append });

/**
 * Run one mutation on a draft. Returns the mutation's effect: the values of the changed keys, before and after.
 * Throws the mutator's error, and `invalid` for an unknown name. After an error the draft is unchanged.
 */
export function run(draft, mutators, name, args) {
  if (!Object.hasOwn(mutators, name)) {
    throw invalid("no such mutator", { mutator: name, known: Object.keys(mutators).sort().join(", ") });
  }
  const child = new Draft(draft);
  checkHasRun(mutators[name](child, args));
  const before = new Map([...child.changes.keys()].map((key) => [key, draft.value(key)]));
  draft.merge(child);
  return { before, after: child.changes, reason: null };
}

/** Throw a TypeError if a call of a mutator returned before the mutator's end, as an async function does. */
function checkHasRun(result) {
  const kind = Object.prototype.toString.call(result);
  if (kind === "[object Promise]") {
    result.catch(() => {}); // this error replaces the mutator's own
    throw new TypeError("a mutator must not be async");
  }
  if (kind === "[object Generator]" || kind === "[object AsyncGenerator]")
    throw new TypeError("a mutator must not contain yield");
}

function take(args, required, optional = {}) {
  if (!isObject(args)) throw new Rejected("arguments must be an object");
  const missing = required.filter((name) => !Object.hasOwn(args, name));
  if (missing.length) throw new Rejected(`an argument is missing: ${missing.join(", ")}`);
  const known = new Set([...required, ...Object.keys(optional)]);
  const unknown = Object.keys(args)
    .filter((name) => !known.has(name))
    .sort(compare);
  if (unknown.length) throw new Rejected(`an argument is unknown: ${unknown.join(", ")}`);
  return [...known].map((name) => (Object.hasOwn(args, name) ? args[name] : optional[name]));
}

function merged(target, merge) {
  if (!isObject(merge)) return merge;
  const result = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(merge)) {
    if (value === null) result.delete(name);
    else result.set(name, merged(result.get(name), value));
  }
  return Object.fromEntries(result);
}

// The sum of two safe integers must be a safe integer too. Any other number is a float, and a sum with a float is a
// float.
function sum(left, right) {
  const result = left + right;
  if (Number.isSafeInteger(left) && Number.isSafeInteger(right) && !Number.isSafeInteger(result)) {
    throw invalid("value holds an integer that JSON readers cannot hold exactly", { value: result });
  }
  return result;
}
