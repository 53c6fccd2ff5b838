// Replica: a document at hand, without a network. What is shown is the newest state pulled, with the pending mutations
// run on it.

import { Draft } from "./draft.js";
import { invalid } from "./errors.js";
import { BUILT_IN_MUTATORS, run } from "./mutators.js";
import { inverse } from "./undo.js";
import { canonical, compare, same } from "./values.js";

const SETTLED_HANDLES_MAX = 1000;

/**
 * The handle of one mutation. `status` is pending, perhaps queued, and then applied, rejected or unknown. After applied
 * comes lost where the server goes back to a history without it, as after a restore.
 */
export class Pending {
  status = "pending";
  reason = null;
  #settle;

  constructor({ sequence, name, args }) {
    Object.assign(this, { sequence, name, args });
    this.effect = { before: new Map(), after: new Map(), reason: null };
    /** The status once it is settled. It may be lost later, which `status` says then. */
    this.settled = new Promise((resolve) => (this.#settle = resolve));
  }

  /** The keys it changed when it was last run. */
  get keys() {
    return [...this.effect.after.keys()];
  }

  /** Why it has no effect on what was last shown; null if it has one. The server has the last word. */
  get predictedRejection() {
    return this.effect.reason;
  }

  end(status, reason) {
    Object.assign(this, { status, reason });
    this.#settle(status);
  }
}

export class Replica {
  #mutators;
  #draft;
  #handles = new Map();
  #applied = new Map();
  #subscribers = new Set();
  #watchers = new Set();

  /** @param {import("./stratalog.js").Mutators} mutators */
  constructor(local, mutators = BUILT_IN_MUTATORS) {
    this.local = local;
    this.#mutators = mutators;
    this.#show();
  }

  /** The value of `key`, frozen, or `fallback`. */
  get(key, fallback = null) {
    return this.#draft.get(key, fallback);
  }

  /** [key, value] of each key that starts with `prefix`, in order. */
  scan(prefix = "") {
    return this.#draft.scan(prefix);
  }

  keys(prefix = "") {
    return this.#draft.keys(prefix);
  }

  has(key) {
    return this.#draft.has(key);
  }

  /**
   * Run a mutation on what is shown, and keep it for the server. It shows at once; the promise is of its handle, and is
   * kept when the mutation is durable. Throws what the mutator throws: then nothing has changed and nothing is kept.
   */
  async mutate(name, /** @type {any} */ args = null) {
    if (typeof name !== "string" || !name) throw invalid("a mutator's name must be a text");
    const frozen = canonical(args, "argument");
    const effect = run(this.#draft, this.#mutators, name, frozen);
    const { waiting, durable } = this.local.add(name, frozen);
    const handle = this.#handle(waiting);
    handle.effect = effect;
    this.#notify([...effect.after.keys()].filter((key) => !same(effect.before.get(key), effect.after.get(key))));
    await durable;
    return handle;
  }

  /** Take back what a mutation of this client did, as new built-in mutations: one for each key it changed. */
  async undo(handle) {
    const counts = this.#mutators.inc === BUILT_IN_MUTATORS.inc;
    const steps = inverse(handle, (key) => this.#draft.value(key), counts);
    return Promise.all(steps.map(([name, args]) => this.mutate(name, args)));
  }

  /** The handles of the mutations that the server has not confirmed, in order; those from before a reload as well. */
  pending() {
    return this.local.pending.map((waiting) => this.#handle(waiting));
  }

  /** Have `callback` called with the changed keys whenever any that starts with `prefix` did. Returns what ends it. */
  subscribe(callback, prefix = "") {
    const subscriber = { callback, prefix };
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /** Have `callback` called whenever what is pending, failed or known of the server may have changed. */
  watch(callback) {
    this.#watchers.add(callback);
    return () => this.#watchers.delete(callback);
  }

  /** For the sync cycle: change the local state, by `patch` or not its canonical part, and what follows. */
  async settle(change, patch = []) {
    const was = this.#optimisticValues(patch);
    const { settled, durable } = change(this.local);
    this.#show();
    for (const { waiting, status, reason } of settled) {
      this.#end(waiting.sequence, status, reason);
    }
    this.#notify(this.#changedSince(was));
    await durable;
  }

  /** For the sync cycle: something else than what is shown has changed. */
  note() {
    for (const waiting of this.local.pending) this.#handle(waiting);
    this.#notify([]);
  }

  // Throw away what is shown and run what is pending on the canonical state again.
  #show() {
    this.#draft = new Draft(this.local.state);
    for (const waiting of this.local.pending) this.#handle(waiting).effect = this.#attempt(waiting);
  }

  // One that fails has no effect and stays: whether it is rejected is the server's to say.
  #attempt({ name, args }) {
    try {
      return run(this.#draft, this.#mutators, name, args);
    } catch (error) {
      return { before: new Map(), after: new Map(), reason: error.reason ?? `${error.name}: ${error.message}` };
    }
  }

  #handle(waiting) {
    const handle = this.#handles.get(waiting.sequence) ?? new Pending(waiting);
    handle.status = waiting.answer === "queued" ? "queued" : "pending";
    this.#handles.set(waiting.sequence, handle);
    return handle;
  }

  // Of those that were applied a thousand are at hand while somebody holds them: the server may lose what they did.
  #end(sequence, status, reason) {
    const handle = this.#handles.get(sequence) ?? this.#applied.get(sequence)?.deref();
    handle?.end(status, reason);
    this.#handles.delete(sequence);
    this.#applied.delete(sequence);
    if (handle && status === "applied") this.#applied.set(sequence, new WeakRef(handle));
    if (this.#applied.size > SETTLED_HANDLES_MAX) this.#applied.delete(this.#applied.keys().next().value);
  }

  // What is shown of the keys whose canonical value may change, or that a pending mutation has changed.
  #optimisticValues(patch) {
    const touched = patch.flatMap(({ op, key }) => (op === "clear" ? this.local.state.keys() : [key]));
    const keys = new Set([...touched, ...this.#draft.changes.keys()]);
    return new Map([...keys].map((key) => [key, this.#draft.value(key)]));
  }

  // A key that is only in the new draft was shown as the canonical state still has it.
  #changedSince(was) {
    for (const key of this.#draft.changes.keys()) {
      if (!was.has(key)) was.set(key, this.local.state.value(key));
    }
    return [...was].filter(([key, value]) => !same(value, this.#draft.value(key))).map(([key]) => key);
  }

  // After the change, one caller after another; one that fails is reported and stops no other.
  #notify(changed) {
    const calls = [...this.#watchers].map((callback) => () => callback());
    for (const { callback, prefix } of changed.length ? this.#subscribers : []) {
      const keys = changed.filter((key) => key.startsWith(prefix)).sort(compare);
      if (keys.length) calls.unshift(() => callback(keys));
    }
    for (const call of calls) {
      try {
        call();
      } catch (error) {
        reportError(error);
      }
    }
  }
}
