// HTTP client of one document on a server: JSON bodies, and errors with the server's codes.

import { StratalogError } from "./errors.js";
import { decode, encode } from "./values.js";

const TIMEOUT_MS = 30_000;
const RETRY_AFTER_SECONDS_MAX = 300;

export class Http {
  #url;
  #token;
  #create;
  #live;
  /** The token that the server refused with 401, and the error. A request with it is not sent, and throws the error.
   * @type {{token: string, error: StratalogError} | null} */
  #refused = null;

  constructor(url, { token = "", create = false } = {}) {
    this.#url = url;
    this.#token = typeof token === "function" ? token : () => token;
    this.#create = create;
    this.#live = { url: `${url.replace(/^http/, "ws")}/live` };
  }

  token() {
    return this.#token();
  }

  /** Forget the refused token, so that the next request sends it again. */
  retry() {
    this.#refused = null;
  }

  /** Return the URL for live connections, and the document to name in their first message.
   *
   * At first the URL is the document's own with `/live`, and no document is named. The header `Stratalog-Live` of a
   * successful response replaces both. */
  live() {
    return this.#live;
  }

  /** Send a push or pull and return the server's answer. Throws StratalogError.
   *
   * The error for an unsuccessful response has `details.retryAfter`, in seconds. */
  async request(verb, question) {
    if (this.#create) {
      await this.#send("PUT", this.#url);
      this.#create = false;
    }
    return this.#send("POST", `${this.#url}/${verb}`, encode(question));
  }

  async #send(method, url, body) {
    /** @type {Record<string, string>} */
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const token = await this.#token();
    if (this.#refused && this.#refused.token === token) throw this.#refused.error;
    if (token) headers.Authorization = `Bearer ${token}`;
    // A gateway may unescape the path; the header keeps it as it was sent.
    const path = new URL(url).pathname;
    if (path.includes("%")) headers["Stratalog-Path"] = path;
    /** @type {RequestInit} */
    const options = {
      method,
      headers,
      body,
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    };
    let response, text;
    try {
      response = await fetch(url, options);
      text = await response.text();
    } catch (error) {
      // `fetch` does not report whether the request reached the server.
      throw new StratalogError("outcome-unknown", "no answer came from the server", { reason: error.message });
    }
    const answer = parsed(text);
    if (!response.ok) {
      const error = problem(response, answer);
      if (response.status === 401) this.#refused = { token, error };
      throw error;
    }
    this.#heed(response.headers.get("Stratalog-Live") ?? "");
    if (answer === undefined) throw new StratalogError("corrupt", "the server's response cannot be decoded");
    return decode(answer);
  }

  // The live connection sends the token. So a client with an https: URL accepts only an encrypted address.
  #heed(url) {
    if (!(this.#url.startsWith("https:") ? /^wss:\/\// : /^wss?:\/\//).test(url)) return;
    const named = /\/organisations\/([^/]+)\/documents\/([^/]+)$/.exec(this.#url);
    const [, organisation, document] = /** @type {RegExpExecArray} */ (named);
    this.#live = { url, document: `${organisation}/${document}` };
  }
}

// The code is taken from the server's error body. Without a code the response may be a proxy's, which does not show
// whether the request took effect: 500 and above, and 408, are then "outcome-unknown". With any body, 429 is
// "unreached" and 401 "forbidden".
function problem(response, answer) {
  const { status } = response;
  const guess = status >= 500 || status === 408 ? "outcome-unknown" : status === 404 ? "not-found" : "invalid";
  const code = status === 429 ? "unreached" : status === 401 ? "forbidden" : (answer?.code ?? guess);
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "0", 10) || 0;
  const retryAfter = Math.min(Math.max(0, seconds), RETRY_AFTER_SECONDS_MAX);
  return new StratalogError(code, answer?.message ?? "the server refused", { status, retryAfter });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
