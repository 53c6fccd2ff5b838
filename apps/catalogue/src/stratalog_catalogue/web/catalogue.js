// The catalogue's page: a list of matching works, one work in full, and the history of its record. The address names
// the search and the work, so a reload or a link shows the same search and work again.

import { showOverview } from "./overview.js";
import { fetchJson, find, make, moment } from "./parts.js";
import { showWork } from "./work.js";

const PAUSE_MS = 180;
const LIMIT = 100;
const organisation = new URLSearchParams(location.search).get("in") ?? "local";
const base = `/v1/organisations/${encodeURIComponent(organisation)}/catalogue`;
/** On a narrow screen, the page shows either the list or a work. */
const narrow = matchMedia("(max-width: 760px)");
let turn = 0;
let timer = null;
let searched;
let shown;
/** The words and the source of the list. */
let listed;
let stats;

const named = (name) => new URLSearchParams(location.search).get(name) ?? "";
/** @returns {HTMLAnchorElement[]} */
const links = () => [...document.querySelectorAll("#list a")].map((link) => /** @type {any} */ (link));

/** Return the address with the given parameters changed. Empty parameters are left out. */
function address(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  return `?${query}`;
}

/** Change the address, and show its search and work. Add typed words that the page has not searched for yet. */
function go(changes, how = "pushState") {
  const typed = timer ? { q: find("#search").value.trim() } : {};
  clearTimeout(timer);
  timer = null;
  history[how](null, "", address({ ...typed, ...changes }));
  render();
}

/** Show the search and the work that the address names. */
function render() {
  if (find("#search").value.trim() !== named("q")) find("#search").value = named("q");
  for (const button of find("#sources").children) {
    button.setAttribute("aria-pressed", String(button.dataset.name === named("of")));
  }
  document.body.toggleAttribute("data-asked", Boolean(named("q") || named("of")));
  const before = listed;
  listed = JSON.stringify([named("q"), named("of")]);
  if (listed !== before) searched = search();
  show(listed === before);
}

async function search() {
  const mine = ++turn;
  try {
    const works = await fetchJson(`${base}/works`, { text: named("q"), source: named("of"), limit: LIMIT + 1 });
    if (mine !== turn) return;
    const focused = activeElement()?.dataset.key;
    find("#list").replaceChildren(...works.slice(0, LIMIT).map(line));
    if (focused) links().find(({ dataset }) => dataset.key === focused)?.focus();
    const more = works.length > LIMIT ? `Only the first ${LIMIT} works are shown. Add words to the search.` : "";
    const none = named("q") || named("of") ? "No works match the search." : "There are no works yet.";
    hint(works.length === 0 ? none : more);
    mark();
  } catch (error) {
    if (mine !== turn) return;
    listed = undefined; // so that the next click searches again
    // The list has the works of an earlier search, and would hide the message below it.
    find("#list").replaceChildren();
    hint(error.message);
  }
}

const hint = (text) => (find("#hint").textContent = text);

function line({ source, id, title, kind }) {
  const rest = title && title !== id ? id : kind;
  const words = [make("b", { dir: "auto" }, title || id), make("small", {}, rest ? `${source} · ${rest}` : source)];
  const link = make("a", { href: address({ source, id }), onclick: openHere }, ...words);
  link.dataset.key = `${source}/${id}`;
  return make("li", {}, link);
}

/** Show the work in this page on a click. With a modifier key, the browser opens a new tab or window as usual. */
function openHere(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const query = new URLSearchParams(event.currentTarget.search);
  go({ source: query.get("source"), id: query.get("id") });
}

/**
 * Show the work that the address names, or else the overview. A narrow screen, which hid the list, shows the line of a
 * closed work again, also if the user has closed it by the browser's Back. After another search it shows the first
 * line.
 */
