// Dom: makes elements, formats times and errors, saves files and shows messages. No function parses a text as markup.

/**
 * Make an element with attributes and content. An attribute with a name such as `onclick` adds a listener. The value
 * true sets an empty attribute. The values false, null and undefined omit the attribute.
 */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...content.filter((part) => part !== null && part !== undefined));
  return element;
}

/** @returns {any} */
export const find = (selector, /** @type {ParentNode} */ within = document) => within.querySelector(selector);

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** Return how long ago a time was, in words. For a time of 30 or more days ago, return the date and time. */
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 45) return "just now";
  for (const [unit, size] of UNITS) {
    const count = Math.round(seconds / size);
    if (seconds >= size * 0.75 && count < 30) return relative.format(-Math.max(1, count), unit);
  }
  return moment(ms);
}

/** Return a past time as text, with its day unless the day is today. */
export function moment(ms) {
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  return (isToday ? hours : days).format(date);
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const days = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

/** Offer a file to the user as a download. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Return an error as a sentence: its message without the details at its end. For an exceeded limit, the sentence also
 * has the limit and the value. Two codes have fixed sentences.
 */
export function sentence({ code, message, details }) {
  if (code === "not-found") return "Not found.";
  if (code === "outcome-unknown") return "The server cannot be reached.";
  const [text] = message.split(/ \w+=/);
  if (code === "limit-exceeded" && Number.isFinite(details?.limit)) return `${capital(text)}${excess(details)}.`;
  return `${capital(text)}${/[.?!…]$/.test(text) ? "" : "."}`;
}

export const capital = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

// `value` may be missing, because the server does not always count beyond the limit.
function excess({ value, limit }) {
  const counted = Number.isFinite(value) ? `: ${value.toLocaleString("en")}` : "";
  return `${counted} (the limit is ${limit.toLocaleString("en")})`;
}

let notices = null;

/** Show a message at the lower edge of the page for some seconds, below the earlier messages. */
export function toast(text, isBad = false) {
  const shown = make("p", { class: "notice", role: isBad ? "alert" : "status", "data-bad": isBad }, text);
  notices ??= make("div", { class: "notices" });
  document.body.append(notices);
  notices.append(shown);
  setTimeout(() => shown.remove(), isBad ? 8000 : 4000);
}
