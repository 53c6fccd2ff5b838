// Live updates: a WebSocket for the server's pokes and the presence of all connections. When the connection ends,
// `Live` reconnects with back-off. `Live` sends the token in the first message, never in the URL.

import { Alarm, pauseMs } from "./backoff.js";
import { exceeded, invalid } from "./errors.js";
import { packedBytes } from "./values.js";

const SUBPROTOCOLS = ["stratalog.live.2", "stratalog.live.1"];
const INVALID_TOKEN = 4401;
const SILENCE_SECONDS_MAX = 60;
const PRESENCE_BYTES_MAX = 1024; // as MessagePack
const TRIAL_MS = 10_000; // a function behind a gateway may need seconds to start, and then refuse a presence
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
  /** The presence that this connection sent last, until the connection has outlived it by `TRIAL_MS`. */
  #tried = null;
  /** The presence that an earlier connection sent just before its end. */
  #suspected = null;
  #trial;
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
   * TypeError for a state that is no JSON, and `limit-exceeded` for a state over 1 KiB. Then the earlier state stays.
   */
  show(state) {
    const text = JSON.stringify({ type: "presence", state });
    const { state: decoded = null } = JSON.parse(text);
    if (packedBytes(decoded) > PRESENCE_BYTES_MAX) {
      throw exceeded("the presence is too large", { limit: PRESENCE_BYTES_MAX });
    }
    this.#shown = state === null ? null : text;
    if (this.id) this.#sendPresence(text);
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
      if (token === this.#refusedToken) return;
      await new Promise((resolve) => this.#open(token, resolve));
    } catch {
      // The application's token function failed, or the browser refuses the WebSocket. The next try may succeed. The
      // sync cycle, which reads the token too, reports the token function's error.
    } finally {
      clearTimeout(this.#trial);
      this.#socket = this.#hangUp = this.id = this.#tried = null;
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
      else if (this.#tried !== null) this.#suspect(this.#tried, code, reason);
      hangUp();
    };
  }

  #hear(message) {
    if (message.type === "ready") {
      this.id = message.id;
      if (this.#suspected === null) this.#failures = 0;
      this.#silenceSeconds = message.silence_seconds ?? SILENCE_SECONDS_MAX;
      this.#sendPresence(this.#shown);
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

  #sendPresence(text) {
    if (text !== null) this.#send(text);
    this.#tried = text;
    clearTimeout(this.#trial);
    this.#trial = setTimeout(() => {
      this.#tried = this.#suspected = null;
      this.#failures = 0;
    }, TRIAL_MS);
  }

  // A server refuses a presence by ending the connection. If the client always showed the refused state again, it would
  // get no pokes. A gateway chooses the close code, and a connection may also end by chance. So the client shows the
  // state once more, and forgets the state if that connection ends too.
  #suspect(text, code, reason) {
    const isRefused = text === this.#suspected && text === this.#shown;
    this.#suspected = text;
    if (!isRefused) return;
    this.#shown = null;
    reportError(invalid("the server refused the presence", { code, reason }));
  }

  #send(text) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }
}