async function show(isSameList) {
  const asked = { source: named("source"), id: named("id") };
  const key = asked.id ? `${asked.source}/${asked.id}` : "";
  mark();
  if (key === shown) return;
  const closed = shown;
  shown = key;
  document.body.toggleAttribute("data-open", Boolean(key));
  if (!key) {
    document.title = "Catalogue · Stratalog";
    if (stats) showOverview(find("#work"), stats, organisation, choose);
    if (closed && narrow.matches) isSameList ? returnToLine(closed) : scrollTo(0, 0);
    return;
  }
  const search = (words) => go({ q: words, of: "", source: "", id: "" });
  await showWork(find("#work"), base, asked, search, () => shown === key);
  if (!narrow.matches) return;
  find("#work").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function mark() {
  const key = `${named("source")}/${named("id")}`;
  for (const link of links()) link.setAttribute("aria-current", String(link.dataset.key === key));
}

const choose = (name) => go({ of: name });

async function count() {
  stats = await fetchJson(`${base}/stats`, {});
  const { sources, dead_letters: letters, more_dead_letters: hasMore } = stats;
  const works = sources.reduce((sum, { works }) => sum + works, 0);
  const dead = Object.values(letters).reduce((sum, number) => sum + number, 0);
  const newest = Math.max(0, ...sources.map(({ as_of_ms }) => as_of_ms));
  const many = `${hasMore ? "more than " : ""}${dead.toLocaleString("en")} dead letter${dead === 1 ? "" : "s"}`;
  find("#counts").replaceChildren(
    sources.length ? `${works.toLocaleString("en")} works, as of ${moment(newest)}` : "No source has been scanned yet",
    ...(dead ? [" · ", make("b", {}, many)] : []),
  );
  const choices = [["", "All", works], ...sources.map(({ source, works }) => [source, source, works])];
  find("#sources").replaceChildren(...choices.map(choice));
  if (shown === "") showOverview(find("#work"), stats, organisation, choose);
}

function choice([name, label, works]) {
  const pressed = String(name === named("of"));
  const number = make("small", {}, works.toLocaleString("en"));
  const facts = { type: "button", "aria-pressed": pressed, onclick: () => choose(name) };
  const button = make("button", facts, label, number);
  button.dataset.name = name;
  return button;
}

/** Move the focus by one line in the list. The search field counts as the line above the first line. */
function move(step) {
  const all = links();
  const index = all.findIndex((link) => link === activeElement());
  if (index + step < 0) find("#search").focus();
  else all[Math.min(index + step, all.length - 1)]?.focus();
}

/** Open the first work that matches the typed words. */
async function openFirst() {
  if (timer) go({}, "replaceState");
  await searched;
  links()[0]?.click();
}

/**
 * Move the focus from the work to its line in the list, or from the list to the search field. If the focus is in the
 * search field already, clear the search. On a narrow screen, close an open work instead.
 */
function back() {
  if (narrow.matches && shown) return close();
  const focused = activeElement();
  if (find("#work").contains(focused)) (links().find(isCurrent) ?? links()[0])?.focus();
  else if (focused === find("#search") && named("q")) go({ q: "" }, "replaceState");
  else find("#search").focus();
}

const close = () => go({ source: "", id: "" });

/** Move the focus to the line of a work, or to the search field if the list has no such line. */
function returnToLine(key) {
  const line = links().find(({ dataset }) => dataset.key === key);
  (line ?? find("#search")).focus({ preventScroll: true });
  line?.scrollIntoView({ block: "center" });
}

const activeElement = () => /** @type {HTMLElement | null} */ (document.activeElement);
const isCurrent = (link) => link.getAttribute("aria-current") === "true";

addEventListener("keydown", (event) => {
  const { key } = event;
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = target.closest("input, select");
  const isListed = target.closest("#list") || target === find("#search");
  if (key === "/" && !isTyping) find("#search").select();
  else if (key === "ArrowDown" && (isListed || target === document.body)) move(1);
  else if (key === "ArrowUp" && target.closest("#list")) move(-1);
  else if (key === "ArrowRight" && target.closest("#list")) find("#work").focus();
  else if (key === "Enter" && target === find("#search")) openFirst();
  else if (key === "Escape") back();
  else return;
  event.preventDefault();
});
find("#search").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => go({}, "replaceState"), PAUSE_MS);
});
find("#home").href = `?in=${encodeURIComponent(organisation)}`;
find("#home").addEventListener("click", (event) => {
  event.preventDefault();
  go({ q: "", of: "", source: "", id: "" });
});
find("#back").addEventListener("click", close);
addEventListener("popstate", render);
count().catch((error) => (find("#counts").textContent = error.message));
render();
