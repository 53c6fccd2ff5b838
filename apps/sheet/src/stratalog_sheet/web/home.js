// Home: the page of an organisation's sheets. The page has a list with keyboard navigation, and two ways to make a
// sheet. Each sheet that the user may change has a menu to rename or delete the sheet.

import { confirmInDialog } from "./confirm.js";
import { ago, find, make, moment, sentence, toast } from "./dom.js";
import { showFindings } from "./findings.js";
import { ownName } from "./identity.js";
import { openMenu } from "./menu.js";
import { addressOf, freshName } from "./names.js";
import { retitle } from "./retitle.js";
import { askForToken, Server } from "./server.js";

const REFRESH_MS = 15_000;
const ENDING = /\.(xls[xm]|csv)$/i;
const FILE_BYTES_MAX = 16 * 1024 * 1024;
const organisation = new URLSearchParams(location.search).get("in") ?? "local";
const server = new Server(organisation);
let sheets = [];
let isRetitling = false;
/** The message of a running import; otherwise empty. */
let importing = "";
/** The page shows the answer to a request for the list only if `turn` has not changed since the request. */
let turn = 0;
/** The number of requests for the list that are under way. */
let running = 0;

async function refresh() {
  const mine = ++turn;
  running++;
  try {
    const listed = await server.get(`${server.base}/sheets/`);
    if (mine !== turn) return;
    sheets = listed.sort((left, right) => right.changed_ms - left.changed_ms);
    show();
  } catch (error) {
    if (mine !== turn || askForToken(error)) return;
    hint(error.code === "outcome-unknown" ? "The server cannot be reached. Trying again…" : sentence(error), true);
  } finally {
    running--;
  }
}

/** Refresh a visible page, unless a request runs: a list of thousands of sheets may take longer than the interval. */
const refreshWhenIdle = () => document.hidden || running || refresh();

