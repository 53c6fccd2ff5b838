// Back-off: wait times that grow exponentially up to a cap, with full jitter, but not below the server's `Retry-After`.

export function pauseMs(failures, { firstMs, limitMs, retryAfter = 0, random = Math.random }) {
  const limit = Math.min(limitMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(random() * limit, retryAfter * 1000, 1);
}

/** A wait that `ring` ends early. */
export class Alarm {
  /** @type {((value?: unknown) => void) | null} */
  #ring = null;
  #rung = false;

  /** End the current wait. If there is no current wait, the next wait ends at once. */
  ring() {
    this.#rung = true;
    this.#ring?.();
  }

  /** Cancel an earlier `ring` that no wait has used yet. */
  calm() {
    this.#rung = false;
  }

  /** Wait until `ring`, or for `ms` milliseconds. */
  async wait(ms) {
    if (!this.#rung) {
      let timer;
      await new Promise((resolve) => {
        this.#ring = resolve;
        timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
      this.#ring = null;
    }
    this.#rung = false;
  }
}
