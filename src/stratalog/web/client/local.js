// Local: one client's stored data. The data are the canonical state, its cookie, the pending mutations, the newest
// confirmed mutations, and the failures. Each call changes memory at once, and then writes one transaction. The
// database commits the transactions in the order of the calls. So the stored data are consistent, even if a tab ends at
// any moment.

import { Confirmed } from "./confirmed.js";
import { within } from "./database.js";
import { State } from "./draft.js";
import { StratalogError } from "./errors.js";
import { COMMITTED, NEVER, OPEN, REFUSED } from "./pushDecision.js";
import { canonical, encodedBytes } from "./values.js";

const PENDING_MAX = 10_000;
const FAILURES_MAX = 1000;
const REJECTIONS_SHOWN_VERSIONS = 1000;
const UNKNOWN = "the answer was lost or came from another document; the mutation may have been applied";
const LOST = "the server has gone back to a history without this confirmed mutation";
const UNTOLD = "the mutation was committed, but the server no longer reports whether it was rejected";

export class Local {
  state = new State();
  /** {tabLease, sequence, id, name, args, sent, answer, reason, isDurable}, in order of `sequence`. */
  pending = [];
  failures = [];
  #confirmed = new Confirmed();
  #database;
  #facts;
  #fault = null;

  static async open(database, tabLease) {
    const [facts, keys, values, pending, confirmed, failures] = await database.read((store) => [
      store("tabLeases").get(tabLease),
      store("items").getAllKeys(within(tabLease)),
      store("items").getAll(within(tabLease)),
      store("pending").getAll(within(tabLease)),
      store("confirmed").getAll(within(tabLease)),
      store("failures").getAll(within(tabLease)),
    ]);
    const local = new Local(database, facts ?? { tabLease, sequence: 0, cookie: null });
    keys.forEach(([, key], index) => local.state.set(key, canonical(values[index])));
    local.pending = pending.map((waiting) => ({ ...waiting, args: canonical(waiting.args), isDurable: true }));
    local.#confirmed = new Confirmed(confirmed);
    local.failures = failures;
    await local.#begin(facts === undefined);
    return local;
  }

  constructor(database, facts) {
    this.#database = database;
    this.#facts = facts;
  }

  get client() {
    return this.#facts.client;
  }

  get group() {
    return this.#facts.group;
  }

  get cookie() {
    return this.#facts.cookie;
  }

