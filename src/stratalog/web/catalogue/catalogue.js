// The catalogue's page: works that were found, one of them whole, and how its source's record changed.

import { ask, find, make, moment } from "./parts.js";
import { showWork } from "./work.js";

const PAUSE_MS = 180;
const LIMIT = 100;
const query = new URLSearchParams(location.search);
const base = `/v1/organisations/${encodeURIComponent(query.get("in") ?? "local")}/catalogue`;
let source = query.get("source") ?? "";
let latest = 0;
let timer = 0;

async function search() {
  const turn = ++latest;
  try {
    const found = await ask(`${base}/works`, { text: find("#search").value.trim(), source, limit: LIMIT });
    if (turn !== latest) return;
    find("#list").replaceChildren(...found.map(line));
    find("#hint").textContent = found.length === 0 ? "Nothing is called that." : found.length === LIMIT ? `The first ${LIMIT}. Say more to see others.` : "";
    mark();
  } catch (error) {
    find("#hint").textContent = error.message;
  }
}

function line({ source, id, title }) {
  const address = new URLSearchParams({ ...Object.fromEntries(query), source, id });
  const open = (event) => {
    event.preventDefault();
    history.pushState(null, "", `?${address}`);
    show();
  };
  const link = make("a", { href: `?${address}`, onclick: open }, make("b", {}, title || id), make("small", {}, `${source} · ${id}`));
  link.dataset.key = `${source}/${id}`;
  return make("li", {}, link);
}

/** The work that the address names. */
async function show() {
  const named = new URLSearchParams(location.search);
  mark();
  if (named.get("id")) await showWork(find("#work"), base, named.get("source"), named.get("id"));
}

function mark() {
  const named = new URLSearchParams(location.search);
  const key = `${named.get("source")}/${named.get("id")}`;
  for (const link of document.querySelectorAll("#list a")) link.setAttribute("aria-current", link.dataset.key === key);
}

async function count() {
  const { sources, dead_letters: letters } = await ask(`${base}/stats`, {});
  const works = sources.reduce((sum, { works }) => sum + works, 0);
  const dead = Object.values(letters).reduce((sum, number) => sum + number, 0);
  const newest = Math.max(0, ...sources.map(({ as_of_ms }) => as_of_ms));
  find("#counts").replaceChildren(
    ...(sources.length ? [`${works.toLocaleString("en")} works, as of ${moment(newest)}`] : ["Nothing was scanned yet"]),
    ...(dead ? [" · ", make("b", {}, dead === 1 ? "1 dead letter" : `${dead.toLocaleString("en")} dead letters`)] : []),
  );
  const choices = [["", "All", works], ...sources.map(({ source, works }) => [source, source, works])];
  find("#sources").replaceChildren(...choices.map(choice));
}

function choice([name, label, works]) {
  const choose = () => {
    source = name;
    for (const button of find("#sources").children) button.setAttribute("aria-pressed", button.dataset.name === source);
    search();
  };
  const button = make("button", { type: "button", "aria-pressed": String(name === source), onclick: choose }, label, make("small", {}, works.toLocaleString("en")));
  button.dataset.name = name;
  return button;
}

find("#search").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, PAUSE_MS);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input")) return;
  event.preventDefault();
  find("#search").focus();
});
addEventListener("popstate", show);
count().catch((error) => (find("#counts").textContent = error.message));
search();
show();
