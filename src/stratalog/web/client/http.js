// HTTP client of one document on a server: JSON bodies, and errors with the server's codes.

import { errorOf, invalid, StratalogError } from "./errors.js";
import { fetchBody } from "./transfer.js";
import { decode, encode } from "./values.js";

export class Http {
  #url;
  #token;
  #create;
  #live;
  /** The token that the server refused with 401, and the error. A request with this token throws the error at once.
   * @type {{token: string, error: StratalogError} | null} */
  #refused = null;

  constructor(url, { token = "", create = false } = {}) {
    this.#url = url;
    this.#token = typeof token === "function" ? token : () => token;
    this.#create = create;
    this.#live = { url: `${url.replace(/^http/, "ws")}/live` };
  }

  /** The application's token without white space around it. Throws `invalid` for a token that no header can contain. */
  async token() {
    const token = String((await this.#token()) ?? "").trim();
    if (!/^[\x20-\x7e]*$/.test(token)) throw invalid("a token must be printable ASCII text");
    return token;
  }

  /** Forget the refused token, so that the next request sends the token again. */
  retry() {
    this.#refused = null;
  }

  /** Return the URL for live connections, and the document that the first message must name.
   *
   * At first the URL is the document's own URL with `/live`, and the document is undefined. The header `Stratalog-Live`
   * of a successful response replaces the URL and the document. */
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
    const token = await this.token();
    if (this.#refused && this.#refused.token === token) throw this.#refused.error;
    if (token) headers.Authorization = `Bearer ${token}`;
    // A gateway may unescape the path, but not this header.
    const path = new URL(url).pathname;
    if (path.includes("%")) headers["Stratalog-Path"] = path;
    /** @type {RequestInit} */
    const options = { method, headers, body, credentials: "omit", cache: "no-store" };
    let response, text;
    try {
      const answer = await fetchBody(url, options);
      response = answer.response;
      text = await answer.body.text();
    } catch (error) {
      // `fetch` does not report whether the request reached the server.
      throw new StratalogError("outcome-unknown", "no answer came from the server", { reason: error.message });
    }
    const answer = parsed(text);
    if (!response.ok) {
      const error = errorOf(response, answer);
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

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
