// Workbook: a sheet that is open in this page. The transport connects the workbook's model to the log. With the offline
// cache, the page can open the sheet again without the server, or with only new entries from the server. The offline
// cache also stores each typed change until its commit.

import { Live } from "/web/client/live.js";
import { Conflicts } from "./conflicts.js";
import { ConflictWatch } from "./conflictWatch.js";
import { dropWaitingUndo, freeze, makeModel, noteHistory, pendingOf, queuedOf, refusedIn } from "./engine.js";
import { historyLost, Loader } from "./loader.js";
import { OfflineCache } from "./offlineCache.js";
import { Presence } from "./presence.js";
import { token } from "./server.js";
import { isPassing, Transport } from "./transport.js";

/**
 * If more entries than this came while the page was closed, and no change is pending, the cells of conflicts do not
 * follow these entries.
 */
const FOLLOWED_ENTRIES_MAX = 200;

export class Workbook extends EventTarget {
  model = null;
  facts = null;
  /** Whether the user wants to be online. The network may still be down. */
  isOnline = true;
  /** The error that ended synchronisation for good; otherwise null. */
  fault = null;
  presence;
  conflicts = new Conflicts();
  #server;
  #sheet;
  #me;
  #offlineCache = null;
  #loader;
  #live;
  #transport = null;
  #isSaving = false;
  #isComplete = true;
  #page;
  #watch;
  #entries = new Map();

