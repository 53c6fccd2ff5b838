// Server: requests to the sheet's own paths. An unsuccessful response raises the error of `errorOf`. Without a response
// the code is `outcome-unknown`.

import { errorOf, StratalogError } from "/web/client/errors.js";
import { fetchBody } from "/web/client/transfer.js";

/** The server reads or makes a whole file before it begins its response. */
const FILE_SILENCE_MS_MAX = 300_000;
const TOKEN = "stratalog token";

/** This tab's token, from a link's fragment or from the user. A browser sends no fragment to a server. */
export const token = {
  get: () => remembered() ?? "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
};

function remembered() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) sessionStorage.setItem(TOKEN, given);
  return sessionStorage.getItem(TOKEN);
}

/** If the error is a 401, ask the user for a token and reload the page. Returns false for other errors or no token. */
export function askForToken({ details }) {
  if (details?.status !== 401) return false;
  const text = prompt("This server asks for a token");
  if (!text) return false;
  token.set(text.trim());
  location.reload();
  return true;
}

export class Server {
  /** The incarnation that each request names. If it is empty, the server uses the sheet that now has the name. */
  incarnation = "";
  #live = null;

  constructor(organisation) {
    this.organisation = organisation;
    this.base = `/v1/organisations/${encodeURIComponent(organisation)}`;
  }

  path(sheet, rest = "") {
    return `${this.base}/sheets/${encodeURIComponent(sheet)}${rest}`;
  }

  /**
   * Return the address of a sheet's live connection. If a response has stated an address, return this address and the
   * document. Otherwise return the address of the log's live route.
   */
  live(sheet) {
    const own = new URL(`${this.base}/logs/${encodeURIComponent(sheet)}/live`, location.href);
    own.protocol = location.protocol.replace("http", "ws");
    const document = `${encodeURIComponent(this.organisation)}/${encodeURIComponent(sheet)}`;
    return this.#live ? { url: this.#live, document } : { url: own.href };
  }

  get(path, query = {}) {
    return this.#json("GET", path + queryString(query));
  }

  put(path, body) {
    return this.#json("PUT", path, body);
  }

  post(path, body) {
    return this.#json("POST", path, body);
  }

  delete(path, query = {}) {
    return this.#json("DELETE", path + queryString(query));
  }

  /** Send a file as it is. */
  async upload(path, query, file) {
    const options = { body: file, type: "application/octet-stream", silenceMs: FILE_SILENCE_MS_MAX };
    return parsed(await (await this.#send("POST", path + queryString(query), options)).body.text());
  }

  /** Return a file from the server, under the name that the response states. */
  async download(path, query = {}) {
    const options = { silenceMs: FILE_SILENCE_MS_MAX };
    const { body, headers } = await this.#send("GET", path + queryString(query), options);
    return new File([body], fileName(headers.get("Content-Disposition") ?? ""), { type: body.type });
  }

  async #json(method, path, body) {
    const options = body === undefined ? {} : { body: JSON.stringify(body), type: "application/json" };
    const text = await (await this.#send(method, path, options)).body.text();
    return text ? parsed(text) : null;
  }

  #exact(path) {
    if (!this.incarnation) return path;
    return `${path}${path.includes("?") ? "&" : "?"}incarnation=${encodeURIComponent(this.incarnation)}`;
  }

  /** Return a response's headers, and its body as a Blob. */
  async #send(method, path, { body = undefined, type = "", silenceMs = undefined }) {
    /** @type {Record<string, string>} */
    const headers = type ? { "Content-Type": type } : {};
    if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
    // A gateway may unescape the path, but the header keeps the path as the page sends it.
    const [raw] = path.split("?");
    if (raw.includes("%")) headers["Stratalog-Path"] = raw;
    /** @type {RequestInit} */
    const options = { method, headers, body, credentials: "omit" };
    let answer, content;
    try {
      // The connection may break off within the body. Without the body, the code of an error is unknown too.
      ({ response: answer, body: content } = await fetchBody(this.#exact(path), options, silenceMs));
    } catch (error) {
      // `fetch` does not report whether the request reached the server.
      throw new StratalogError("outcome-unknown", "no answer came from the server", { reason: error.message });
    }
    if (!answer.ok) throw errorOf(answer, decoded(await content.text()));
    // The live connection sends the token, so a page over https accepts only an encrypted address.
    const live = answer.headers.get("Stratalog-Live") ?? "";
    if ((location.protocol === "https:" ? /^wss:\/\// : /^wss?:\/\//).test(live)) this.#live = live;
    return { headers: answer.headers, body: content };
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new StratalogError("outcome-unknown", "the server's response cannot be decoded", { reason: error.message });
  }
}

/** Return the JSON of an error; null if a proxy has sent another body. */
function decoded(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function fileName(disposition) {
  const [, name] = /filename\*=UTF-8''([^;]*)/.exec(disposition) ?? [];
  return name ? decodeURIComponent(name) : "download";
}

function queryString(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
