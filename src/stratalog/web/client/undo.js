// Undo: the built-in mutations that reverse one mutation and keep all later changes.

import { Rejected } from "./errors.js";
import { isObject, same } from "./values.js";

/**
 * Return [name, arguments] of the mutations that undo a mutation with `effect`, one for each changed key. If `counts`
 * is true, `inc` is the built-in mutator, and the opposite `inc` undoes an `inc`, even after later changes of the
 * number. An `inc` of unknown outcome is excluded: the number may not include it. If an object has
 * changed since the mutation, the undo restores only the members that the mutation changed. Throws Rejected if the
 * mutation is lost, rejected or undone, or had no effect. Throws Rejected also if the undo would overwrite a later
 * change, or if the object has changed since and a member to restore was null or an object.
 */
export function inverse({ name, args, effect, status, isUndone }, optimisticValue, counts) {
  if (status === "lost" || status === "rejected") throw new Rejected(`the mutation is ${status}`);
  // The number that an `inc` changed does not show whether the `inc` was undone.
  if (isUndone) throw new Rejected("the mutation is already undone");
  const changed = [...effect.after].filter(([key, after]) => !same(effect.before.get(key), after));
  if (!changed.length) throw new Rejected("the mutation had no effect");
  if (name === "inc" && counts && status !== "unknown") {
    if (optimisticValue(args.key) === undefined) throw new Rejected(`the key has changed since: key=${args.key}`);
    return [["inc", { key: args.key, by: -(args.by ?? 1) }]];
  }
  return changed.map(([key, after]) => restore(key, effect.before.get(key), after, optimisticValue(key)));
}

function restore(key, before, after, current) {
  if (same(current, after)) return before === undefined ? ["del", { key }] : ["put", { key, value: before }];
  const merge = mergeBack(before, after, current);
  if (!merge) throw new Rejected(`the key has changed since: key=${key}`);
  return ["patch", { key, merge }];
}

// Return a merge patch (RFC 7396) that restores the changed members. Return null if the patch would undo a later
// change. Return null also for an old member that is null or an object: a merge patch may fail to restore such a member
// exactly.
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
