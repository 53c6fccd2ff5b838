// Edit: the page of one sheet. The page connects the workbook, the canvases, the timeline and the panel.

import { Canvas } from "./canvas.js";
import { drawConflicts } from "./conflictList.js";
import { find, make, save, sentence, toast } from "./dom.js";
import { changes, describeDeletion, describeFailure, describeFault } from "./ending.js";
import { editOf, filesOf, goTo, nameOf, viewOf } from "./engine.js";
import { showFindings } from "./findings.js";
import { initials, ownName, rename } from "./identity.js";
import { Marks, zonesOf } from "./marks.js";
import { openMenu } from "./menu.js";
import { addressOf, cut, freshName, homeOf } from "./names.js";
import { cachePage } from "./pageCache.js";
import { Panel } from "./panel.js";
import "./plugins.js";
import { watchRefusals } from "./refusals.js";
import { Restorer } from "./restorer.js";
import { retitle } from "./retitle.js";
import { askForToken, Server } from "./server.js";
import { Timeline } from "./timeline.js";
import { Tracker } from "./tracker.js";
import { changesAt } from "./versionChanges.js";
import { VersionViewer } from "./versionViewer.js";
import { Workbook } from "./workbook.js";
import { zip } from "./zip.js";

const HEADINGS_SHOWN_MAX = 4;
const PEOPLE_SHOWN_MAX = 6;
const query = new URLSearchParams(location.search);
const organisation = query.get("in") ?? "local";
const name = query.get("sheet") ?? "";
const server = new Server(organisation);
const me = { name: ownName(), isReader: query.has("view") };
const marks = new Marks(() => shownModel()?.trigger("update"));
const page = { marks, refusesUndo: () => !["saved", "saving"].includes(workbook.connectionStatus) };
/** Callbacks of the workbook's model. The version viewer's model has no such callbacks. */
const following = {
  onMoved: (command) => tracker.move(command),
  onEditLost: (composer) => tracker.lose(composer),
  across: (model, deliver) => tracker.across(model, deliver),
  asksHeading,
};
export const workbook = new Workbook(server, name, me, { ...page, ...following });
export const versionViewer = new VersionViewer(server, server.path(name), page);
const canvases = { now: new Canvas(find("#now")), then: new Canvas(find("#then")) };
const tracker = new Tracker(workbook.conflicts, () => canvases.now.composer);
const restorer = new Restorer(workbook.conflicts, () => workbook.model);
let timeline, panel, shownNow, shownVersion, shownConflicts = new Set();

const shownModel = () => (timeline?.at == null ? workbook.model : versionViewer.model);

find(".home").href = homeOf(organisation);

async function begin() {
  workbook.addEventListener("state", showState);
  workbook.addEventListener("people", showPeople);
  workbook.addEventListener("error", (/** @type {any} */ { detail }) => complain(detail));
  workbook.addEventListener("entry", (/** @type {any} */ { detail }) => noteEntry(detail));
  workbook.addEventListener("model", mountNow);
  workbook.addEventListener("model", showFacts);
  workbook.addEventListener("gone", () => showEnd(describeDeletion));
  workbook.addEventListener("fault", () => showEnd(describeFault));
  workbook.addEventListener("lost", showOtherHistory);
  // A reload replaces the model. Commit the open edit first, so that the new model gets the edit as a pending change.
  workbook.addEventListener("reload", () => canvases.now.endTyping());
  for (const type of ["added", "removed"]) workbook.conflicts.addEventListener(type, showConflicts);
  watchRefusals(workbook);
  await workbook.open();
  showTitle();
  timeline = new Timeline(find("#timeline"), { isReadOnly: workbook.isReadOnly });
  timeline.range = [workbook.facts.first, workbook.version];
  for (const type of ["move", "restore", "copy", "name", "download"]) {
    timeline.addEventListener(type, ({ detail }) => does[type](detail).catch(complain));
  }
  panel = new Panel(find("#panel"), {
    blame: (cell) => server.get(server.path(name, "/blame"), { cell: cell.name, tab: cell.tab, at: cell.at }),
    activity: (before) => server.get(server.path(name, "/activity"), { before }),
    versions: () => server.get(server.path(name, "/versions")),
    refused: () => workbook.refused,
    away: () => drawConflicts(workbook.conflicts.items, { restore, dismiss, isReadOnly: workbook.isReadOnly }),
  });
  panel.addEventListener("go", ({ detail }) => timeline.go(detail));
  panel.addEventListener("close", () => showPanel(false));
  listen();
  chooseCell();
  showNames();
  showState();
  find("#opening").hidden = true;
  if (workbook.isDeleted) return showEnd(describeDeletion);
  timeline.go(Number.parseInt(query.get("at") ?? "", 10) || null);
  cachePage().catch(() => {});
}

