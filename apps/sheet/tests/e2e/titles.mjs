// Stories of sheets that are renamed and deleted.

import assert from "node:assert/strict";
import { join } from "node:path";
import {
  WITH_WORKER,
  evaluate,
  choose,
  gate,
  goOffline,
  isOpen,
  isSaved,
  make,
  open,
  person,
  send,
  shows,
  textOf,
  type,
  windowOf,
} from "./people.mjs";

const isCalled = (page, title) =>
  page.waitForFunction(
    (text) => document.querySelector("#title")?.textContent === text && document.title === `${text} · Stratalog`,
    title,
  );
const isListed = (page, title) => page.waitForSelector(`#list .title:has-text("${title}")`);
const focused = (page) => page.evaluate(() => document.activeElement.closest("li")?.dataset.name);
const isGone = (page) => page.waitForSelector("#gone:not([hidden])");
const listOf = (url) => `${url}/web/sheet/`;

/** Type a title into the list and press Enter. `end` ends the request that saves the title after `answer.open()`. */
async function saveTitle(browser, { url, story }, end) {
  await make(url, story, {}, "Before");
  const page = await person(browser, "Ada Lace");
  await page.goto(listOf(url));
  await page.focus(`li[data-name="${story}"] a`);
  const request = page.waitForRequest("**/rename?*");
  const answer = gate();
  await page.route("**/rename?*", (route) => answer.passed.then(() => end(route)));
  await page.keyboard.press("F2");
  await page.fill(".retitle", "After");
  await page.keyboard.press("Enter");
  await request;
  return { page, answer };
}