function show() {
  // A refresh would remove the input into which the user types a new title, or the menu that the user has opened.
  if (isRetitling || find(".menu")) return;
  const words = find("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ name, title }) => words.every((word) => `${title} ${name}`.toLowerCase().includes(word));
  const listed = sheets.filter(fits);
  const { name: focused, kind } = focusIn(document.activeElement);
  find("#list").replaceChildren(...listed.map(line));
  if (focused) find(kind, lines().find(({ dataset }) => dataset.name === focused) ?? document)?.focus();
  if (importing) hint(importing);
  else if (listed.length) hint("");
  else if (sheets.length) hint("No sheet has these words in its name or title.");
  else hint("No sheets yet. Begin an empty one, or drop an .xlsx or .csv file here.");
}

/** Return the name of the sheet whose line has the focus, and the selector of the focused part of the line. */
function focusIn(element) {
  const name = element?.closest?.("#list li")?.dataset.name;
  return { name, kind: element?.matches?.(".more") ? ".more" : "a" };
}

function line(sheet) {
  const { name, title, version, changed_ms, read_only } = sheet;
  const when = make(
    "time",
    { class: "changed", datetime: new Date(changed_ms).toISOString(), title: moment(changed_ms) },
    ago(changed_ms),
  );
  const words = make(
    "span",
    { class: "title", dir: "auto" },
    title || name,
    title && title !== name ? make("span", { class: "id", dir: "auto" }, name) : null,
  );
  const count = make(
    "span",
    { class: "versions" },
    version === 1 ? "1 version" : `${version.toLocaleString("en")} versions`,
  );
  const leaf = make("span", { class: "leaf", "aria-hidden": "true" });
  const link = make("a", { class: "row", href: addressOf(organisation, name) }, leaf, words, count, when);
  return make("li", { "data-name": name }, link, read_only ? null : moreOf(sheet));
}

function moreOf(sheet) {
  const more = make("button", {
    type: "button",
    class: "quiet icon more",
    "aria-label": `More for ${sheet.title || sheet.name}`,
    "aria-haspopup": "menu",
    "aria-expanded": "false",
  });
  const items = [
    ["Rename", () => rename(sheet)],
    ["Delete…", () => remove(sheet), "bad"],
  ];
  more.addEventListener("click", () => openMenu(more, items));
  return more;
}

/** Edit the title in place. Meanwhile the line is not a link. */
async function rename({ name, title, incarnation }) {
  const link = linkOf(name);
  if (!link || isRetitling) return;
  isRetitling = true;
  link.focus();
  const row = make("div", { class: "row" }, ...[...link.childNodes].map((node) => node.cloneNode(true)));
  const asked = new URLSearchParams({ author: ownName(), incarnation });
  const save = (text) => server.post(server.path(name, `/rename?${asked}`), { title: text });
  link.after(row);
  link.dataset.away = "true";
  const change = await retitle(find(".title", row), title, save);
  isRetitling = false;
  const hasFocus = [document.body, link].some((element) => element === document.activeElement);
  row.remove();
  delete link.dataset.away;
  if (change) await refresh();
  if (hasFocus) linkOf(name)?.focus();
}

async function remove({ name, title, version, incarnation }) {
  const called = `“${title || name}”`;
  const versions = version === 1 ? "its one version" : `all its ${version.toLocaleString("en")} versions`;
  const text = `The sheet is deleted for all users, with ${versions}. Its copies stay. You cannot undo the deletion.`;
  if (!(await confirmInDialog({ title: `Delete ${called}?`, text, yes: "Delete" }))) return;
  try {
    await server.delete(server.path(name, "/"), { incarnation });
  } catch (error) {
    // Another user may have deleted the sheet already.
    if (error.code !== "not-found") return complain(error);
  }
  const index = lines().findIndex(({ dataset }) => dataset.name === name);
  sheets = sheets.filter((sheet) => sheet.name !== name);
  turn++; // a list that was requested before still has the sheet
  show();
  (links()[Math.min(index, links().length - 1)] ?? find("#new")).focus();
  toast(`${called} was deleted.`);
}

async function begin() {
  const title = prompt("The title of the sheet", "Untitled");
  if (!title?.trim()) return;
  const name = freshName(title);
  await server.put(`${server.path(name, "/")}?author=${encodeURIComponent(ownName())}`, { title: title.trim() });
  location.href = addressOf(organisation, name);
}

async function take(file) {
  if (!ENDING.test(file.name)) {
    const text = "Save it as .xlsx in the program that made it, and import that file.";
    throw new Error(`“${file.name}” is neither .xlsx nor .csv. ${text}`);
  }
  if (file.size > FILE_BYTES_MAX) throw new Error(`“${file.name}” is larger than ${FILE_BYTES_MAX / 2 ** 20} MiB.`);
  // The page of the first imported sheet replaces this page, so a second import would be interrupted.
  if (importing) throw new Error("Import one file at a time.");
  importing = `Importing ${file.name}…`;
  hint(importing);
  const name = freshName(file.name.replace(ENDING, ""));
  try {
    await server.upload(server.path(name, "/import"), { file: file.name, author: ownName() }, file);
    const { findings } = await server.get(server.path(name, "/import-report"));
    if (findings.length) await showFindings(`“${file.name}” was imported with these differences`, findings);
  } finally {
    importing = "";
  }
  location.href = addressOf(organisation, name);
}

function hint(text, isBad = false) {
  find("#hint").textContent = text;
  find("#hint").classList.remove("late");
  find("#hint").toggleAttribute("data-bad", isBad);
}

function complain(error) {
  hint(importing);
  toast(sentence(error), true);
  show();
}

/** @returns {HTMLElement[]} */
const all = (selector) => [...document.querySelectorAll(selector)].map((element) => /** @type {any} */ (element));
const lines = () => all("#list li");
const links = () => all("#list a");
const linkOf = (name) => lines().find(({ dataset }) => dataset.name === name)?.querySelector("a");
/** The sheet whose line has the focus, if the user may change the sheet. */
const chosen = () => sheets.find(({ name, read_only }) => !read_only && name === focusIn(document.activeElement).name);

function move(step) {
  const listed = links();
  const index = listed.indexOf(document.activeElement?.closest("li")?.querySelector("a"));
  if (index + step < 0) return find("#search").focus();
  listed[Math.min(index + step, listed.length - 1)]?.focus();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target === find("#search");
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  const does = { F2: rename, Delete: remove }[event.key];
  if (event.key in steps) move(isTyping ? Math.max(0, steps[event.key]) : steps[event.key]);
  else if (event.key === "Enter" && isTyping) links()[0]?.click();
  else if (event.key === "Escape" && isTyping) clear();
  else if (isTyping) return;
  else if (does && chosen()) does(chosen());
  else if (event.key === "/") find("#search").focus();
  else if (event.key.toLowerCase() === "n") begin().catch(complain);
  else return;
  event.preventDefault();
}

function clear() {
  find("#search").value = "";
  show();
}

function drag(event) {
  if (![...event.dataTransfer.types].includes("Files")) return;
  event.preventDefault();
  find("#drop").hidden = event.type !== "dragover";
  const [file, another] = event.type === "drop" ? event.dataTransfer.files : [];
  if (another) complain(new Error("Import one file at a time."));
  else if (file) take(file).catch(complain);
}

find("#search").addEventListener("input", show);
find("#new").addEventListener("click", () => begin().catch(complain));
find("#file").addEventListener("change", ({ target }) => {
  const [file] = target.files;
  // With the file still chosen, a browser would not report that the user chooses it again, for example once corrected.
  target.value = "";
  if (file) take(file).catch(complain);
});
addEventListener("keydown", press);
for (const type of ["dragover", "dragleave", "drop"]) addEventListener(type, drag);
setInterval(refreshWhenIdle, REFRESH_MS);
addEventListener("visibilitychange", refreshWhenIdle);
refresh();
