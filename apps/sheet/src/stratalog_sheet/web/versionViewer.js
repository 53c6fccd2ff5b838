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

  constructor(server, path, page) {
    this.#server = server;
    this.#path = path;
    this.#page = page;
  }

  /** Show a version. Returns whether the viewer made a new model for this version. */
  async show(version) {
    if (!this.#reaches(version)) await this.#load(version);
    if (version === this.version) return false;
    if (this.model && version > this.version) return this.#forward(version);
    if (this.model && this.#back(version)) return false;
    return this.#make(version);
  }

  /** Drop all loaded data, because the server has another history. */
  forget() {
    Object.assign(this, { model: null, version: -1 });
    this.#base = null;
    this.#entries = [];
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

  async #load(version) {
    if (this.#base && version > this.#base.version) {
      const after = this.#base.version + this.#entries.length;
      const { entries, reload } = await this.#server.get(`${this.#path}/entries`, { after });
      if (!reload) this.#entries.push(...untilRestore(entries));
      if (this.#reaches(version)) return;
    }
    const { base, data, entries } = await this.#server.get(`${this.#path}/load`, { at: version });
    this.#base = { version: base, text: JSON.stringify(data) };
    this.#entries = untilRestore(entries);
    this.model = null;
  }

  #between(low, high) {
    const { version } = this.#base;
    return this.#entries.slice(low - version, high - version).flatMap(({ message }) => message ?? []);
  }

  #forward(version) {
    for (const message of this.#between(this.version, version)) this.#transport.emit(prepared(this.model, message));
    this.version = version;
    return false;
  }

  #back(version) {
    const messages = this.#between(version, this.version);
    if (messages.length && !rewind(this.model, messages)) return false;
    this.version = version;
    return true;
  }

  #make(version) {
    this.#transport = new Silent();
    // Parse the text each time, because a model may change its data, and the next model needs the base unchanged.
    const data = JSON.parse(this.#base.text);
    const options = { client: CLIENT, transport: this.#transport, isReadOnly: true, page: this.#page };
    this.model = makeModel(data, this.#between(this.#base.version, version), options);
    this.version = version;
    return true;
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
