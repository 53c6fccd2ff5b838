// What the server's answer to a push means for each mutation of it. Pure decisions; the rules are formats/sync.md's.

import { StratalogError } from "./errors.js";

/** A waiting mutation's `sent` is NEVER; REFUSED where each answer so far said that nothing was written; else OPEN. */
export const NEVER = 0;
export const REFUSED = 1;
export const OPEN = 2;
export const COMMITTED = new Set(["applied", "rejected", "seen"]);
const UNKNOWN = "unknown-client";
const REFUSALS = new Set(["collected", "wrong-group"]);

/**
 * @typedef {object} PushDecision
 * @property {any[]} committed
 * @property {boolean} [queued]
 * @property {number} [resendFrom]
 * @property {boolean} [isBehind]
 * @property {boolean} [reset]
 * @property {(waiting: any) => boolean} [uncommitted]
 */

/**
 * What `pushed` says about `batch`; `before` has how each stood before it was sent, `first` is the oldest pending one.
 * The answer has `queued`; `committed`, pairs of mutation and outcome; and at most one of these. `resendFrom`: the id
 * from which on the server has nothing. `isBehind`: the server has less than it had confirmed, as after a restore, or
 * it is another; so pull, which raises its numbers, and push again. Where it is behind again then, and where `reset`
 * is true: go on as another client, which may send again what `uncommitted` is true of.
 *
 * @returns {PushDecision}
 */
export function interpretPush(client, batch, before, pushed, first) {
  if (pushed.queued) return { queued: true, committed: [] };
  checkFits(client, batch, pushed.outcomes);
  const pairs = batch.map((waiting, index) => [waiting, pushed.outcomes[index], before[index]]);
  const committed = pairs.filter(([, outcome]) => COMMITTED.has(outcome.status));
  const free = new Set(pairs.filter(isFree).map(([waiting]) => waiting));
  const uncommitted = (waiting) => free.has(waiting);
  if (pairs.some(([, { status }]) => REFUSALS.has(status) || status === "mismatch")) {
    return { committed, reset: true, uncommitted };
  }
  if (pairs.some(([, { status }]) => status === UNKNOWN)) return { committed, isBehind: true, uncommitted };
  const gap = pairs.find(([, outcome]) => outcome.status === "gap")?.[1];
  if (!gap) return { committed };
  if (!(gap.expected < gap.id)) throw new StratalogError("corrupt", "a gap must expect a number below its id", gap);
  if (gap.expected < first.id) return { committed: [], isBehind: true, uncommitted: () => true };
  return { committed, resendFrom: gap.expected };
}

// A number that holds another payload was never this mutation's; a refusal proves it only for one sent once.
const isFree = ([, { status }, sent]) =>
  status === "mismatch" || ((REFUSALS.has(status) || status === UNKNOWN) && sent !== OPEN);

function checkFits(client, batch, outcomes) {
  const fits =
    outcomes.length === batch.length &&
    outcomes.every((outcome, index) => outcome.client === client && outcome.id === batch[index].id);
  if (!fits) throw new StratalogError("corrupt", "the response to a push names other mutations");
}
