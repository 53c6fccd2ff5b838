// Helpers: make an element in one line, and fetch from the server. Text is never parsed as markup, so the text of a
// record cannot inject markup.

const TOKEN = "stratalog token";
const TIMEOUT_MS = 30_000;

export const find = (selector) => document.querySelector(selector);

/** Make an element. An attribute `on…` adds a listener. An attribute whose value is false is omitted. */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...content.filter((part) => part !== null && part !== undefined && part !== ""));
  return element;
}

/** Fetch JSON. Throws an error with the server's message. After each 401, ask the user for a token and retry. */
export async function fetchJson(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const token = remembered();
  const answer = await fetch(`${path}?${new URLSearchParams(given)}`, {
    headers: token ? { Authorization: `Bearer ${token}` } : {},
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (answer.status === 401) return retryWithToken(path, query);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.message ?? body.error?.message ?? `The server answered ${answer.status}.`);
  return body;
}

/** Whether a plain link works. A link cannot send a token, so it does not work if the page has a token. */
export const canLink = () => !remembered();

export function moment(ms) {
  return ms === null || ms === undefined ? "" : moments.format(new Date(ms));
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
