// The way to a server over HTTP: JSON bodies, and errors with the server's codes.

import { StratalogError } from "./errors.js";
import { decode, encode } from "./values.js";

const TIMEOUT_MS = 30_000;
const RETRY_AFTER_SECONDS_MAX = 300;

export class Http {
  #url;
  #token;
  #create;
  #live;
  /** The token that the server refused, and its answer; it is not asked about again.
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

  /** Ask again with a token that was refused. */
  retry() {
    this.#refused = null;
  }

  /** Where its live connections go, and which document to name there: beside it, unless an answer said otherwise. */
  live() {
    return this.#live;
  }

  /** What the server answers to a push or pull. Throws StratalogError; `retryAfter` in its details is in seconds. */
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
    // Said once more, for a gateway that unescapes it.
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
      // A browser does not say whether the request got there.
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

  // The token goes there, so never with less care than the requests themselves.
  #heed(url) {
    if (!(this.#url.startsWith("https:") ? /^wss:\/\// : /^wss?:\/\//).test(url)) return;
    const named = /\/organisations\/([^/]+)\/documents\/([^/]+)$/.exec(this.#url);
    const [, organisation, document] = /** @type {RegExpExecArray} */ (named);
    this.#live = { url, document: `${organisation}/${document}` };
  }
}

// What only the document can say is believed only in the server's own words: a proxy that gives up tells nothing.
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
