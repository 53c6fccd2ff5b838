// Workbook: a sheet that is open in this page. The transport connects its model to the log. With the offline cache it
// opens again after fetching only new entries, or without the server, and keeps all typed changes.

import { StratalogError } from "/web/client/errors.js";
import { Live } from "/web/client/live.js";
import { Conflicts } from "./conflicts.js";
import { ConflictWatch } from "./conflictWatch.js";
import { dropWaitingUndo, freeze, makeModel, noteHistory, pendingOf } from "./engine.js";
import { OfflineCache } from "./offlineCache.js";
import { Presence } from "./presence.js";
import { token } from "./server.js";
import { LOST, Transport } from "./transport.js";

const BEHIND_ENTRIES_MAX = 1500;
/** Conflicts follow the entries that came while the page was closed, unless there are more than this. */
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
  #live;
  #transport = null;
  #isSaving = false;
  #isReloading = false;
  #page;
  #watch;

  /** `me.name` is the author's name, which others see. The page's plugins of the engine use `page`. */
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

  /** The title of the sheet; its name if it has no title. */
  get title() {
    return this.facts?.title || this.#sheet;
  }

  /** Whether the sheet was deleted for good. Pending changes stay stored until `forget`. */
  get isDeleted() {
    return this.fault?.code === "not-found";
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
    return this.#offlineCache !== null;
  }

  /** The number of uncommitted changes. */
  get waiting() {
    return this.model ? this.model.session.pendingMessages.length : 0;
  }

  /** Open the sheet, from the offline cache and from the server. Throws if neither has it. */
  async open() {
    this.#offlineCache = await OfflineCache.open(this.#server.path(this.#sheet)).catch(() => null);
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

  /** Delete this tab's pending changes, and the sheet's cache unless another tab has pending changes. */
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
    this.conflicts.load(cached.conflicts);
    let loaded;
    try {
      await this.#fetchFacts();
      this.#checkIncarnation(cached);
      loaded = await this.#fetch(cached);
    } catch (error) {
      loaded = await this.#fallBack(cached, error);
    }
    if (isLeft(cached, loaded)) {
      this.#make(cached.snapshot, cached.entries, cached.pending);
      await this.#exchange(loaded);
    } else this.#make(loaded.snapshot, loaded.entries, cached.pending, cached.conflicts?.version);
    if (this.isDeleted) freeze(this.model);
  }

  async #fetchFacts() {
    this.facts = await this.#server.get(this.#server.path(this.#sheet, "/"));
    this.#server.incarnation = this.facts.incarnation;
  }

  /** Check that the pending changes are not of a deleted sheet whose name was reused. Throws, or drops them, if so. */
  #checkIncarnation(cached) {
    const known = cached.snapshot?.facts.incarnation;
    const typed = cached.pending && (cached.pending.incarnation ?? known);
    if (!typed || typed === this.facts.incarnation) return;
    if (typed === known) throw new StratalogError("not-found", "the sheet was deleted, and its name was reused");
    // Another tab has cached the new sheet, so the snapshot below these changes is gone. Drop them.
    cached.pending = null;
    const text = "pending changes were dropped, because they belong to a deleted sheet of this name";
    this.#announce("error", new StratalogError("conflict", text));
  }

  /** Return the cached sheet if the server is away, or if the sheet is deleted with changes pending. Else throws. */
  async #fallBack(cached, error) {
    const isGone = error.code === "not-found";
    const isShown = cached.snapshot && (isGone ? cached.pending : error.code === "outcome-unknown");
    if (isGone && !isShown) await this.#offlineCache?.forget();
    if (!isShown) throw error;
    const title = cached.entries.findLast(({ data }) => data?.title)?.data.title ?? cached.snapshot.facts.title;
    const version = cached.entries.at(-1)?.version ?? cached.snapshot.version;
    this.facts = { ...cached.snapshot.facts, title, version };
    this.#server.incarnation = this.facts.incarnation;
    if (isGone) this.fault = error;
    return cached;
  }

  /** Return the snapshot and entries to begin with: the cached ones, if they are near enough to the newest version. */
  async #fetch(cached) {
    const { snapshot, entries } = cached;
    const path = this.#server.path(this.#sheet, "/load");
    if (snapshot?.facts.incarnation === this.facts.incarnation && this.#isNear(cached)) {
      const { version: after, hash } = entries.at(-1) ?? snapshot;
      const answer = await this.#server
        .get(path, { known: snapshot.version, after, hash })
        .catch((error) => this.#leaveLost(cached, error));
      if (answer?.data === null && !hasRestore(answer.entries)) {
        this.#offlineCache.putEntries(answer.entries);
        return { snapshot, entries: [...entries, ...answer.entries] };
      }
    }
    const answer = await this.#server.get(path);
    const fresh = { version: answer.base, hash: answer.hash, facts: this.facts };
    // Store the data as text, because the browser stores and reads an object more slowly.
    this.#offlineCache?.putSnapshot({ ...fresh, text: JSON.stringify(answer.data) });
    this.#offlineCache?.putEntries(answer.entries);
    return { snapshot: { ...fresh, data: answer.data }, entries: answer.entries };
  }

  /** The server has lost the cached history, so the pending changes will be repeated on the server's state. */
  #leaveLost({ pending }, error) {
    if (error.code !== LOST) throw error;
    if (pending) pending.version = -1;
    this.#announceLoss();
  }

  #announceLoss() {
    const text =
      "the server went back to an older state of this sheet. Later versions are lost, your pending changes are kept";
    this.#announce("error", new StratalogError(LOST, text));
  }

  /** Whether to use the cached snapshot. Pending changes need it in any case, to be rebased. */
  #isNear({ snapshot, pending }) {
    return pending !== null || this.facts.version - snapshot.version <= BEHIND_ENTRIES_MAX;
  }

  /**
   * Make the model from the snapshot, the entries up to the version of the pending changes, these changes, and then the
   * later entries, which rebase them. Without pending changes, `followed` is the version of the conflicts' positions.
   */
  #make(snapshot, entries, pending, followed = Infinity) {
    const isBase = pending !== null && snapshot.version <= pending.version;
    const isNear = snapshot.version <= followed && (entries.at(-1)?.version ?? 0) - followed <= FOLLOWED_ENTRIES_MAX;
    const base = isBase ? pending.version : pending === null && isNear ? followed : Infinity;
    const first = entries.filter(({ version }) => version <= base);
    const known = new Set(entries.map(({ message }) => message?.nextRevisionId));
    const transport = this.#newTransport(first.at(-1) ?? snapshot);
    const client = { id: crypto.randomUUID(), name: this.#me.name };
    const messages = first.flatMap(({ message }) => message ?? []);
    const options = { client, transport, isReadOnly: this.isReadOnly, page: this.#page };
    this.model = makeModel(snapshot.data ?? JSON.parse(snapshot.text), messages, options);
    for (const message of pending?.messages ?? []) {
      if (isBase || !known.has(message.nextRevisionId)) this.#watch.redo(message);
    }
    transport.take(entries.slice(first.length));
    this.model.on("update", this, () => this.#change());
    this.model.on("unexpected-revision-id", this, () => this.reload());
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
      onReload: () => this.reload(),
      onLost: () => this.#leaveBranch(),
      onEnd: (error) => this.#end(error),
      onPresence: (message) => this.presence.say(message),
      give: (entry, emit) => this.#watch.give(entry, emit),
    }));
  }

  /** Load a new model from the server and repeat the pending changes: after a restore, or when too far behind. */
  async reload(without = "") {
    if (this.#isReloading) return;
    this.#isReloading = true;
    this.#transport.stop();
    try {
      await this.#fetchFacts();
      const loaded = await this.#fetch({ snapshot: null, entries: [], pending: null });
      await this.#exchange(loaded, without);
      if (this.isOnline) this.goOnline();
    } catch (error) {
      this.#end(error);
    } finally {
      this.#isReloading = false;
    }
  }

  /** Replace the model by one of the loaded data. Pending changes are moved to the new positions of their cells. */
  async #exchange(loaded, without = "") {
    await this.#catchUp();
    const moves = await this.#movesTo(loaded);
    this.#announce("reload");
    this.#dropWaitingUndo();
    // Move the pending changes only now, so that those typed during the requests are moved, too.
    this.#watch.carry(moves, this.version, (message) => this.#transport.emit(message));
    const messages = pendingOf(this.model).filter(({ nextRevisionId }) => nextRevisionId !== without);
    this.model.off("update", this);
    this.model.session.leave();
    this.#make(loaded.snapshot, loaded.entries, { version: -1, messages });
  }

  /** Take the entries before a restore: a sent change may be among them, and is then no longer pending. */
  async #catchUp() {
    const asked = { after: this.version, hash: this.#transport.hash };
    const answer = this.#server.get(this.#server.path(this.#sheet, "/entries"), asked);
    const { entries } = await answer.catch(() => ({ entries: [] }));
    this.#transport.take(beforeRestore(entries));
  }

  /** Fetch how cells move from the shown version to the loaded one; nothing if the server cannot say. */
  async #movesTo({ snapshot, entries }) {
    const target = entries.at(-1)?.version ?? snapshot.version;
    const asked = { source: this.version, target, hash: this.#transport.hash };
    return this.#server.get(this.#server.path(this.#sheet, "/moves"), asked).catch(() => []);
  }

  /** Follow a server that went back to an older history, as from a backup. Pending changes are repeated on it. */
  async #leaveBranch() {
    await this.reload();
    this.#announce("lost");
    this.#announceLoss();
  }

  #refuse(message, error) {
    if (error) this.#announce("error", error);
    if (error) this.#watch.noteRefused(message, error);
    if (message.type === "REMOTE_REVISION") this.reload(message.nextRevisionId);
    else this.#dropWaitingUndo();
  }

  /** Take back waiting undos while the server is away: until it acknowledges them, the engine accepts no change. */
  #react() {
    if (this.#transport.lastError) this.#dropWaitingUndo();
    this.#announce("state");
  }

  #dropWaitingUndo() {
    const dropped = this.model ? dropWaitingUndo(this.model, () => this.#transport.withdraw()) : [];
    this.#watch.noteDropped(dropped);
  }

  #note(entry) {
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
      const waiting = pendingOf(this.model);
      const stored = this.#offlineCache?.putPending(this.version, waiting, this.facts.incarnation, this.conflicts);
      stored?.catch((error) => this.#announce("error", error));
      this.#announce("state");
    });
  }

  #end(error) {
    this.fault = error;
    this.#live?.stop();
    if (this.isDeleted) {
      this.#announce("gone");
      freeze(this.model);
    }
    this.#announce("state");
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

/** The entries before a restore. The model cannot take the later ones. */
function beforeRestore(entries) {
  const index = entries.findIndex(({ type }) => type === "restored");
  return index < 0 ? entries : entries.slice(0, index);
}

/** Whether the loaded data begin after the version of the pending changes, as after a restore. */
const isLeft = ({ snapshot, pending }, loaded) =>
  snapshot !== null && snapshot.version <= pending?.version && pending.version < loaded.snapshot.version;

const hasRestore = (entries) => entries.some(({ type }) => type === "restored");
