// Interpretation of the server's answer to a push, by pure functions. formats/sync.md has the rules.

import { StratalogError } from "./errors.js";

/**
 * Values of a mutation's `sent`. NEVER: no push contained the mutation. REFUSED: certainly no push committed it.
 * OPEN: a push may have committed it.
 */
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
 * Return the decision that follows from `pushed`, the answer to `batch`. `before` has the `sent` of each mutation of
 * the batch before this push. `first` is the oldest pending mutation. Throws `corrupt` if the answer does not match the
 * batch.
 *
 * `committed` has pairs of mutation and outcome, and is empty if the server `queued` the push. At most one of these
 * three properties is set:
 * - `resendFrom`: the server lacks the mutation with this id and all later mutations. The client sends these mutations
 *   again.
 * - `isBehind`: the server has fewer mutations than it had confirmed, as after a restore. Or it is another server, or
 *   the document is a new document under the name of a deleted document. The client pulls, and pushes again. After a
 *   restore, the server raises at the pull the client's last number to the number that it had confirmed. If the server
 *   is then still behind, the client continues under another id.
 * - `reset`: the client continues under another id.
 *
 * With `isBehind` or `reset`, `uncommitted(waiting)` is true for each mutation that certainly is not and never will be
 * committed under its id. So the client may send it under another id.
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
  if (!Number.isInteger(gap.expected) || gap.expected >= gap.id) {
    throw new StratalogError("corrupt", "a gap must expect a number below its id", gap);
  }
  if (gap.expected < first.id) return { committed: [], isBehind: true, uncommitted: () => true };
  return { committed, resendFrom: gap.expected };
}

// Whether a mutation is certainly not committed. A mismatch proves this: the server has committed another payload under
// its number. A refusal proves this only if no earlier push of the mutation is in doubt.
const isFree = ([, { status }, sent]) =>
  status === "mismatch" || ((REFUSALS.has(status) || status === UNKNOWN) && sent !== OPEN);

function checkFits(client, batch, outcomes) {
  const fits =
    outcomes.length === batch.length &&
    outcomes.every((outcome, index) => outcome.client === client && outcome.id === batch[index].id);
  if (!fits) throw new StratalogError("corrupt", "the response to a push names other mutations");
}
