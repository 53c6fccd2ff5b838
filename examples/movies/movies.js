// The page: movies that several people edit at once. The client has all movies. The page asks the server only for the
// history.

import { connect } from "/web/client/stratalog.js";
import { make, say, titleOf, yearOf } from "./dom.js";
import { List } from "./list.js";
import { MUTATORS } from "./mutators.js";
import { Panel } from "./panel.js";

const DOCUMENT = "/v1/organisations/demo/documents/movies";
const NAMES = [
  "Ada",
  "Béla",
  "Chen",
  "Dana",
  "Emil",
  "Faye",
  "Gita",
  "Hugo",
  "Iris",
  "Jonas",
  "Kira",
  "Liam",
  "Mina",
  "Noor",
];
const ORDERS = {
  title: ([, left], [, right]) => titleOf(left).localeCompare(titleOf(right)),
  year: ([, left], [, right]) => yearOf(right).localeCompare(yearOf(left)),
  rating: ([, left], [, right]) => (right["IMDB Rating"] ?? -1) - (left["IMDB Rating"] ?? -1),
};
const FLASHES_MAX = 100;
const CHANGES_SHOWN = 100;
const number = new Intl.NumberFormat("en");
const at = (id) => document.getElementById(id);
const search = /** @type {HTMLInputElement} */ (at("search"));
/** The movie of a key, or null. @returns {any} */
const movieOf = (key) => client.get(key);

const me = JSON.parse(sessionStorage.getItem("me")) ?? {
  name: NAMES[Math.floor(Math.random() * NAMES.length)],
  hue: Math.floor(Math.random() * 360),
};
sessionStorage.setItem("me", JSON.stringify(me));

export const client = await connect(DOCUMENT, { mutators: MUTATORS });
const acts = [];
let order = null;
let mine = false;
let outcomes = new Map();
let people = [];

const list = new List(at("list"), { marksOf, onOpen, onEdit });
const panel = new Panel(at("panel"), { client, history, acts, onUndo: undo, onRetry, onRestore });

function movies() {
  const words = search.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  /** @type {[string, any][]} */
  const all = client.scan("movies/");
  const matches = all.filter(([, movie]) => {
    const text = `${titleOf(movie)} ${movie.Director ?? ""}`.toLocaleLowerCase();
    return words.every((word) => text.includes(word));
  });
  return order ? matches.sort(ORDERS[order]) : matches;
}

/** Run a mutation, and add it to `acts`, for the panel and for undo. */
async function act(key, name, args, text) {
  mine = true;
  const done = client.mutate(name, args);
  mine = false;
  try {
    const entry = { key, handle: await done, text };
    acts.push(entry);
    entry.handle.settled.then(drawAll);
  } catch (error) {
    acts.push({ key, handle: { status: "rejected" }, text, note: error.reason ?? error.message, undone: true });
  }
  drawAll();
}

function onEdit(key, field, text) {
  const movie = movieOf(key);
  if (!movie) return;
  if (field === "title") act(key, "retitle", { key, was: movie.Title, title: text }, `Title “${text}”`);
  else rateIt(key, text);
}

function rateIt(key, text) {
  const rating = text === "" ? null : Number(text.replace(",", "."));
  if (Number.isNaN(rating)) return;
  act(key, "rate", { key, rating }, rating === null ? "No rating" : `Rating ${rating}`);
}

async function onRetry(failure) {
  const { name, args } = failure;
  const movie = movieOf(args.key);
  await client.dismiss(failure);
  if (name === "retitle" && movie) {
    await act(args.key, name, { ...args, was: movie.Title }, `Title “${args.title}”`);
  } else {
    await act(args.key, name, args, "Again");
  }
}

async function onRestore(key, value) {
  await act(key, "put", { key, value }, "Brought back");
  panel.step(Infinity);
}

