// How long to wait: capped exponential back-off with full jitter, never less than the server asked for.

export function pauseMs(failures, { firstMs, limitMs, retryAfter = 0, random = Math.random }) {
  const limit = Math.min(limitMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(random() * limit, retryAfter * 1000, 1);
}

/** Waits that can be cut short. */
export class Alarm {
  /** @type {((value?: unknown) => void) | null} */
  #ring = null;
  #rung = false;

  /** End the wait under way, or the next one before it begins. */
  ring() {
    this.#rung = true;
    this.#ring?.();
  }

  /** Forget that it was rung. */
  calm() {
    this.#rung = false;
  }

  /** Wait until rung, or for so long. */
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
