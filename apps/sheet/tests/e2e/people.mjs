// Helpers of the stories: pages with sheets, and the actions of their users. No wait has a fixed duration.

import assert from "node:assert/strict";

const WAIT_MS = 60_000;
export const SHEET = "sheet1";

/** Options of a user whose pages also open while the server is unreachable. */
export const WITH_WORKER = { serviceWorkers: "allow" };
const WITHOUT_WORKER = { serviceWorkers: "block" };

/**
 * Open a page in a new browser context. The values in `page.answers` answer the page's dialogs in order. Stories that
 * intercept requests need a page without a service worker. While a service worker takes over a page, Chromium does not
 * intercept requests.
 */
export async function person(browser, name, options = {}) {
  const profile = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...WITHOUT_WORKER, ...options });
  await profile.addInitScript((text) => localStorage.setItem("stratalog name", text), name);
  return windowOf(profile);
}

export async function windowOf(profile) {
  const page = await profile.newPage();
  page.setDefaultTimeout(WAIT_MS);
  await page.addInitScript(noteMessages);
  page.answers = [];
  page.on("dialog", (dialog) => dialog.accept(page.answers.shift()));
  page.on("pageerror", (error) => {
    console.error(error.stack);
    process.exit(1);
  });
  return page;
}

/** Note the text of every message of a page, which removes a message after some seconds. This runs in the page. */
function noteMessages() {
  globalThis.messages = [];
  new MutationObserver((changes) => {
    const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
    const shown = added.filter((node) => node instanceof Element && node.classList.contains("notice"));
    globalThis.messages.push(...shown.map(({ textContent }) => textContent));
  }).observe(document, { childList: true, subtree: true });
}

/** Wait until a page, since it was loaded, has shown a message with a text. */
export const isNotified = (page, text) =>
  page.waitForFunction((part) => globalThis.messages?.some((message) => message.includes(part)), text);

/** Open a sheet and wait until the grid has the focus. */
export async function open(page, url, sheet, more = "") {
  await page.goto(`${url}/web/sheet/edit.html?in=local&sheet=${encodeURIComponent(sheet)}${more}`);
  await isOpen(page);
}

export async function isOpen(page) {
  // Between two pages there is a moment without a body. Keys that are typed before the grid listens are lost.
  await page.waitForFunction(() => document.body?.dataset.ready && document.activeElement?.closest(".o-spreadsheet"));
}

/** Select a cell by its name and type into it, as a user does. */
export async function type(page, cell, text) {
  await choose(page, cell);
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

export async function choose(page, cell) {
  const task = ([{ workbook }, name]) => {
    const { col, row } = o_spreadsheet.helpers.toCartesian(name);
    workbook.model.selection.selectCell(col, row);
  };
  await evaluate(page, task, cell);
}

/** The exports of the module of a sheet's page: `workbook` and `versionViewer`. */
const exportsOf = (page) => page.evaluateHandle(() => import("/web/sheet/edit.js"));

/** Run a task in the page of a sheet, with the exports of its module and an argument. */
export const evaluate = async (page, task, argument) => page.evaluate(task, [await exportsOf(page), argument]);

/** Wait until a task, called as in `evaluate`, returns a true value. */
export const until = async (page, task, argument) => page.waitForFunction(task, [await exportsOf(page), argument]);

export const textOf = (page, cell) => evaluate(page, read, [SHEET, cell]);
export const shows = (page, cell, text) => until(page, says, [SHEET, cell, text]);
export const isSaved = (page) => until(page, ([{ workbook }]) => workbook.connectionStatus === "saved");
export const hasVersion = (page, version) =>
  until(page, ([{ workbook }, wanted]) => workbook.version >= wanted, version);
export const versionOf = (page) => evaluate(page, ([{ workbook }]) => workbook.version);
export const goOffline = (page) => page.click("#online[aria-checked=true]");
export const goOnline = (page) => page.click("#online[aria-checked=false]");

function read([{ workbook }, [sheetId, cell]]) {
  const position = { sheetId, ...o_spreadsheet.helpers.toCartesian(cell) };
  return workbook.model.getters.getCellText(position, { showFormula: true });
}

function says([{ workbook }, [sheetId, cell, text]]) {
  const position = { sheetId, ...o_spreadsheet.helpers.toCartesian(cell) };
  return workbook.model?.getters.getCellText(position, { showFormula: true }) === text;
}

/** Return the sheets of the page's model, or with "versionViewer" the sheets of the version that the viewer shows. */
export const stateOf = (page, model = "workbook") =>
  evaluate(page, ([exports, which]) => JSON.stringify(exports[which].model._exportData(false).sheets), model);

/** Check that all pages and the server have the same cells. */
export async function agree(url, sheet, ...pages) {
  await Promise.all(pages.map(isSaved));
  const versions = await Promise.all(pages.map(versionOf));
  await Promise.all(pages.map((page) => hasVersion(page, Math.max(...versions))));
  const sheets = await sheetsOnServer(url, sheet);
  for (const page of pages) assert.deepEqual(cells(JSON.parse(await stateOf(page))), cells(sheets));
}

/** Read the sheets of the server's state. On a busy machine the server may be unavailable, and pages then ask again. */
async function sheetsOnServer(url, sheet) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const answer = await fetch(`${url}/v1/organisations/local/sheets/${encodeURIComponent(sheet)}/state`);
    if (answer.ok) return (await answer.json()).sheets;
    assert.ok(answer.status === 503 && Date.now() < end, `${answer.status} ${await answer.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export const cells = (sheets) => sheets.map(({ id, name, cells: held }) => [id, name, Object.entries(held).sort()]);

export async function make(url, sheet, contents = {}, title = "") {
  await send(url, sheet, "PUT", "/?author=Maker", { title });
  for (const [cell, content] of Object.entries(contents)) await write(url, sheet, cell, content);
}

/** Write a cell over HTTP, as a program does. */
export const write = (url, sheet, cell, content, author = "Program") =>
  send(url, sheet, "PUT", `/cells/${cell}?author=${encodeURIComponent(author)}`, { content });

export async function send(url, sheet, method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const address = `${url}/v1/organisations/local/sheets/${encodeURIComponent(sheet)}${path}`;
  const answer = await fetch(address, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, await answer.clone().text());
  return answer;
}

/** Move the slider to a version, without waiting for the version. */
export const move = (page, version) =>
  page.evaluate((wanted) => {
    /** @type {HTMLInputElement} */
    const slider = document.querySelector("#timeline input");
    slider.value = wanted;
    slider.dispatchEvent(new Event("input"));
  }, version);

/** Move the slider to a version, and wait until the page shows the version. */
export async function showVersion(page, version) {
  await move(page, version);
  const isShown = ([{ versionViewer }, wanted]) =>
    versionViewer.version === wanted && !document.getElementById("then").hidden;
  await until(page, isShown, version);
}

/** Return a promise that `open` resolves. */
export function gate() {
  let open;
  const passed = new Promise((resolve) => (open = resolve));
  return { passed, open };
}
