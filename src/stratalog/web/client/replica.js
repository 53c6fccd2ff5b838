// Replica: a local copy of a document, which needs no network. A replica's optimistic state is the newest pulled state
// with the pending mutations run on it.

import { Draft } from "./draft.js";
import { invalid } from "./errors.js";
import { BUILT_IN_MUTATORS, run } from "./mutators.js";
import { inverse } from "./undo.js";
import { canonical, compare, same } from "./values.js";

const SETTLED_HANDLES_MAX = 1000;

/**
 * The handle of one mutation. `status` is pending or queued, and then applied, rejected or unknown. The status applied
 * becomes lost if the server goes back to a history without the mutation, for example after a restore.
 */
export class Pending {
  status = "pending";
  reason = null;
  /** The handles of the mutations that this page made to undo this one. */
  undoneBy = [];
  #settle;

  constructor({ sequence, name, args }) {
    Object.assign(this, { sequence, name, args });
    this.effect = { before: new Map(), after: new Map(), reason: null };
    /**
     * Resolves to the status when the mutation is settled. If the mutation is lost later, `status` and `reason` change,
     * but this promise keeps its value.
     */
    this.settled = new Promise((resolve) => (this.#settle = resolve));
  }

  /** The keys that the mutation changed when it was last run. */
  get keys() {
    return [...this.effect.after.keys()];
  }

  /** The reason why the mutation's last run in this page had no effect, or null. The server decides independently. */
  get predictedRejection() {
    return this.effect.reason;
  }

  /** Whether an undo reverts the mutation. An undo that is rejected, lost or itself undone does not. */
  get isUndone() {
    // No recursion: a user may undo and redo hundreds of times.
    const handles = [this];
    for (const handle of handles) handles.push(...handle.undoneBy); // the list grows
    const undone = new Map();
    for (const handle of handles.reverse()) {
      const valid = handle.undoneBy.filter(({ status }) => status !== "rejected" && status !== "lost");
      undone.set(handle, !valid.every((undo) => undone.get(undo)));
    }
    return undone.get(this);
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

  /** The frozen value of `key`, or `fallback` if the key is missing. */
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
   * Run a mutation on the optimistic state, and store it for the server. Readers see the effect at once. The promise
   * resolves to the mutation's handle when the mutation is durable. If the mutator throws, the promise rejects with the
   * mutator's error, and nothing is changed or stored. If the browser cannot store the mutation, readers no longer see
   * its effect, and the promise rejects with the error of the storage.
   */
  async mutate(name, /** @type {any} */ args = null) {
    return this.#begin(name, args).stored;
  }

  /** Undo a mutation of this client with new built-in mutations, one for each changed key. */
  async undo(handle) {
    const counts = this.#mutators.inc === BUILT_IN_MUTATORS.inc;
    const stored = [];
    for (const [name, args] of inverse(handle, (key) => this.#draft.value(key), counts)) {
      const step = this.#begin(name, args);
      handle.undoneBy.push(step.handle);
      step.stored.catch(() => {}); // if a later step throws, nobody waits for this one
      stored.push(step.stored);
    }
    return Promise.all(stored);
  }

  // Run a mutation. Return its handle, and a promise that resolves to the handle when the mutation is durable.
  #begin(name, /** @type {any} */ args) {
    if (typeof name !== "string" || !name) throw invalid("a mutator's name must be a text");
    const frozen = canonical(args, "argument");
    // Run the mutation on a child draft, because `add` may refuse the mutation.
    const child = new Draft(this.#draft);
    const effect = run(child, this.#mutators, name, frozen);
    const { waiting, durable } = this.local.add(name, frozen);
    this.#draft.merge(child);
    const handle = this.#handle(waiting);
    handle.effect = effect;
    this.#notify([...effect.after.keys()].filter((key) => !same(effect.before.get(key), effect.after.get(key))));
    return { handle, stored: this.#stored(waiting, durable, handle) };
  }

  async #stored(waiting, durable, handle) {
    try {
      await durable;
    } catch (error) {
      await this.settle((local) => local.withdraw(waiting, error.message));
      throw error;
    }
    return handle;
  }

  /** The handles of the unconfirmed mutations, in order. Mutations from before a reload are included. */
  pending() {
    return this.local.pending.map((waiting) => this.#handle(waiting));
  }

  /**
   * Call `callback` after each change, with the changed keys that start with `prefix`, if there are any. Returns a
   * function that ends the subscription.
   */
  subscribe(callback, prefix = "") {
    const subscriber = { callback, prefix };
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /**
   * Call `callback` whenever the pending mutations, the failures or the properties of the client may have changed.
   * Returns a function that ends these calls.
   */
  watch(callback) {
    this.#watchers.add(callback);
    return () => this.#watchers.delete(callback);
  }

  /**
   * For the sync cycle: change the local data with `change`. Then update the optimistic state and the handles, and
   * notify the callbacks. `patch` has the changes of the canonical state.
   */
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

  /** Notify the watchers of a change that leaves the optimistic state as it is. */
  note() {
    for (const waiting of this.local.pending) this.#handle(waiting);
    this.#notify([]);
  }

  // Build the optimistic state anew: run the pending mutations on the canonical state.
  #show() {
    this.#draft = new Draft(this.local.state);
    for (const waiting of this.local.pending) this.#handle(waiting).effect = this.#attempt(waiting);
  }

  // A mutation that fails here has no effect and stays pending: the server decides whether to reject it.
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

  // The server may lose an applied mutation, and the mutation's handle must then report the loss. So the replica keeps
  // weak references to the newest SETTLED_HANDLES_MAX applied handles.
  #end(sequence, status, reason) {
    const handle = this.#handles.get(sequence) ?? this.#applied.get(sequence)?.deref();
    handle?.end(status, reason);
    this.#handles.delete(sequence);
    this.#applied.delete(sequence);
    if (handle && status === "applied") this.#applied.set(sequence, new WeakRef(handle));
    if (this.#applied.size > SETTLED_HANDLES_MAX) this.#applied.delete(this.#applied.keys().next().value);
  }

  // Return the optimistic values of the keys whose canonical value may change, and of the keys that a pending mutation
  // has changed.
  #optimisticValues(patch) {
    const touched = patch.flatMap(({ op, key }) => (op === "clear" ? this.local.state.keys() : [key]));
    const keys = new Set([...touched, ...this.#draft.changes.keys()]);
    return new Map([...keys].map((key) => [key, this.#draft.value(key)]));
  }

  // `was` lacks a key that only the new draft changes. Neither the patch nor the old draft changed this key, so its old
  // optimistic value equals its canonical value.
  #changedSince(was) {
    for (const key of this.#draft.changes.keys()) {
      if (!was.has(key)) was.set(key, this.local.state.value(key));
    }
    return [...was].filter(([key, value]) => !same(value, this.#draft.value(key))).map(([key]) => key);
  }

  // Run the callbacks one after another, after the change. An error of a callback is reported and stops no other
  // callback.
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