  /**
   * Add a mutation under the next id. Returns the mutation, and a promise that resolves when it is durable. Throws and
   * adds nothing if an earlier write failed or PENDING_MAX mutations are pending.
   */
  add(name, args) {
    if (this.#fault) throw this.#fault;
    if (this.pending.length >= PENDING_MAX) {
      throw new StratalogError("limit-exceeded", "too many mutations are pending", { limit: PENDING_MAX });
    }
    const { tabLease, next } = this.#facts;
    const sequence = ++this.#facts.sequence;
    const row = { tabLease, sequence, id: next, name, args, sent: NEVER, answer: "", reason: null };
    const waiting = { ...row, isDurable: false };
    this.#facts.next = next + 1;
    const durable = this.#store([waiting]).then(() => {
      waiting.isDurable = true;
      return waiting;
    });
    this.pending.push(waiting);
    return { waiting, durable };
  }

  /** Remove a mutation that the browser could not store. It was never sent. */
  withdraw(waiting, reason) {
    this.pending = this.pending.filter((other) => other !== waiting);
    return { settled: [{ waiting, status: "rejected", reason }], durable: null };
  }

  /**
   * Return the mutations to send next: at most `countMax` durable mutations, from the oldest unanswered mutation on.
   * Together they have at most `bytesTarget` bytes as a push sends them, unless the first mutation alone has more.
   */
  batch(countMax, bytesTarget) {
    const start = this.pending.findIndex(({ answer }) => !answer);
    const batch = [];
    let size = 0;
    for (const waiting of start < 0 ? [] : this.pending.slice(start, start + countMax)) {
      size += encodedBytes(this.mutation(waiting));
      if (!waiting.isDurable || (batch.length && size > bytesTarget)) break;
      batch.push(waiting);
    }
    return batch;
  }

  /** Return a pending mutation as a push sends it. */
  mutation({ id, name, args }) {
    return { client: this.client, id, name, args };
  }

  /** Call this method before sending `batch`, because the server may commit a mutation as soon as it arrives. */
  async noteSending(batch) {
    await this.#note(
      batch.filter(({ sent }) => sent !== OPEN),
      { sent: OPEN },
    );
  }

  /**
   * Note that a push of `batch` committed nothing. `before` lists the mutations' `sent` before that push. A mutation
   * that was OPEN before stays OPEN, because an earlier push may have committed it.
   */
  async noteRefused(batch, before) {
    await this.#note(
      batch.filter((_, index) => before[index] !== OPEN),
      { sent: REFUSED },
    );
  }

  async noteQueued(batch) {
    await this.#note(batch, { answer: "queued" });
  }

  /** Store the outcomes in `pairs` of [mutation, outcome]. The mutations stay pending until a pull confirms them. */
  async noteCommitted(pairs) {
    for (const [waiting, { status, reason }] of pairs)
      Object.assign(waiting, { answer: status, reason: reason ?? null });
    if (pairs.length) await this.#store(pairs.map(([waiting]) => waiting));
  }

  async resendFrom(id) {
    await this.#note(
      this.pending.filter((waiting) => waiting.id >= id),
      { answer: "", reason: null },
    );
  }

  /**
   * Mark the queued mutations as unanswered, so that the next push sends them again. Call this method after a reload
   * or a long wait, because the server's queue may have lost the mutations.
   */
  async resendQueued() {
    await this.#note(
      this.pending.filter(({ answer }) => answer === "queued"),
      { answer: "" },
    );
  }

  /**
   * Settle a mutation as rejected, because the server refuses every push with it. Then continue as `reset` does. All
   * later mutations count as uncommitted.
   */
  refuse(waiting, reason) {
    const settled = [{ waiting, status: "rejected", reason }];
    return this.#reset(settled, ({ sequence }) => sequence > waiting.sequence);
  }

  /**
   * Continue as another client. A mutation is numbered anew if it was certainly not committed: it was never sent, all
   * its pushes were refused, or `uncommitted` is true for it. A mutation with a committed outcome is settled. Any other
   * mutation may have been committed, so it is not sent again and is settled as unknown.
   */
  reset(uncommitted = () => false) {
    return this.#reset([], uncommitted);
  }

  /** Apply a pull. A pull that is older than the state, or was requested with another cookie, changes nothing. */
  apply(asked, pulled) {
    const { cookie } = pulled;
    if (this.cookie !== asked || (asked && cookie.order < asked.order)) return { settled: [], durable: null };
    const elsewhere = asked !== null && cookie.origin !== asked.origin;
    if (elsewhere && !hasFullState(pulled)) {
      throw new StratalogError("corrupt", "the server's response is from another document, but lacks the full state");
    }
    for (const operation of pulled.patch) applyTo(this.state, operation);
    this.#facts.cookie = cookie;
    // The pull comes from another document, which does not know this client. That document may be a copy with the
    // effects of this client's mutations, or lack mutations that the former document confirmed. So the outcome of each
    // mutation that may be committed is unknown, unless it was rejected.
    if (elsewhere && !Object.hasOwn(pulled.last, this.client)) {
      const confirmed = this.pending.filter(({ answer }) => answer === "applied" || answer === "seen");
      for (const waiting of confirmed) waiting.answer = "";
      return this.#reset([], () => false, pulled.patch);
    }
    return this.#confirm(pulled, asked !== null && reportsRejections(asked, pulled));
  }

  async dropFailure(sequence) {
    this.failures = this.failures.filter((failure) => failure.sequence !== sequence);
    await this.#store([], (stores) => stores.failures.delete([this.#facts.tabLease, sequence]));
  }

  /** Delete another client of this browser that has no pending mutations. Its failures move to this client. */
  async inherit(other) {
    const { tabLease } = this.#facts;
    const failed = other.failures.map((failure) => ({ ...failure, tabLease, sequence: ++this.#facts.sequence }));
    const dropped = this.#fail(failed);
    await this.#store([], (stores) => {
      writeFailures(stores.failures, failed, dropped);
      const others = within(other.#facts.tabLease);
      for (const name of ["items", "pending", "confirmed", "failures"]) stores[name].delete(others);
      stores.tabLeases.delete(other.#facts.tabLease);
    });
  }

  async #begin(isNew) {
    this.#facts.used = Date.now();
    if (isNew) this.#becomeNew();
    await this.resendQueued();
    await this.#store([]);
  }

  #confirm(pulled, areRejectionsKnown) {
    const last = pulled.last[this.client] ?? 0;
    const confirmed = this.pending.filter(({ id }) => id <= last);
    // If the server confirms a mutation that this client never sent, the browser's data were copied, and another
    // browser uses the same client id.
    if (last >= this.#facts.next || confirmed.some(({ sent }) => sent === NEVER)) {
      return this.#reset([], () => false, pulled.patch);
    }
    const reasons = new Map(
      pulled.rejected.filter(({ client }) => client === this.client).map(({ id, reason }) => [id, reason]),
    );
    const lost = this.#confirmed.lose(pulled.lost[this.client] ?? []);
    const settled = [
      ...lost.map((row) => ({ waiting: row, status: "lost", reason: LOST })),
      ...confirmed.map((waiting) => settle(waiting, reasons.get(waiting.id), areRejectionsKnown)),
    ];
    // The server answered these mutations before this pull. The pull does not confirm them, so the document lacks them,
    // for example after a restore. The client sends them again.
    const open = this.pending.filter(({ id, answer }) => id > last && answer && answer !== "queued");
    for (const waiting of open) Object.assign(waiting, { answer: "", reason: null });
    return this.#settle(settled, open, pulled.patch, this.#remember(settled));
  }

  #reset(settled, uncommitted, patch = []) {
    this.#becomeNew();
    this.#confirmed = new Confirmed();
    const given = new Set(settled.map(({ waiting }) => waiting));
    const left = this.pending.filter((waiting) => !given.has(waiting));
    const again = left.filter((waiting) => uncommitted(waiting) || waiting.sent !== OPEN);
    const done = left.filter((waiting) => !again.includes(waiting));
    for (const waiting of again) {
      Object.assign(waiting, { id: this.#facts.next++, sent: NEVER, answer: "", reason: null });
    }
    const others = done.map((waiting) =>
      COMMITTED.has(waiting.answer)
        ? settle(waiting, undefined, false)
        : { waiting, status: "unknown", reason: UNKNOWN },
    );
    return this.#settle([...settled, ...others], again, patch, (store) => store.delete(within(this.#facts.tabLease)));
  }

  // Remember the newest applied mutations, because the server may go back to a history without them. Forget mutations
  // that the server has lost. Returns a function that makes the same changes in the store.
  #remember(settled) {
    const { tabLease } = this.#facts;
    const rowsOf = (wanted) =>
      settled
        .filter(({ status }) => status === wanted)
        .map(({ waiting: { sequence, id, name, args } }) => ({ tabLease, sequence, id, name, args }));
    const added = rowsOf("applied");
    const gone = [...rowsOf("lost"), ...this.#confirmed.add(added)];
    return (store) => {
      for (const row of added) store.put(row);
      for (const { sequence } of gone) store.delete([tabLease, sequence]);
    };
  }

  // Remove the settled mutations from memory and add the failures. Then write one transaction with these changes, the
  // patch, the changed mutations, the confirmed mutations, and `#facts`.
  #settle(settled, changed, patch, changeConfirmed) {
    const gone = new Set(settled.map(({ waiting }) => waiting));
    this.pending = this.pending.filter((waiting) => !gone.has(waiting));
    const failed = settled
      .filter(({ status }) => status !== "applied")
      .map(({ waiting, status, reason }) => {
        const { tabLease, sequence, name, args } = waiting;
        return { tabLease, sequence, name, args, status, reason };
      });
    const dropped = this.#fail(failed);
    const durable = this.#store(changed, (stores) => {
      this.#writePatch(stores.items, patch);
      for (const { tabLease, sequence } of gone) stores.pending.delete([tabLease, sequence]);
      changeConfirmed(stores.confirmed);
      writeFailures(stores.failures, failed, dropped);
    });
    return { settled, durable };
  }

  // Add failures, and drop the oldest beyond FAILURES_MAX. Returns the dropped failures.
  #fail(failed) {
    this.failures.push(...failed);
    return this.failures.splice(0, Math.max(0, this.failures.length - FAILURES_MAX));
  }

  #becomeNew() {
    Object.assign(this.#facts, { client: crypto.randomUUID(), group: crypto.randomUUID(), next: 1 });
  }

  // Throws after a failed write, before memory changes, so no push is sent.
  async #note(some, change) {
    if (this.#fault) throw this.#fault;
    for (const waiting of some) Object.assign(waiting, change);
    if (some.length) await this.#store(some);
  }

  #writePatch(items, patch) {
    const { tabLease } = this.#facts;
    for (const { op, key, value } of patch) {
      if (op === "put") items.put(value, [tabLease, key]);
      else items.delete(op === "clear" ? within(tabLease) : [tabLease, key]);
    }
  }

  // After a failed write, memory has changes that are not stored. The stored data stay consistent, because this object
  // writes nothing more.
  /** @param {any[]} changed @param {(stores: any) => void} more */
  async #store(changed, more = () => {}) {
    if (this.#fault) throw this.#fault;
    try {
      await this.#database.write((stores) => {
        more(stores);
        for (const { isDurable, ...waiting } of changed) stores.pending.put(waiting);
        stores.tabLeases.put(this.#facts);
      });
    } catch (error) {
      this.#fault = error;
      throw error;
    }
  }
}

function writeFailures(store, failed, dropped) {
  for (const failure of failed) store.put(failure);
  for (const { tabLease, sequence } of dropped) store.delete([tabLease, sequence]);
}

function settle(waiting, reason, areRejectionsKnown) {
  if (reason !== undefined || waiting.answer === "rejected") {
    return { waiting, status: "rejected", reason: reason ?? waiting.reason };
  }
  if (areRejectionsKnown || waiting.answer === "applied") return { waiting, status: "applied", reason: null };
  return { waiting, status: "unknown", reason: UNTOLD };
}

function applyTo(state, { op, key, value }) {
  if (op === "put") state.set(key, value);
  else if (op === "clear") state.clear();
  else state.remove(key);
}

// Whether the pull lists every rejection since `asked`. The server lists no rejections in a pull with the full state or
// over more than REJECTIONS_SHOWN_VERSIONS versions.
const reportsRejections = (asked, pulled) =>
  !hasFullState(pulled) && pulled.cookie.version - asked.version <= REJECTIONS_SHOWN_VERSIONS;

const hasFullState = ({ patch }) => patch.some(({ op }) => op === "clear");