  /**
   * `me.name` is the author's name, which others see. `page` has functions and marks of the page, for its plugins of
   * the engine and for the conflict watch.
   */
  constructor(server, sheet, me, page = {}) {
    super();
    this.#server = server;
    this.#sheet = sheet;
    this.#me = me;
    this.#page = { ...page, onUndoRefused: (isRedo) => this.#watch.missUndo(isRedo) };
    this.#watch = new ConflictWatch(this.conflicts, () => this.model, page.across);
    this.conflicts.addEventListener("removed", () => this.#save());
    this.presence = new Presence((message) => this.#transport?.emit(message));
  }

  get version() {
    return this.#transport?.version ?? 0;
  }

  /** The title of the sheet, or its name if the sheet has no title. */
  get title() {
    return this.facts?.title || this.#sheet;
  }

  /** Whether the sheet was deleted for good. Pending changes stay stored until `forget`. */
  get isDeleted() {
    return this.fault?.code === "not-found";
  }

  /** Whether the model has applied each entry completely. Otherwise the model's state is the state of no version. */
  get isComplete() {
    return this.#isComplete;
  }

  get isReadOnly() {
    return Boolean(this.facts?.read_only || this.#me.isReader);
  }

  /** One of: opening, saved, saving, offline, disconnected, ended. */
  get connectionStatus() {
    if (this.fault) return "ended";
    if (!this.model) return "opening";
    if (!this.isOnline) return "offline";
    if (this.#transport.lastError) return "disconnected";
    return this.waiting ? "saving" : "saved";
  }

  /** Whether pending changes outlive the page. */
  get hasOfflineCache() {
    return this.#offlineCache?.isStored ?? false;
  }

  /** The number of uncommitted changes. */
  get waiting() {
    return this.model ? this.model.session.pendingMessages.length : 0;
  }

  /** The committed commands that the engine cannot execute: `{version, author, reason, command}`. */
  get refused() {
    const refused = this.model ? refusedIn(this.model) : [];
    const committed = refused.filter(({ id }) => this.#entries.has(id));
    return committed.map((each) => ({ ...each, ...this.#entries.get(each.id) }));
  }

  /** Open the sheet, from the offline cache and from the server. Throws if neither has the sheet. */
  async open() {
    this.#offlineCache = await OfflineCache.open(this.#server.path(this.#sheet)).catch(() => null);
    this.#loader = new Loader(this.#server, this.#sheet, this.#offlineCache, (error) => this.#announce("error", error));
    await this.#load();
    this.#live = new Live(
      () => this.#server.live(this.#sheet),
      async () => token.get(),
      {
        onPoke: (version) => this.#transport.poke(version),
        onPresence: () => this.#hear(),
      },
    );
    this.presence.attach(this.#live);
    this.goOnline();
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
  }

  goOnline() {
    this.isOnline = true;
    if (this.fault) return;
    this.#transport.start();
    this.#live.start();
    this.#announce("state");
  }

  goOffline() {
    this.isOnline = false;
    this.#transport.stop();
    this.#live.stop();
    this.#dropWaitingUndo();
    this.#announce("state");
  }

  /**
   * Delete this tab's pending changes and conflicts. Also delete the sheet's cache, unless another tab has pending
   * changes or conflicts.
   */
  async forget() {
    await this.#offlineCache?.forget();
  }

  close() {
    this.#live.stop();
    this.#transport.stop();
    this.model.session.leave();
    this.#offlineCache?.close();
  }

  async #load() {
    const empty = { snapshot: null, entries: [], pending: null, conflicts: null };
    const cached = (await this.#offlineCache?.load()) ?? empty;
    const { facts, loaded, fault } = await this.#loader.load(cached);
    Object.assign(this, { facts, fault });
    this.conflicts.load(structuredClone(cached.conflicts));
    try {
      await this.#makeFirst(cached, loaded);
    } catch (error) {
      await this.#makeWithout(cached, loaded, error);
    }
    if (this.isDeleted) freeze(this.model);
  }

  async #makeFirst(cached, loaded) {
    if (isLeft(cached, loaded)) {
      this.#make(cached.snapshot, cached.entries, cached.pending);
      // After an error that a retry may solve, the transport repeats the exchange.
      await this.#exchange(loaded).catch((error) => {
        if (!isPassing(error)) throw error;
        this.#transport.requestReload();
      });
    } else this.#make(loaded.snapshot, loaded.entries, cached.pending, cached.conflicts?.version);
  }

  /**
   * Open the sheet without the pending changes, because the engine fails with them. Otherwise each reload would fail
   * again. The page lists the changes as conflicts.
   */
  async #makeWithout({ snapshot, entries, pending, conflicts }, loaded, error) {
    this.conflicts.load(structuredClone(conflicts));
    this.#make(loaded.snapshot, loaded.entries, null);
    const known = idsOf(loaded.entries);
    const waiting = (pending?.messages ?? []).filter(({ nextRevisionId }) => !known.has(nextRevisionId));
    this.#watch.noteUnopened(waiting, error);
    const version = (pending ?? conflicts)?.version;
    const cachedBase = [snapshot, ...entries].find((each) => each?.version === version);
    const moves = cachedBase ? await this.#movesTo(loaded, cachedBase).catch(() => []) : [];
    for (const command of moves) this.conflicts.move(command);
    this.#save();
  }

  /**
   * Make the model from the snapshot, the entries up to the version of the pending changes, and the pending changes.
   * Then give the model the later entries, which rebase the pending changes. Without pending changes, `followed` is the
   * version of the conflicts' positions.
   */
  #make(snapshot, entries, pending, followed = Infinity) {
    this.#isComplete = false;
    const isBase = pending !== null && snapshot.version <= pending.version;
    const isNear = snapshot.version <= followed && (entries.at(-1)?.version ?? 0) - followed <= FOLLOWED_ENTRIES_MAX;
    const base = isBase ? pending.version : pending === null && isNear ? followed : Infinity;
    const first = entries.filter(({ version }) => version <= base);
    const known = idsOf(entries);
    const transport = this.#newTransport(first.at(-1) ?? snapshot);
    const client = { id: crypto.randomUUID(), name: this.#me.name };
    const messages = first.flatMap(({ message }) => message ?? []);
    const options = { client, transport, isReadOnly: this.isReadOnly, page: this.#page };
    this.model = makeModel(snapshot.data ?? JSON.parse(snapshot.text), messages, options);
    for (const message of pending?.messages ?? []) {
      if (isBase || !known.has(message.nextRevisionId)) this.#watch.redo(message);
    }
    for (const entry of entries) this.#know(entry);
    transport.take(entries.slice(first.length));
    this.#isComplete = true;
    this.model.on("update", this, () => this.#change());
    this.model.on("unexpected-revision-id", this, () => this.#transport.requestReload());
    this.#announce("model");
  }

  #newTransport(start) {
    const path = this.#server.path(this.#sheet);
    const append = `${path}/append?author=${encodeURIComponent(this.#me.name)}`;
    const log = {
      append: (message, version, hash) =>
        this.#server.post(append, { message: this.#watch.dated(message, version), version, hash }),
      read: (after, hash) => this.#server.get(`${path}/entries`, { after, hash }),
    };
    return (this.#transport = new Transport(start, log, {
      onEntry: (entry) => this.#note(entry),
      onState: () => this.#react(),
      onRefused: (message, error) => this.#refuse(message, error),
      onReload: (cause) => this.#reload(cause),
      onEnd: (error) => this.#end(error),
      onPresence: (message) => this.presence.say(message),
      give: (entry, emit) => this.#give(entry, emit),
    }));
  }

  /**
   * Load a new model from the server, and repeat the pending changes, for example after a restore. `without` is the id
   * of a pending message to drop, because the server refused the message or an older entry already has it. Throws
   * before the replacement of the model if a request fails. If a retry may help, the transport calls this method again.
   */
  async #reload({ without, isLost }) {
    const { facts, loaded } = await this.#loader.loadNewest();
    this.facts = facts;
    await this.#exchange(loaded, without);
    if (this.isOnline) this.goOnline();
    if (!isLost) return;
    this.#announce("lost");
    this.#announce("error", historyLost());
  }

  /** Replace the model by a model of the loaded data. Move the pending changes to the new positions of their cells. */
  async #exchange(loaded, without = "") {
    await this.#catchUp();
    const moves = await this.#movesTo(loaded);
    this.#announce("reload");
    this.#dropWaitingUndo();
    // The `reload` event has committed the open edit. Store the edit, in case the engine fails to make the next model.
    this.#store();
    // Move the pending changes only now, so that changes typed during the requests are moved, too.
    this.#watch.carry(moves, this.version, (message) => this.#transport.emit(message));
    const messages = pendingOf(this.model).filter(({ nextRevisionId }) => nextRevisionId !== without);
    this.model.off("update", this);
    this.model.session.leave();
    this.#transport.stop();
    this.#make(loaded.snapshot, loaded.entries, { version: -1, messages });
    this.#save();
  }

  /** Give the model the entries before a restore. A sent change that is among these entries is no longer pending. */
  async #catchUp() {
    const asked = { after: this.version, hash: this.#transport.hash };
    const answer = this.#server.get(this.#server.path(this.#sheet, "/entries"), asked);
    const { entries } = await answer.catch(unlessPassing({ entries: [] }));
    this.#transport.take(beforeRestore(entries));
  }

  /**
   * Fetch the commands that move cells from `shown` to the loaded version. Returns an empty list if the server cannot
   * compute these commands.
   */
  async #movesTo({ snapshot, entries }, shown = this.#transport) {
    const target = entries.at(-1)?.version ?? snapshot.version;
    const asked = { source: shown.version, target, hash: shown.hash };
    return this.#server.get(this.#server.path(this.#sheet, "/moves"), asked).catch(unlessPassing([]));
  }

  #refuse(message, error) {
    if (error) this.#announce("error", error);
    if (error) this.#watch.noteRefused(message, error);
    if (message.type === "REMOTE_REVISION") this.#transport.requestReload({ without: message.nextRevisionId });
    else this.#dropWaitingUndo();
  }

