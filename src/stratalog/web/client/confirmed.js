// Confirmed: the newest mutations that the server has confirmed as applied. A server that is restored from an older
// backup, or replaced by another copy, may have lost some of these mutations. The client then reports the lost
// mutations.

import { encodedBytes } from "./values.js";

const COUNT_MAX = 1000;
const BYTES_MAX = 16 * 1024 * 1024; // of the arguments as JSON text in UTF-8

export class Confirmed {
  /** {tabLease, sequence, id, name, args} of each mutation, oldest first. */
  rows;
  #sizes = new WeakMap();

  constructor(rows = []) {
    this.rows = rows;
  }

  /** Remember more mutations. Returns the oldest mutations that no longer fit within COUNT_MAX or BYTES_MAX. */
  add(added) {
    this.rows.push(...added);
    const dropped = this.rows.splice(0, Math.max(0, this.rows.length - COUNT_MAX));
    // COUNT_MAX rows of at most BYTES_MAX / COUNT_MAX each fit within BYTES_MAX. Together with large rows they may take
    // up to twice BYTES_MAX, until the next large row is added.
    const isMuch = added.some((row) => this.#size(row) > BYTES_MAX / COUNT_MAX);
    return isMuch ? [...dropped, ...this.#dropLarge()] : dropped;
  }

  /** Forget the mutations in `ranges` and return them. A range [above, upTo] has the ids above < id <= upTo. */
  lose(ranges) {
    const isLost = ({ id }) => ranges.some(([above, upTo]) => id > above && id <= upTo);
    const lost = this.rows.filter(isLost);
    if (lost.length) this.rows = this.rows.filter((row) => !isLost(row));
    return lost;
  }

  #dropLarge() {
    let [first, size] = [this.rows.length, 0];
    while (first > 0 && (size += this.#size(this.rows[first - 1])) <= BYTES_MAX) first -= 1;
    return this.rows.splice(0, first);
  }

  #size(row) {
    if (!this.#sizes.has(row)) this.#sizes.set(row, encodedBytes(row.args));
    return this.#sizes.get(row);
  }
}
