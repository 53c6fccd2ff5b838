// Dom: elements made in one line. Text is always text, so nothing that anybody typed becomes markup.

/** An element with attributes (`on…` listens, true and false set and leave out) and what is in it. */
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

/** How long ago, in words that a person would use. */
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 45) return "just now";
  for (const [unit, size] of UNITS) {
    const count = Math.round(seconds / size);
    if (seconds >= size * 0.75 && count < 30) return relative.format(-Math.max(1, count), unit);
  }
  return moment(ms);
}

/** A moment of the past, with its day where that is not today. */
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

/** Give a file to the user. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** What went wrong, as a sentence: a message without the details that it ends with. */
export function sentence({ code, message }) {
  if (code === "not-found") return "Not found.";
  if (code === "outcome-unknown") return "The server cannot be reached.";
  const [text] = message.split(/ \w+=/);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!…]$/.test(text) ? "" : "."}`;
}

/** A word at the lower edge that goes away again. */
export function toast(text, isBad = false) {
  const shown = make("p", { class: "told", role: isBad ? "alert" : "status", "data-bad": isBad }, text);
  document.body.append(shown);
  setTimeout(() => shown.remove(), isBad ? 8000 : 4000);
}