async function mountNow() {
  const { model } = workbook;
  if (!(await canvases.now.mount(model))) return;
  // Take the view of the last model that the canvas has shown: a reload may replace a model before its first frame.
  if (shownNow) goTo(model, viewOf(shownNow));
  shownNow = model;
  find("#now").hidden = (timeline?.at ?? null) !== null;
  model.on("update", canvases, chooseCell);
  document.body.dataset.ready = "true";
}

/** After a load, show facts of the sheet that may have changed meanwhile. */
function showFacts() {
  if (!timeline) return;
  timeline.range = [workbook.facts.first, workbook.version];
  showTitle();
  showNames();
  panel?.refresh();
}

function listen() {
  find("#online").addEventListener("click", () => (workbook.isOnline ? workbook.goOffline() : workbook.goOnline()));
  find("#history").addEventListener("click", () => showPanel(!panel.isOpen));
  // A click on one of these buttons must not take the focus from the cell that is being edited.
  for (const button of document.querySelectorAll("#online, #history, #scheme, #title")) {
    button.addEventListener("mousedown", (event) => event.preventDefault());
  }
  find("#title").addEventListener("click", () => askTitle());
  find("#more").addEventListener("click", () => openMenu(find("#more"), shareItems()));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey && event.altKey && event.code === "KeyH") showPanel(!panel.isOpen);
    const isInGrid = event.target instanceof Element && event.target.closest(".o-spreadsheet");
    if (event.key === "Escape" && timeline.at !== null && !isInGrid) timeline.go(null);
  });
  addEventListener("beforeunload", (event) => {
    canvases.now.endTyping(); // the offline cache stores changes, but no open edit
    if (workbook.waiting && !workbook.hasOfflineCache) event.preventDefault();
  });
}

const does = {
  async move(version) {
    panel.at = version;
    if (version === null) return backToNow();
    try {
      await versionViewer.show(version);
      if (timeline.at !== version || versionViewer.version !== version) return;
      if (shownVersion !== versionViewer.model || find("#then").hidden) await showVersion();
      chooseCell();
      const newest = timeline.isComparing ? workbook.version : null;
      const { entry, zones, words } = await changesAt(server, server.path(name), versionViewer, version, newest);
      if (timeline.at !== version) return;
      marks.set(zones);
      timeline.facts = { ...entry, changed: words };
      timeline.shown();
    } catch (error) {
      if (timeline.at === version) returnToShown(version);
      throw error;
    }
  },

  async restore(version) {
    const label = `Restore version ${version} as a new version? All later versions are kept.`;
    if (!confirm(label)) return;
    await server.post(server.path(name, `/restore${signed()}`), { version });
    timeline.go(null);
    toast(`Version ${version} was restored as a new version.`);
  },

  async copy(version) {
    const title = prompt("The title of the copy", `${workbook.title}, version ${version}`);
    if (!title) return;
    const copy = { name: freshName(title), version, title };
    const made = await server.post(server.path(name, `/fork${signed()}`), copy);
    location.href = addressOf(organisation, made.name);
  },

  async name(version) {
    const label = prompt(`A name for version ${version}`, "");
    if (!label) return;
    await server.post(server.path(name, `/versions${signed()}`), { version, label });
    await showNames();
    toast(`Version ${version} is called “${label}”.`);
  },

  async download(version) {
    const at = version ?? undefined;
    const file = await server.download(server.path(name, "/export.xlsx"), { at });
    save(file, `${workbook.title}${version === null ? "" : ` (version ${version})`}.xlsx`);
    const { findings } = await server.get(server.path(name, "/export-report"), { at });
    if (findings.length) await showFindings("The file differs from the sheet", findings);
  },

  async downloadCsv(version) {
    const tab = (shownModel() ?? workbook.model).getters.getActiveSheetId();
    const file = await server.download(server.path(name, "/export.csv"), { tab, at: version ?? undefined });
    save(file, `${workbook.title}.csv`);
  },
};