  /** Take back waiting undos while there is no connection, because the engine accepts no change before their commit. */
  #react() {
    if (this.#transport.lastError) this.#dropWaitingUndo();
    this.#announce("state");
  }

  #dropWaitingUndo() {
    const dropped = this.model ? dropWaitingUndo(this.model, () => this.#transport.withdraw()) : [];
    if (dropped.length) this.#watch.noteDropped(dropped);
  }

  #give(entry, emit) {
    this.#isComplete = false;
    this.#watch.give(entry, emit);
    this.#isComplete = true;
    this.#announce("given");
  }

  #know({ version, author, message }) {
    if (message) this.#entries.set(message.nextRevisionId, { version, author });
  }

  #note(entry) {
    this.#know(entry);
    if (entry.data?.title) this.facts = { ...this.facts, title: entry.data.title };
    this.#offlineCache?.putEntries([entry]);
    if (entry.message) noteHistory(this.model, entry.message);
    this.dispatchEvent(new CustomEvent("entry", { detail: entry }));
  }

  #change() {
    this.#watch.date(this.version);
    this.#save();
  }

  /** Store the pending changes, once for each burst of changes. A microtask runs before the page can end. */
  #save() {
    if (this.#isSaving) return;
    this.#isSaving = true;
    queueMicrotask(() => {
      this.#isSaving = false;
      this.#store();
      this.#announce("state");
    });
  }

  /** Store the pending changes. If the engine failed, keep the changes that were stored before the failure. */
  #store() {
    if (!this.#isComplete) return;
    const waiting = [...pendingOf(this.model), ...queuedOf(this.model, this.version)];
    const stored = this.#offlineCache?.putPending(this.version, waiting, this.facts.incarnation, this.conflicts);
    stored?.catch((error) => this.#announce("error", error));
  }

  /** End synchronisation for good. The model accepts no more edits, because the page could not send them. */
  #end(error) {
    if (this.#isComplete) this.#dropWaitingUndo();
    this.fault = error;
    this.#live?.stop();
    this.#announce(this.isDeleted ? "gone" : "fault");
    this.#announce("state");
    freeze(this.model);
  }

  #hear() {
    this.presence.hear();
    this.#announce("people");
  }

  #hurry() {
    if (!this.isOnline || this.fault) return;
    this.#live.hurry();
    this.#transport.poke();
  }

  #announce(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** Return the entries before a restore. The model cannot apply later entries. */
function beforeRestore(entries) {
  const index = entries.findIndex(({ type }) => type === "restored");
  return index < 0 ? entries : entries.slice(0, index);
}

/** Return a handler of errors that returns `fallback`, but throws an error that a retry may solve. */
const unlessPassing = (fallback) => (error) => {
  if (isPassing(error)) throw error;
  return fallback;
};

/** Whether the loaded data begin after the version of the pending changes, for example after a restore. */
const isLeft = ({ snapshot, pending }, loaded) =>
  snapshot !== null && snapshot.version <= pending?.version && pending.version < loaded.snapshot.version;

const idsOf = (entries) => new Set(entries.map(({ message }) => message?.nextRevisionId));
