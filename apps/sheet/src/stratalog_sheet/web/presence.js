// Presence: the other users of the sheet and their positions. The live connection sends and receives the positions, and
// the engine shows them.

import { cut } from "./names.js";

const PAUSE_MS = 80;
const NAME_CHARACTERS_MAX = 40;

export class Presence {
  /** The presence of the other users, by connection: `{id, name, position}`. */
  people = new Map();
  #live;
  #emit;
  #shown = null;
  #timer = null;

  /** `emit(message)` gives the engine a message. */
  constructor(emit) {
    this.#emit = emit;
  }

  attach(live) {
    this.#live = live;
  }

  /** Share this page's position, which the engine reports with `message`. */
  say(message) {
    this.#shown = message.type === "CLIENT_LEFT" ? null : message.client;
    if (this.#timer === null) this.#timer = setTimeout(() => this.#send(), PAUSE_MS);
  }

  /** Share this page's new name. */
  rename(name) {
    if (this.#shown) this.say({ type: "CLIENT_MOVED", client: { ...this.#shown, name } });
  }

  /** Give the engine the presence of the other users, as the live connection states it now. */
  hear() {
    const { id, present, principals } = this.#live;
    const now = new Map(
      Object.entries(present)
        .filter(([connection]) => connection !== id)
        .map(([connection, state]) => [connection, person(connection, state, principals[connection])]),
    );
    for (const client of now.values()) this.#emit({ type: "CLIENT_MOVED", version: 1, client });
    for (const [connection, { id: clientId }] of this.people) {
      if (!now.has(connection)) this.#emit({ type: "CLIENT_LEFT", version: 1, clientId });
    }
    this.people = now;
  }

  #send() {
    this.#timer = null;
    const { name = "", position } = this.#shown ?? {};
    this.#live?.show(this.#shown && { name, position });
  }
}

// Other clients may send any presence. So this function uses only the parts that the engine can draw, under an id that
// another connection cannot take. If the server states the connection's principal, the page shows the principal's name,
// or the id of a principal without a name.
function person(connection, state, principal) {
  const { name: own, position } = Object(state);
  const name = principal ? principal.name || principal.id : (own ?? "");
  const client = { id: `live/${connection}`, name: cut(String(name), NAME_CHARACTERS_MAX) || "Somebody" };
  const { sheetId, col, row } = Object(position);
  const isCell = typeof sheetId === "string" && Number.isInteger(col) && Number.isInteger(row) && col >= 0 && row >= 0;
  return isCell ? { ...client, position: { sheetId, col, row } } : client;
}