async function showVersion() {
  const view = viewOf(find("#then").hidden ? workbook.model : shownVersion);
  const { model } = versionViewer;
  shownVersion = model;
  if (!(await canvases.then.mount(model))) return;
  model.on("update", canvases, chooseCell);
  find("#now").hidden = true;
  goTo(model, view);
}

/** After an error, let the timeline name the version that the canvas shows, and forget the facts of another version. */
function returnToShown(version) {
  timeline.pause();
  marks.set([]);
  timeline.facts = null;
  const shown = find("#then").hidden || !versionViewer.model ? null : versionViewer.version;
  if (shown !== version) timeline.go(shown);
}

function backToNow() {
  marks.set([]);
  canvases.then.clear();
  find("#now").hidden = false;
  workbook.model.trigger("update");
  timeline.shown();
}

function noteEntry(entry) {
  if (timeline) timeline.range = [workbook.facts.first, entry.version];
  const id = entry.message?.nextRevisionId;
  const isOwn = workbook.model.session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === id);
  if (!isOwn && timeline?.at === null) marks.flash(zonesOf(entry.message));
  if (entry.type === "named") showNames();
  if (entry.type === "renamed") showTitle();
  panel?.refresh();
}

/** Show the newest version, because the server has lost the history of this page. */
function showOtherHistory() {
  timeline?.go(null);
  versionViewer.forget();
}

function chooseCell() {
  const model = shownModel();
  if (!model || !panel) return;
  const { sheetId, col, row } = model.getters.getActivePosition();
  panel.cell = { name: nameOf(col, row), tab: sheetId, at: timeline.at, label: model.getters.getSheetName(sheetId) };
}

async function showNames() {
  const names = await server.get(server.path(name, "/versions")).catch(() => null);
  if (names) timeline.names = names;
}

/** Show the number of conflicts. If the server is reachable and a conflict is new, open the tab of conflicts. */
function showConflicts() {
  const { items } = workbook.conflicts;
  if (!panel || !workbook.model) return;
  panel.awayCount = items.length;
  const isBack = ["saved", "saving"].includes(workbook.connectionStatus);
  const isNew = items.some((item) => !shownConflicts.has(item.id));
  if (!isBack || !isNew || workbook.fault) return;
  shownConflicts = new Set(items.map(({ id }) => id));
  showPanel(true);
  panel.choose("away");
}

function restore(item) {
  timeline.go(null);
  const isAway = item.kind === "undo" && !["saved", "saving"].includes(workbook.connectionStatus);
  if (isAway) return toast("An undo or redo needs the server. This page is not connected to the server now.");
  if (!restorer.restore(item)) toast("The sheet does not accept this change now. The change stays in the list.", true);
}

function dismiss(item) {
  workbook.conflicts.remove((other) => !item || other === item);
}

/** Ask the user whether a row of texts is a heading, which a sort leaves on top. */
function asksHeading(row, texts) {
  const some = texts.slice(0, HEADINGS_SHOWN_MAX).map((text) => `“${cut(String(text), 40)}”`);
  const more = texts.length > HEADINGS_SHOWN_MAX ? ", …" : "";
  return confirm(`Is row ${row} (${some.join(", ")}${more}) a heading? OK leaves it on top. Cancel sorts it, too.`);
}

function showPanel(isOpen) {
  panel.isOpen = isOpen;
  find("#history").setAttribute("aria-pressed", String(isOpen));
  dispatchEvent(new Event("resize"));
}

function showTitle(title = workbook.title) {
  find("#title").textContent = title;
  find("#title").disabled = workbook.isReadOnly || workbook.fault !== null;
  document.title = `${title} · Stratalog`;
}

async function askTitle() {
  if (!workbook.isOnline) return toast("You are offline. A new title needs the server.");
  const save = (title) => server.post(server.path(name, `/rename${signed()}`), { title });
  const change = await retitle(find("#title"), workbook.title, save);
  if (change?.type === "renamed") showTitle(change.data.title);
}