export const titles = ({ url, story, two, folder }) => ({
  async aTitleEditedOnThePageIsShownToAllUsers(browser) {
    const [ada, bob] = await two(browser, { A1: "one" });
    await bob.click("#history");
    await bob.click("#tab-activity");
    await ada.click("#title");
    await ada.keyboard.type("Never mind");
    await ada.keyboard.press("Escape");
    assert.equal(await ada.textContent("#title"), story);
    await ada.click("#title");
    await ada.keyboard.type("Garden & house");
    await ada.keyboard.press("Enter");
    await isCalled(ada, "Garden & house");
    await isCalled(bob, "Garden & house");
    await bob.waitForSelector(`.entries li:has-text("renamed the sheet from “${story}” to “Garden & house”")`);
    // After a rename the focus is in the same cell as before, and earlier edits can still be undone.
    await type(ada, "A1", "two");
    await shows(bob, "A1", "two");
    await ada.click("#title");
    await ada.keyboard.type("House");
    await ada.keyboard.press("Enter");
    await isCalled(bob, "House");
    await ada.waitForFunction(() => document.activeElement.closest(".o-spreadsheet"));
    await ada.keyboard.press("Control+z");
    await shows(bob, "A1", "one");
    await bob.goto(listOf(url));
    await isListed(bob, "House");
  },

  async aRefusedTitleStaysInTheFieldForCorrection(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await page.addInitScript(() => {
      globalThis.toasts = [];
      const isShown = (node) => node.matches?.("p[role=status], p[role=alert]") && node.checkVisibility();
      const note = (node) => isShown(node) && globalThis.toasts.push(node.textContent);
      const observer = new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(note)));
      observer.observe(document, { childList: true, subtree: true });
    });
    await open(page, url, story);
    const long = "ü".repeat(150);
    await page.click("#title");
    await page.fill(".retitle", long);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => globalThis.toasts.includes("A title is too long: 300 (the limit is 200)."));
    assert.equal(await page.inputValue(".retitle"), long);
    await page.fill(".retitle", "Short");
    await page.keyboard.press("Enter");
    await isCalled(page, "Short");
    await goOffline(page);
    await page.click("#title");
    await page.waitForFunction(() => globalThis.toasts.some((text) => text.startsWith("You are offline")));
    assert.equal(await page.locator(".retitle").count(), 0);
  },

  async escapeDoesNotHideATitleThatIsBeingSaved(browser) {
    const { page, answer } = await saveTitle(browser, { url, story }, (route) => route.continue());
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".retitle").count(), 1);
    answer.open();
    await page.waitForSelector(`li[data-name="${story}"] .title:has-text("After")`);
    assert.equal(await page.locator(".retitle").count(), 0);
  },

  async aTitleFieldThatTheUserLeavesDuringAFailingSaveCloses(browser) {
    const { page, answer } = await saveTitle(browser, { url, story }, (route) => route.abort());
    await page.focus("#search");
    answer.open();
    await page.waitForSelector(".retitle", { state: "detached" });
    await page.waitForSelector(`li[data-name="${story}"] .title:has-text("Before")`);
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  },

  async aNewTitleIsShownOffline(browser) {
    const [page] = await two(browser, {}, WITH_WORKER);
    await send(url, story, "POST", "/rename?author=Program", { title: "Told by a program" });
    await isCalled(page, "Told by a program");
    await page.waitForSelector("body[data-cached]");
    await page.context().setOffline(true);
    await page.reload();
    await isOpen(page);
    await isCalled(page, "Told by a program");
  },

  async sheetsAreRenamedAndDeletedWithoutAMouse(browser) {
    const [first, second] = [`${story}-1`, `${story}-2`];
    await make(url, first, {}, "Keys and locks 1");
    await make(url, second, {}, "Keys and locks 2");
    const page = await person(browser, "Ada Lace");
    await page.goto(listOf(url));
    await page.fill("#search", "keys and locks");
    await page.waitForFunction(() => document.querySelectorAll("#list a").length === 2);
    await page.keyboard.press("ArrowDown");
    const chosen = await focused(page);
    await page.keyboard.press("F2");
    await page.waitForSelector(".retitle:focus");
    await page.keyboard.type("Keys and locks, renamed");
    await page.keyboard.press("Enter");
    await isListed(page, "Keys and locks, renamed");
    await page.waitForFunction((name) => document.activeElement.closest("li")?.dataset.name === name, chosen);
    await page.keyboard.press("Delete");
    await page.waitForSelector('dialog[open] h2:text-is("Delete “Keys and locks, renamed”?")');
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal(await focused(page), chosen);
    await page.keyboard.press("Delete");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForFunction((name) => !document.querySelector(`li[data-name="${name}"]`), chosen);
    assert.equal(await focused(page), chosen === first ? second : first);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector('[role="menuitem"]:focus');
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.click("dialog[open] .bad");
    await page.waitForFunction(() => !document.querySelector("#list li"));
  },

  async lateChangesOfADeletedSheetCanBeDownloaded(browser) {
    const [ada, bob] = await two(browser, { A1: "kept" });
    await goOffline(ada);
    await type(ada, "A2", "too late");
    await choose(ada, "A3");
    await ada.keyboard.type("=40+2");
    await bob.goto(listOf(url));
    await bob.click(`li[data-name="${story}"] .more`);
    await bob.click("text=Delete…");
    await bob.click("dialog[open] .bad");
    await bob.waitForFunction((name) => !document.querySelector(`li[data-name="${name}"]`), story);
    await evaluate(ada, ([{ workbook }]) => workbook.goOnline());
    await isGone(ada);
    assert.match(await ada.textContent("#gone"), /was deleted.*2 changes of yours that came too late/);
    assert.equal(await ada.textContent("#state"), "Deleted");
    await type(ada, "A4", "refused");
    assert.equal(await textOf(ada, "A4"), "");
    const [download] = await Promise.all([ada.waitForEvent("download"), ada.click("#gone .strong")]);
    const file = join(folder, "Rescued.xlsx");
    await download.saveAs(file);
    await ada.click("#gone .quiet");
    await ada.waitForURL("**/web/sheet/?in=local");
    await ada.setInputFiles("#file", file);
    await isOpen(ada);
    const held = await evaluate(ada, ([{ workbook }]) => {
      const [{ id }] = workbook.model._exportData(false).sheets;
      const text = (row) => workbook.model.getters.getCellText({ sheetId: id, col: 0, row }, { showFormula: true });
      return [text(0), text(1), text(2)];
    });
    assert.deepEqual(held, ["kept", "too late", "=40+2"]);
  },

  async pendingChangesOfADeletedSheetAreShownOnReturn(browser) {
    const [ada] = await two(browser, { A1: "kept" });
    await goOffline(ada);
    await type(ada, "A2", "waited");
    await ada.goto(listOf(url));
    await send(url, story, "DELETE", "/");
    await make(url, story, { A1: "another" }, "Another");
    for (let times = 0; times < 2; times++) {
      await open(ada, url, story);
      await isGone(ada);
      assert.deepEqual([await textOf(ada, "A1"), await textOf(ada, "A2")], ["kept", "waited"]);
    }
    await ada.click("#gone .quiet");
    await ada.waitForURL("**/web/sheet/?in=local");
    await open(ada, url, story);
    assert.deepEqual([await textOf(ada, "A1"), await textOf(ada, "A2")], ["another", ""]);
    await isSaved(ada);
    assert.equal(await ada.textContent("#title"), "Another");
  },

  async aNewSheetIsNotMistakenForADeletedSheetOfTheSameName(browser) {
    const [ada, bob] = await two(browser, { A1: "one" });
    await Promise.all([goOffline(ada), goOffline(bob)]);
    await type(ada, "A1", "typed for the old one");
    await send(url, story, "DELETE", "/");
    await make(url, story, { A1: "1", A2: "2", A3: "3", A4: "4" }, "Another");
    for (const page of [ada, bob]) {
      await evaluate(page, ([{ workbook }]) => workbook.goOnline());
      await isGone(page);
    }
    assert.doesNotMatch(await bob.textContent("#gone"), /too late/);
    assert.equal(await textOf(bob, "A1"), "one");
    const cell = await (await send(url, story, "GET", "/cells/A1")).json();
    assert.equal(cell.content, "1");
  },

  async aReaderCannotRenameOrDeleteASheet(browser) {
    const [page] = await two(browser);
    await open(page, url, story, "&view");
    assert.equal(await page.isDisabled("#title"), true);
    const reader = await windowOf(page.context());
    await reader.route("**/sheets/", async (route) => {
      const response = await route.fetch();
      const json = (await response.json()).map((sheet) => ({ ...sheet, read_only: true }));
      await route.fulfill({ response, json });
    });
    await reader.goto(listOf(url));
    await reader.waitForSelector(`li[data-name="${story}"]`);
    assert.equal(await reader.locator("#list .more").count(), 0);
    await reader.focus(`li[data-name="${story}"] a`);
    assert.equal(await focused(reader), story);
    // The page handles keys in order. So the effect of the last key shows that the page has handled the other keys.
    for (const key of ["F2", "Delete", "/"]) await reader.keyboard.press(key);
    await reader.waitForSelector("#search:focus");
    assert.equal(await reader.locator(".retitle, dialog").count(), 0);
  },
});
