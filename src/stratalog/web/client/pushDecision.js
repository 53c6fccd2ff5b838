// What the server's answer to a push means for each mutation of it. Pure decisions; the rules are formats/sync.md's.

import { StratalogError } from "./errors.js";

/** A waiting mutation's `sent` is NEVER; REFUSED where each answer so far said that nothing was written; else OPEN. */
export const NEVER = 0;
export const REFUSED = 1;
export const OPEN = 2;
export const COMMITTED = new Set(["applied", "rejected", "seen"]);
const REFUSALS = new Set(["unknown-client", "collected", "wrong-group"]);

/**
 * @typedef {object} PushDecision
 * @property {any[]} committed
 * @property {boolean} [queued]
 * @property {number} [resendFrom]
 * @property {boolean} [reset]
 * @property {(waiting: any) => boolean} [uncommitted]
 */

/**
 * What `pushed` says about `batch`; `before` has how each stood before it was sent, `first` is the oldest pending one.
 * The answer has `queued`; `committed`, pairs of mutation and outcome; and at most one of `resendFrom`, an id from
 * which on the server has nothing, and `reset`: go on as another client, which may send again what `uncommitted` is
 * true of.
 *
 * @returns {PushDecision}
 */
export function interpretPush(client, batch, before, pushed, first) {
  if (pushed.queued) return { queued: true, committed: [] };
  checkFits(client, batch, pushed.outcomes);
  const pairs = batch.map((waiting, index) => [waiting, pushed.outcomes[index], before[index]]);
  const committed = pairs.filter(([, outcome]) => COMMITTED.has(outcome.status));
  if (pairs.some(([, { status }]) => REFUSALS.has(status) || status === "mismatch")) {
    const free = new Set(pairs.filter(isFree).map(([waiting]) => waiting));
    return { committed, reset: true, uncommitted: (waiting) => free.has(waiting) };
  }
  const gap = pairs.find(([, outcome]) => outcome.status === "gap")?.[1];
  if (!gap) return { committed };
  if (!(gap.expected < gap.id)) throw new StratalogError("corrupt", "a gap does not say what came before it", gap);
  // The server lost what it had confirmed. As long as that is missing it can take nothing of this client.
  if (gap.expected < first.id) return { committed: [], reset: true, uncommitted: () => true };
  return { committed, resendFrom: gap.expected };
}

// A number that holds another payload was never this mutation's; a refusal proves it only for one sent once.
const isFree = ([, { status }, sent]) => status === "mismatch" || (REFUSALS.has(status) && sent !== OPEN);

function checkFits(client, batch, outcomes) {
  const fits =
    outcomes.length === batch.length &&
    outcomes.every((outcome, index) => outcome.client === client && outcome.id === batch[index].id);
  if (!fits) throw new StratalogError("corrupt", "the answer to a push names other mutations");
}
