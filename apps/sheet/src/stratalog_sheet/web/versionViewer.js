// Version viewer: a sheet at any of its versions, in a separate read-only model. To go forward, the viewer applies
// entries. To go back, the viewer takes entries back. If `rewind` cannot take them back, the viewer makes a new model.

import { makeModel, prepared, rewind } from "./engine.js";

const CLIENT = { id: "past", name: "past" };

export class VersionViewer {
  model = null;
  version = -1;
  #server;
  #path;
  #page;
  #base = null;
  #entries = [];
  #transport = new Silent();
  #turn = 0;

  constructor(server, path, page) {
    this.#server = server;
    this.#path = path;
    this.#page = page;
  }

  /**
   * Show a version, in the present model or in a new one. If a later call comes while this call waits for the server,
   * this call changes nothing.
   */
  async show(version) {
    const turn = ++this.#turn;
    if (!this.#reaches(version) && !(await this.#load(version, turn))) return;
    if (version === this.version) return;
    if (this.model && version > this.version) this.#forward(version);
    else if (!this.model || !this.#back(version)) this.#make(version);
    this.version = version;
  }

  /** Drop all loaded data, because the server has another history. */
  forget() {
    this.#drop();
    this.#base = null;
    this.#entries = [];
    this.#turn++;
  }

  /** The marks of the page, which the canvas draws. */
  get marks() {
    return this.#page.marks;
  }

  /** The entry of a version, if the entry is loaded. */
  entry(version) {
    return this.#entries[version - (this.#base?.version ?? 0) - 1];
  }

  #reaches(version) {
    const { version: base } = this.#base ?? { version: Infinity };
    return version >= base && version <= base + this.#entries.length;
  }

  /** Load a version's entries, or another base. Returns false if another turn has begun meanwhile. */
  async #load(version, turn) {
    if (this.#base && version > this.#base.version) {
      const after = this.#base.version + this.#entries.length;
      const { entries, reload } = await this.#server.get(`${this.#path}/entries`, { after });
      if (turn !== this.#turn) return false;
      if (!reload) this.#entries.push(...untilRestore(entries));
      if (this.#reaches(version)) return true;
    }
    const { base, data, entries } = await this.#server.get(`${this.#path}/load`, { at: version });
    if (turn !== this.#turn) return false;
    this.#base = { version: base, text: JSON.stringify(data) };
    this.#entries = untilRestore(entries);
    this.#drop();
    return true;
  }

  #drop() {
    Object.assign(this, { model: null, version: -1 });
  }

  #between(low, high) {
    const { version } = this.#base;
    return this.#entries.slice(low - version, high - version).flatMap(({ message }) => message ?? []);
  }

  #forward(version) {
    for (const message of this.#between(this.version, version)) this.#transport.emit(prepared(this.model, message));
  }

  #back(version) {
    const messages = this.#between(version, this.version);
    return !messages.length || rewind(this.model, messages);
  }

  #make(version) {
    this.#transport = new Silent();
    // Parse the text each time, because a model may change its data, and the next model needs the base unchanged.
    const data = JSON.parse(this.#base.text);
    const options = { client: CLIENT, transport: this.#transport, isReadOnly: true, page: this.#page };
    this.model = makeModel(data, this.#between(this.#base.version, version), options);
  }
}

// Return the entries before a restore. The later entries build on the restored state, so they need another base.
function untilRestore(entries) {
  const index = entries.findIndex(({ type }) => type === "restored");
  return index < 0 ? entries : entries.slice(0, index);
}

/** A transport that sends nothing, and gives the engine the emitted messages. */
class Silent {
  /** @type {(message: any) => void} */
  #callback = () => {};

  async sendMessage() {}

  onNewMessage(id, callback) {
    this.#callback = callback;
  }

  leave() {}

  emit(message) {
    this.#callback(message);
  }
}