async function undo(entry) {
  entry.undone = true;
  try {
    for (const handle of await client.undo(entry.handle)) handle.settled.then(drawAll);
    entry.note = "undone";
  } catch (error) {
    entry.note = error.reason ?? error.message;
  }
  drawAll();
}

async function history(key) {
  const changes = [];
  const query = new URLSearchParams({ key, limit: String(CHANGES_SHOWN) });
  try {
    while (changes.length < CHANGES_SHOWN) {
      const answer = await fetch(`${DOCUMENT}/history?${query}`);
      if (!answer.ok) return null;
      const page = await answer.json();
      changes.push(...page.changes);
      if (page.next === null) break;
      query.set("at", page.next);
    }
  } catch {
    return null;
  }
  return changes;
}

function onOpen(key) {
  client.show({ ...me, key });
  location.replace(`#${key}`);
  panel.open(key);
}

/** Open the movie that the URL names, if the client has it. */
function openNamed() {
  const key = location.hash.slice(1);
  if (key && key !== list.open && client.has(key)) list.select(key);
}

function marksOf(key) {
  return { outcome: outcomes.get(key) ?? "", people: people.filter((person) => person.key === key) };
}

function drawAll() {
  outcomes = new Map(client.pending().flatMap((handle) => handle.keys.map((key) => [key, handle.status])));
  for (const { args, status } of client.failures) outcomes.set(Object(args).key, status);
  people = Object.values(client.others);
  list.draw();
  panel.draw();
  drawHeader();
}

function drawHeader() {
  const waiting = client.pending().length;
  const changes = `${number.format(waiting)} ${waiting === 1 ? "change waits" : "changes wait"}`;
  const failure = client.running && client.lastError ? "the last sync failed" : "";
  const parts = [`version ${number.format(client.version)}`, `${number.format(client.keys("movies/").length)} movies`];
  say(at("state"), [...parts, failure, waiting ? changes : ""].filter(Boolean).join(" · "));
  const status = client.lastError ? "disconnected" : waiting ? "waiting" : "even";
  document.body.dataset.connectionStatus = client.running ? status : "offline";
  at("online").setAttribute("aria-checked", String(client.running));
  say(at("online").firstChild, client.running ? "Online" : "Offline");
  const badge = ({ name, hue }, isMe) => {
    const element = make("i", { title: isMe ? `${name}: you` : name, className: isMe ? "me" : "" }, name[0]);
    element.style.setProperty("--hue", hue);
    return element;
  };
  at("people").replaceChildren(...people.map((person) => badge(person, false)), badge(me, true));
}

function toggle() {
  if (client.running) client.stop();
  else client.start();
  drawAll();
}

at("online").addEventListener("click", toggle);
search.addEventListener("input", () => {
  list.element.scrollTop = 0;
  list.show(movies());
});
search.addEventListener("keydown", (event) => {
  if (!["ArrowDown", "Enter", "Escape"].includes(event.key)) return;
  if (event.key === "Escape") search.value = "";
  list.show(movies());
  list.element.focus();
  if (event.key !== "Escape") list.move(0);
  event.preventDefault();
});
at("columns").addEventListener("click", ({ target }) => {
  const chosen = target instanceof HTMLElement && target.dataset.order;
  if (!chosen) return;
  order = order === chosen ? null : chosen;
  for (const button of at("columns").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.order === order));
  }
  list.show(movies());
});
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = acts.findLast((entry) => !entry.undone);
  const does = {
    "/": () => search.focus(),
    o: toggle,
    "[": () => panel.step(-1),
    "]": () => panel.step(1),
    u: () => last && undo(last),
  }[event.key];
  if (!does) return;
  does();
  event.preventDefault();
});

client.subscribe((keys) => {
  list.show(movies());
  openNamed();
  if (!mine && keys.length < FLASHES_MAX) keys.forEach((key) => list.flash(key));
}, "movies/");
client.watch(drawAll);
client.show({ ...me, key: null });

addEventListener("hashchange", openNamed);
list.show(movies());
openNamed();
list.element.focus();
drawAll();
