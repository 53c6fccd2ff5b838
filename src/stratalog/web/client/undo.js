// Undo: the built-in mutations that take back what one mutation did, and nothing that was done since.

import { Rejected } from "./errors.js";
import { isObject, same } from "./values.js";

/**
 * [name, arguments] of the mutations that undo one that had `effect`, one for each key. What the built-in `inc` counted
 * (`counts`) is counted back; of an object only the members that changed go back. Throws Rejected where what it left is
 * no longer shown, so that undoing it would undo somebody's later change.
 */
export function inverse({ name, args, effect, status }, optimisticValue, counts) {
  if (status === "lost") throw new Rejected("the mutation is lost");
  const changed = [...effect.after].filter(([key, after]) => !same(effect.before.get(key), after));
  if (!changed.length) throw new Rejected("the mutation had no effect");
  if (name === "inc" && counts) return [["inc", { key: args.key, by: -(args.by ?? 1) }]];
  return changed.map(([key, after]) => restore(key, effect.before.get(key), after, optimisticValue(key)));
}

function restore(key, before, after, current) {
  if (same(current, after)) return before === undefined ? ["del", { key }] : ["put", { key, value: before }];
  const merge = mergeBack(before, after, current);
  if (!merge) throw new Rejected(`the key has changed since: key=${key}`);
  return ["patch", { key, merge }];
}

// A merge patch (RFC 7396) that restores the members that differ; null where there is none or it would clobber.
function mergeBack(before, after, current) {
  if (![before, after, current].every(isObject)) return null;
  const member = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);
  const merge = [];
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, left] = [member(before, name), member(after, name)];
    if (same(old, left)) continue;
    if (!same(member(current, name), left) || old === null || isObject(old)) return null;
    merge.push([name, old ?? null]);
  }
  return Object.fromEntries(merge);
}
