// Sync cycle: pushes a replica's mutations to a server, and then pulls. A sync cycle recovers from data loss on either
// side.

import { NEVER, interpretPush } from "./pushDecision.js";

const PUSH_MUTATIONS_MAX = 1000;
// A network that sends 4 KiB a second sends a push of this size in 48 s. The server allows 63 s: 60 s, and a second for
// each 64 KiB. The rest of the time is for the headers and for pauses of the network.
const PUSH_BYTES_TARGET = 192 * 1024;
const QUEUED_MS_MAX = 30_000;
const SETBACKS_MAX = 4;
const LOST = new Set(["collected", "outcome-unknown", "unreached"]);
const GONE = new Set(["collected", "version-forgotten"]);
// A push that fails with one of these codes has certainly committed nothing.
const NOTHING_COMMITTED = new Set(["forbidden", "invalid", "limit-exceeded", "not-found", "unreached", ...GONE]);

export class SyncCycle {
  #replica;
  #http;
  #previous = Promise.resolve();
  #met = false;
  /** @type {number | null} */
  #queuedSince = null;

  constructor(replica, http) {
    this.#replica = replica;
    this.#http = http;
  }

  /**
   * Push the durable unanswered mutations, then pull. Throws the error of a failed request. The results of the earlier
   * requests stay stored. If the server has collected the group, try once more under another group. If a push is too
   * large for the server, send fewer mutations at once. Settle a mutation that is too large by itself as rejected.
   */
  run() {
    const cycle = this.#previous.then(() => this.#runAlone());
    this.#previous = cycle.catch(() => {});
    return cycle;
  }

  async #runAlone() {
    try {
      await this.#runOnce();
    } catch (error) {
      if (error.code !== "collected") throw error;
      await this.#replica.settle((local) => local.reset());
      await this.#runOnce();
    }
  }

  async #runOnce() {
    const { local } = this.#replica;
    // A client's first pull reports no rejections, so no push may come before the first pull. After a page load, also
    // pull before new mutations are sent. If the browser's data were copied, this pull shows whether the other copy
    // commits under the same client id.
    if (!local.cookie || (!this.#met && local.pending.some(({ sent }) => sent === NEVER))) await this.#pull();
    this.#met = true;
    await this.#resendQueued();
    try {
      await this.#pushAll();
    } catch (error) {
      // A server that refuses a client's push may still answer the client's pull.
      if (!LOST.has(error.code)) await this.#pull();
      throw error;
    }
    await this.#pull();
  }

  async #resendQueued() {
    if (this.#queuedSince !== null && performance.now() - this.#queuedSince > QUEUED_MS_MAX) {
      this.#queuedSince = null;
      await this.#replica.local.resendQueued();
    }
  }

  async #pushAll() {
    const { local } = this.#replica;
    let [size, wasBehind] = [PUSH_MUTATIONS_MAX, false];
    for (let setbacks = 0; setbacks < SETBACKS_MAX;) {
      const batch = local.batch(size, PUSH_BYTES_TARGET);
      if (!batch.length) return;
      const before = batch.map(({ sent }) => sent);
      let decision;
      try {
        decision = await this.#push(batch, before);
      } catch (error) {
        if (error.code !== "limit-exceeded") throw error;
        if (batch.length === 1) await this.#replica.settle(() => local.refuse(batch[0], error.message));
        size = Math.max(1, Math.floor(batch.length / 2));
        continue;
      }
      size = Math.min(2 * size, PUSH_MUTATIONS_MAX);
      const { isBehind = false, reset, resendFrom } = decision;
      await this.#follow(batch, decision);
      if (isBehind) await this.#catchUp(batch, before, wasBehind ? decision : null);
      wasBehind = isBehind;
      if (isBehind || reset || resendFrom !== undefined) setbacks += 1;
    }
  }

  /**
   * Handle a server that has lost confirmed mutations. First the client pulls, because a pull raises the server's last
   * mutation numbers of the group's clients. If the push after this pull shows that the server is still behind, `again`
   * is the decision of that push, and the client continues under another id. Otherwise `again` is null.
   */
  async #catchUp(batch, before, again) {
    if (again) return this.#replica.settle((local) => local.reset(again.uncommitted));
    await this.#replica.local.noteRefused(batch, before);
    return this.#pull();
  }

  async #push(batch, before) {
    const { local } = this.#replica;
    const { client, group, cookie } = local;
    const [first] = local.pending;
    await local.noteSending(batch);
    const mutations = batch.map((waiting) => local.mutation(waiting));
    try {
      const pushed = await this.#http.request("push", { group, mutations, origin: cookie?.origin ?? "" });
      return interpretPush(client, batch, before, pushed, first);
    } catch (error) {
      if (NOTHING_COMMITTED.has(error.code)) await local.noteRefused(batch, before);
      throw error;
    }
  }

  /** @param {import("./pushDecision.js").PushDecision} decision */
  async #follow(batch, decision) {
    const { queued, committed, resendFrom, reset, uncommitted } = decision;
    const { local } = this.#replica;
    await local.noteCommitted(committed);
    if (resendFrom !== undefined) await local.resendFrom(resendFrom);
    if (queued) {
      await local.noteQueued(batch);
      this.#queuedSince ??= performance.now();
      this.#replica.note();
    }
    if (reset) await this.#replica.settle(() => local.reset(uncommitted));
  }

  async #pull() {
    const { local } = this.#replica;
    const { group, cookie } = local;
    let pulled;
    try {
      pulled = await this.#http.request("pull", { group, cookie });
    } catch (error) {
      // If another principal owns the group, the server names the group in the error, and accepts no push of the group.
      // Without the name, the caller may only lack a right for a while, for example because the token has expired. Then
      // the client keeps the group. In a new group the client could neither resend a mutation whose answer was lost,
      // nor notice that a restored server has lost confirmed mutations.
      const leaves = error.code === "forbidden" && error.details.value === group;
      if (leaves) await this.#replica.settle(() => local.reset());
      throw error;
    }
    await this.#replica.settle(() => local.apply(cookie, pulled), pulled.patch);
  }
}
