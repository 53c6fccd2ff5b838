// What one client keeps: the canonical state, its cookie, and the mutations the server has not confirmed. Memory
// changes at once; what is kept follows in the same order, one transaction a call, so that a tab may end at any moment.

import { Confirmed } from "./confirmed.js";
import { within } from "./database.js";
import { State } from "./draft.js";
import { StratalogError } from "./errors.js";
import { COMMITTED, NEVER, OPEN, REFUSED } from "./pushDecision.js";
import { canonical } from "./values.js";

const PENDING_MAX = 10_000;
const FAILURES_MAX = 1000;
const REJECTIONS_SHOWN_VERSIONS = 1000;
const UNKNOWN =
  "it was sent, its answer was lost, and the server no longer knows this client: it may have been applied";
const LOST = "it was confirmed, but the server has gone back to a history without it";
const UNTOLD = "it was committed, but too long ago to be told whether it was rejected";

export class Local {
  state = new State();
  /** In order: {tabLease, sequence, id, name, args, sent, answer, reason}, and `isDurable` once it is. */
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

  /** Keep a mutation under the next number. Returns it, and a promise that it is durable. */
  add(name, args) {
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

  /** What to send next: from the oldest unanswered one on, as many as fit, and always one. */
  batch(countMax, textTarget) {
    const start = this.pending.findIndex(({ answer }) => !answer);
    const batch = [];
    let size = 0;
    for (const waiting of start < 0 ? [] : this.pending.slice(start, start + countMax)) {
      size += JSON.stringify(waiting.args).length;
      if (!waiting.isDurable || (batch.length && size > textTarget)) break;
      batch.push(waiting);
    }
    return batch;
  }

  /** Before they are sent: from here on each may be committed. */
  async noteSending(batch) {
    await this.#note(
      batch.filter(({ sent }) => sent !== OPEN),
      { sent: OPEN },
    );
  }

  /** One push of them committed nothing; `before` has how each stood then: an earlier one still may have. */
  async noteRefused(batch, before) {
    await this.#note(
      batch.filter((_, index) => before[index] !== OPEN),
      { sent: REFUSED },
    );
  }

  async noteQueued(batch) {
    await this.#note(batch, { answer: "queued" });
  }

  /** Pairs of mutation and outcome; the pull that shows their effect lets them go. */
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

  /** Whatever was queued and not applied for long is sent again: the queue may have lost it. */
  async resendQueued() {
    await this.#note(
      this.pending.filter(({ answer }) => answer === "queued"),
      { answer: "" },
    );
  }

  /** The server will not take this one in any form: give it up, and its number with it. */
  refuse(waiting, reason) {
    const settled = [{ waiting, status: "rejected", reason }];
    return this.#reset(settled, ({ sequence }) => sequence > waiting.sequence);
  }

  /**
   * Go on as another client. What was never sent, or is `uncommitted`, is numbered anew; what was answered is done; the
   * rest may have been committed, is not sent again, and is settled as unknown.
   */
  reset(uncommitted = () => false) {
    return this.#reset([], uncommitted);
  }

  /** Take over a pull, whole. One that is older than the state, or answers another question, changes nothing. */
  apply(asked, pulled) {
    const { cookie } = pulled;
    if (this.cookie !== asked || (asked && cookie.order < asked.order)) return { settled: [], durable: null };
    const elsewhere = asked !== null && cookie.origin !== asked.origin;
    if (elsewhere && !hasFullState(pulled)) {
      throw new StratalogError("corrupt", "the server's response changes to another document without its whole state");
    }
    for (const operation of pulled.patch) applyTo(this.state, operation);
    this.#facts.cookie = cookie;
    // A copy of the former document may hold its effects without knowing its clients.
    if (elsewhere && !Object.hasOwn(pulled.last, this.client)) return this.#reset([], () => false, pulled.patch);
    return this.#confirm(pulled, asked !== null && reportsRejections(asked, pulled));
  }

  async dropFailure(sequence) {
    this.failures = this.failures.filter((failure) => failure.sequence !== sequence);
    await this.#store([], (stores) => stores.failures.delete([this.#facts.tabLease, sequence]));
  }

  /** End another client of this browser, for which nothing waits: its failures are told here from now on. */
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
    // Somebody else commits under this client's id: what the browser keeps was copied.
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
    // A pull follows the pushes of its sync cycle: what it does not confirm is not there, whatever was answered.
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

  // Keep what was applied for a while: the server may go back behind it. The answer changes the store likewise.
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

  // Memory first, then one transaction with everything: the patch, what is settled, what has changed, and the facts.
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

  // The newest are kept; the answer is those that no longer are.
  #fail(failed) {
    this.failures.push(...failed);
    return this.failures.splice(0, Math.max(0, this.failures.length - FAILURES_MAX));
  }

  #becomeNew() {
    Object.assign(this.#facts, { client: crypto.randomUUID(), group: crypto.randomUUID(), next: 1 });
  }

  // What a failed write left in memory alone must not be taken for kept: nothing more is sent.
  async #note(some, change) {
    if (this.#fault) throw this.#fault;
    for (const waiting of some) Object.assign(waiting, change);
    if (some.length) await this.#store(some);
  }

  /** @param {any[]} changed @param {(stores: any) => void} more */
  #store(changed, more = () => {}) {
    return this.#write((stores) => {
      more(stores);
      for (const { isDurable, ...waiting } of changed) stores.pending.put(waiting);
      stores.tabLeases.put(this.#facts);
    });
  }

  #writePatch(items, patch) {
    const { tabLease } = this.#facts;
    for (const { op, key, value } of patch) {
      if (op === "put") items.put(value, [tabLease, key]);
      else items.delete(op === "clear" ? within(tabLease) : [tabLease, key]);
    }
  }

  // Once a write has failed, memory is ahead of what is kept, which is whole: nothing more is written until a reload.
  async #write(change) {
    if (this.#fault) throw this.#fault;
    try {
      await this.#database.write(change);
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

// Whether one that is committed and not among the rejected was applied: a server looks back only so far.
const reportsRejections = (asked, pulled) =>
  !hasFullState(pulled) && pulled.cookie.version - asked.version <= REJECTIONS_SHOWN_VERSIONS;

const hasFullState = ({ patch }) => patch.some(({ op }) => op === "clear");
