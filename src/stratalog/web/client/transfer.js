// Transfer: one request and its whole response. A slow network may need minutes for a large body. So the time limit is
// on the wait for the next part of the response, not on the whole request.

const SILENCE_MS_MAX = 30_000;
const UPLOAD_BYTES_PER_MS_MIN = 4;
const UPLOAD_MS_MAX = 300_000;

/**
 * Call `fetch`, and read the whole body of the response. Returns the response and its body, a Blob.
 *
 * Throws the errors of `fetch`. Throws TimeoutError if no part of the response arrives for `silenceMs`. The first part
 * may also take the time that a slow network needs for the request's body: at 4 KB/s, but at most five minutes. `fetch`
 * does not report how much of a body the browser has sent.
 */
export async function fetchBody(url, options = {}, silenceMs = SILENCE_MS_MAX) {
  const controller = new AbortController();
  let timer;
  const allow = (ms) => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(new DOMException("no answer came in time", "TimeoutError")), ms);
  };
  allow(silenceMs + Math.min(UPLOAD_MS_MAX, sizeOf(options.body) / UPLOAD_BYTES_PER_MS_MIN));
  try {
    const response = await fetch(url, { ...options, signal: controller.signal });
    allow(silenceMs);
    const chunks = [];
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      allow(silenceMs);
      chunks.push(part.value);
    }
    return { response, body: new Blob(chunks, { type: response.headers.get("Content-Type") ?? "" }) };
  } finally {
    clearTimeout(timer);
  }
}

/** The size of a body in bytes. A text is sent in UTF-8. */
const sizeOf = (body) => new Blob([body ?? ""]).size;
