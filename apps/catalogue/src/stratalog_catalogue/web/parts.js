// Helpers: make an element in one line, and fetch from the server. Text is never parsed as markup, so the text of a
// record cannot inject markup.

import { fetchBody } from "/web/client/transfer.js";

const TOKEN = "stratalog token";
const YEAR_1_MS = Date.parse("0001-01-01");
const YEAR_10000_MS = Date.parse("+010000-01-01");

export const find = (selector) => document.querySelector(selector);

/** Make an element. An attribute `on…` adds a listener. An attribute whose value is false or undefined is omitted. */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...content.filter((part) => part !== null && part !== undefined && part !== ""));
  return element;
}

/**
 * Fetch JSON. After each 401, ask the user for a token and retry. For another error, throw an error with the server's
 * message and the HTTP status. If a gateway before the server answers with a page instead of JSON, the message has the
 * status. If no answer arrives, the message says so.
 */
export async function fetchJson(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const token = remembered();
  const { response, body } = await fetchBody(`${path}?${new URLSearchParams(given)}`, {
    headers: token ? { Authorization: `Bearer ${token}` } : {},
  }).catch((cause) => {
    throw new Error("The server cannot be reached.", { cause });
  });
  if (response.status === 401) return retryWithToken(path, query);
  const content = parsed(await body.text());
  if (response.ok && content !== undefined) return content;
  const message = content?.message ?? content?.error?.message ?? `The server answered ${response.status}.`;
  throw Object.assign(new Error(message), { status: response.status });
}

/** Whether a plain link works. A link cannot send a token, so it does not work if the page has a token. */
export const canLink = () => !remembered();

/**
 * Return a time in the local time zone. An external source may send a time that is not in the years 1 to 9999. Such a
 * time stays in milliseconds since 1970, as in the command line.
 */
export function moment(ms) {
  if (ms === null || ms === undefined) return "";
  return ms < YEAR_1_MS || ms >= YEAR_10000_MS ? `${ms} ms` : moments.format(new Date(ms));
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = bytes ? Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10)) : 0;
  return `${(bytes / 1024 ** power).toLocaleString("en", { maximumFractionDigits: power ? 1 : 0 })} ${units[power]}`;
}

const moments = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

/** Parse JSON. Return undefined for another text. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function remembered() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) sessionStorage.setItem(TOKEN, given);
  return sessionStorage.getItem(TOKEN);
}

function retryWithToken(path, query) {
  const text = prompt("This server asks for a token");
  if (!text) throw new Error("The server asks for a token.");
  sessionStorage.setItem(TOKEN, text.trim());
  return fetchJson(path, query);
}
