// Live updates: a WebSocket for the server's pokes and the presence of all connections. When the connection ends,
// `Live` reconnects with back-off. `Live` sends the token in the first message, never in the URL.

import { Alarm, pauseMs } from "./backoff.js";
import { exceeded, invalid } from "./errors.js";
import { packedBytes } from "./values.js";

const SUBPROTOCOLS = ["stratalog.live.2", "stratalog.live.1"];
const INVALID_TOKEN = 4401;
const INVALID_MESSAGE = new Set([1009, 4400, 4413, 4422]);
const SILENCE_SECONDS_MAX = 60;
const PRESENCE_BYTES_MAX = 1024; // as MessagePack
const BACKOFF = { firstMs: 200, limitMs: 30_000 };

export class Live {
  /** The id of this connection in `present` and `principals`, or null while the connection is not ready. */
  id = null;
  /** The presence of each connection that shows a presence, by the connection's id. */
  present = {};
  /** The principal of each connection, by the connection's id, as the server authenticated it: `{id, name}`. */
  principals = {};
  #address;
  #token;
  #onPoke;
  #onPresence;
  #alarm = new Alarm();
  #stopped = true;
  #loop = Promise.resolve();
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {(() => void) | null} */
  #hangUp = null;
  /** The last message that shows a presence, as text, or null. @type {string | null} */
  #shown = null;
  #failures = 0;
  /** The last token that the server refused. This token is not sent again before `hurry`. */
  #refusedToken = null;
  #silenceSeconds = SILENCE_SECONDS_MAX;

  /** `address` returns the URL, and the document if the URL does not name it. `Live` calls `address` to connect. */
  constructor(address, token, { onPoke, onPresence }) {
    this.#address = address;
    this.#token = token;
    this.#onPoke = onPoke;
    this.#onPresence = onPresence;
  }

  start() {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#loop = this.#loop.then(() => this.#run());
  }

  stop() {
    this.#stopped = true;
    this.#hangUp?.();
    this.#alarm.ring();
  }

  /** Connect again without further waiting, even with a refused token. */
  hurry() {
    this.#failures = 0;
    this.#refusedToken = null;
    if (!this.#socket && !this.#stopped) this.#alarm.ring();
  }

  /**
   * Show `state` to the other connections as this client's presence. A state of null removes the presence. Throws
   * TypeError for a state that is no JSON, `limit-exceeded` for a state over 1 KiB, and `invalid` for a whole number
   * beyond 64 bits. Then the earlier state stays.
   */
  show(state) {
    const text = JSON.stringify({ type: "presence", state });
    // A gateway in front of the server closes the connection for a large message with a code that hides the reason.
    if (packedBytes(JSON.parse(text).state ?? null) > PRESENCE_BYTES_MAX) {
      throw exceeded("the presence is too large", { limit: PRESENCE_BYTES_MAX });
    }
    this.#shown = state === null ? null : text;
    if (this.id) this.#send(text);
  }

  async #run() {
    while (!this.#stopped) {
      await this.#listen();
      this.#failures += 1;
      if (!this.#stopped) await this.#alarm.wait(pauseMs(this.#failures, BACKOFF));
    }
  }

  async #listen() {
    try {
      const token = await this.#token();
      // `stop` may have been called during the wait for the token.
      if (this.#stopped || token === this.#refusedToken) return;
      await new Promise((resolve) => this.#open(token, resolve));
    } catch {
      // The application's token function failed, or the browser refuses the WebSocket. The next try may succeed. The
      // sync cycle, which reads the token too, reports the token function's error.
    } finally {
      this.#socket = this.#hangUp = this.id = null;
      this.present = {};
      this.principals = {};
      this.#onPresence();
    }
  }

  #open(token, onEnd) {
    const { url, document } = this.#address();
    const socket = (this.#socket = new WebSocket(url, SUBPROTOCOLS));
    let silence;
    // End at once. If the server cannot be reached, a close event may come late or never.
    const hangUp = (this.#hangUp = () => {
      clearTimeout(silence);
      Object.assign(socket, { onopen: null, onmessage: null, onclose: null });
      socket.close();
      onEnd();
    });
    const listenOn = () => {
      clearTimeout(silence);
      silence = setTimeout(hangUp, this.#silenceSeconds * 1000);
    };
    this.#silenceSeconds = SILENCE_SECONDS_MAX;
    listenOn();
    socket.onopen = () => this.#send(JSON.stringify({ type: "hello", token, ...(document && { document }) }));
    socket.onmessage = ({ data }) => {
      this.#hear(JSON.parse(data));
      listenOn();
    };
    socket.onclose = ({ code, reason }) => {
      if (code === INVALID_TOKEN) this.#refusedToken = token;
      if (INVALID_MESSAGE.has(code) && this.id) this.#forgetShown(code, reason);
      hangUp();
    };
  }

  #hear(message) {
    if (message.type === "ready") {
      this.id = message.id;
      this.#failures = 0;
      this.#silenceSeconds = message.silence_seconds ?? SILENCE_SECONDS_MAX;
      if (this.#shown !== null) this.#send(this.#shown);
    }
    if (message.type === "here") this.#see(message.present, message.principals);
    if (message.type === "here-changed") {
      this.#see({ ...this.present, ...message.changed }, { ...this.principals, ...message.principals });
    }
    if (["here", "here-changed", "ready"].includes(message.type)) this.#onPresence();
    if (["ready", "poke", "gone"].includes(message.type)) this.#onPoke(message.version);
  }

  // A presence of null means that the connection shows nothing any more, so `present` omits the connection.
  #see(present, principals = {}) {
    const ids = Object.keys(present).filter((id) => present[id] !== null);
    const known = ids.filter((id) => Object.hasOwn(principals, id));
    this.present = Object.fromEntries(ids.map((id) => [id, present[id]]));
    this.principals = Object.fromEntries(known.map((id) => [id, { name: "", ...principals[id] }]));
  }

  // After the hello, presence is the only message to the server. If the client showed a refused state again, the server
  // would end each connection, and the client would get no pokes.
  #forgetShown(code, reason) {
    this.#shown = null;
    reportError(invalid("the server refused the presence", { code, reason }));
  }

  #send(text) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }
}