/** Show that the page has stopped, because the sheet was deleted or because synchronisation has ended. */
function showEnd(describe) {
  try {
    if (workbook.isComplete) canvases.now.endTyping();
  } catch (error) {
    console.error(error);
  }
  // A failed engine accepts no edit, so the message shows the open edit. Clear the canvas, which would fail again.
  const edit = editOf(canvases.now.composer);
  if (!workbook.isComplete) canvases.now.clear();
  timeline?.go(null);
  if (panel) showPanel(false);
  canvases.now.isInert = !workbook.isDeleted;
  document.body.dataset.gone = "true";
  showTitle();
  find("#gone").replaceChildren(...describe(workbook, { edit, discard, downloadHere, complain }));
  find("#gone").hidden = false;
  dispatchEvent(new Event("resize"));
}

async function downloadHere() {
  save(zip(await filesOf(workbook.model)), `${workbook.title}.xlsx`);
}

async function discard() {
  await workbook.forget();
  location.href = homeOf(organisation);
}

const STATUS_TEXTS = {
  opening: () => "Opening…",
  saved: () => (workbook.isReadOnly ? "Read only" : "Saved"),
  saving: () => "Saving…",
  offline: (waiting) => (waiting ? `Offline · ${changes(waiting)} kept here` : "Offline"),
  disconnected: (waiting) => (waiting ? `No connection · ${changes(waiting)} kept here` : "No connection"),
  ended: () => (workbook.isDeleted ? "Deleted" : "Stopped"),
};

function showState() {
  document.body.dataset.connectionStatus = workbook.connectionStatus;
  find("#state").textContent = STATUS_TEXTS[workbook.connectionStatus](workbook.waiting);
  find("#online").setAttribute("aria-checked", String(workbook.isOnline));
  showConflicts();
}

function showPeople() {
  const { getters, session } = workbook.model ?? {};
  const people = [...(getters?.getConnectedClients() ?? [])].filter(({ id }) => id !== session.clientId);
  const badge = ({ name: text, color }) =>
    make("i", { role: "listitem", style: `--person: ${color}`, title: text, "aria-label": text }, initials(text));
  const rest = people.slice(PEOPLE_SHOWN_MAX).map(({ name: text }) => text);
  const more = { role: "listitem", title: rest.join("\n"), "aria-label": `and ${rest.join(", ")}` };
  const label = `You are ${me.name}. Change your name`;
  const mine = { type: "button", class: "me", title: label, "aria-label": label, onclick: askName };
  const badges = people.slice(0, PEOPLE_SHOWN_MAX).map(badge);
  if (rest.length) badges.push(make("i", more, `+${rest.length}`));
  find("#people").replaceChildren(...badges, make("button", mine, initials(me.name)));
}

function askName() {
  const text = prompt("The name that others see", me.name);
  if (!text?.trim()) return;
  me.name = rename(text);
  workbook.presence.rename(me.name);
  showPeople();
}

function shareItems() {
  const at = timeline.at;
  const here = new URL(addressOf(organisation, name), location.href).href;
  const reading = `${here}&view${at === null ? "" : `&at=${at}`}`;
  const copy = (link) => () => navigator.clipboard.writeText(link).then(() => toast("The link was copied."), complain);
  return [
    ["Copy link", copy(here)],
    [at === null ? "Copy link for reading" : `Copy link to version ${at}`, copy(reading)],
    [at === null ? "Download as .xlsx" : `Download version ${at}`, () => does.download(at).catch(complain)],
    ["Download this tab as .csv", () => does.downloadCsv(at).catch(complain)],
    ["Download the original file", () => downloadOriginal().catch(complain)],
    ["Make a copy", () => does.copy(at ?? workbook.version).catch(complain)],
  ];
}

async function downloadOriginal() {
  try {
    const file = await server.download(server.path(name, "/original.xlsx"));
    save(file, file.name);
  } catch (error) {
    if (error.code !== "not-found") throw error;
    await server.get(server.path(name, "/")); // throws if the sheet itself does not exist any more
    toast("This sheet was not made from a file.");
  }
}

const signed = () => `?author=${encodeURIComponent(me.name)}`;
const complain = (error) => toast(sentence(error), true);

begin().catch((error) => {
  if (askForToken(error)) return;
  document.body.dataset.connectionStatus = "ended";
  find("#opening").replaceChildren(...describeFailure(error, name, homeOf(organisation)));
  find("#state").textContent = "";
});
