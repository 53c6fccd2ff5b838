// Stories of users of a spreadsheet in one or two browsers. `tests/e2e/telling.mjs` runs them in Chromium. A story
// writes only to its own sheets.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { tellStories } from "../../../../tests/e2e/telling.mjs";
import * as people from "./people.mjs";
import { versionViewer } from "./versionViewer.mjs";
import { away } from "./away.mjs";
import { branches } from "./branches.mjs";
import { clipboard } from "./clipboard.mjs";
import { faults } from "./faults.mjs";
import { layout } from "./layout.mjs";
import { network } from "./network.mjs";
import { titles } from "./titles.mjs";
import { waitingUndo } from "./waitingUndo.mjs";

const { agree, choose, evaluate, goOffline, goOnline, isNotified, isOpen, isSaved } = people;
const { make, open, person, send, shows, textOf, type, until, versionOf, windowOf, write } = people;
const column = (letter, from, to) =>
  Object.fromEntries(Array.from({ length: to - from + 1 }, (_, index) => [`${letter}${from + index}`, String(index)]));

/** Return a function that creates a sheet with the story's name and opens it in the browsers of two users. */
const twoOf =
  ({ url, story }) =>
  async (browser, contents = {}, options = {}) => {
    await make(url, story, contents);
    const pages = [await person(browser, "Ada Lace", options), await person(browser, "Bob Hart", options)];
    await Promise.all(pages.map((page) => open(page, url, story)));
    return pages;
  };

const storiesOf = ({ url, story, folder, two }) => ({
  async aWorkbookIsImportedAndItsOriginalIsDownloaded(browser) {
    await make(url, "source", { A1: "Nails", B1: "=40+2" });
    const xlsx = Buffer.from(await (await send(url, "source", "GET", "/export.xlsx")).arrayBuffer());
    const file = join(folder, "Ironmonger’s list.xlsx");
    await writeFile(file, xlsx);
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    await page.setInputFiles("#file", file);
    await page.waitForURL("**/edit.html*");
    await isOpen(page);
    assert.equal(await page.textContent("#title"), "Ironmonger’s list");
    const { sheet, text } = await evaluate(page, ([{ workbook }]) => {
      const [{ id }] = workbook.model._exportData(false).sheets;
      return {
        sheet: id,
        text: workbook.model.getters.getCellText({ sheetId: id, col: 1, row: 0 }, { showFormula: true }),
      };
    });
    assert.ok(sheet);
    assert.equal(text, "=40+2");
    await page.click("#more");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click("text=Download the original file"),
    ]);
    assert.deepEqual(await readFile(await download.path()), xlsx);
  },

  async theOriginalIsDownloadedUnderItsFileName(browser) {
    const file = join(folder, "Ironmonger’s list; 2nd.csv");
    await writeFile(file, "Nails,42\r\n");
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    await page.setInputFiles("#file", file);
    await page.waitForURL("**/edit.html*");
    await isOpen(page);
    await page.click("#more");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click("text=Download the original file"),
    ]);
    assert.equal(download.suggestedFilename(), "Ironmonger’s list; 2nd.csv");
    assert.equal(await readFile(await download.path(), "utf8"), "Nails,42\r\n");
  },

  async aFileThatExceedsALimitIsRefusedWithTheLimit(browser) {
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    const refused = {
      "rows.csv": ["1\n".repeat(200_001), "The file has too many rows (the limit is 200,000)."],
      "columns.csv": [",".repeat(20_000), "The file has too many columns: 20,001 (the limit is 18,278)."],
    };
    for (const [name, [text, message]] of Object.entries(refused)) {
      await writeFile(join(folder, name), text);
      await page.setInputFiles("#file", join(folder, name));
      await isNotified(page, message);
    }
  },

  async aRefusedFileCanBeChosenAgainAndTwoFilesAreRefused(browser) {
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    await page.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from([0xc3, 0x28, 0]) });
    await isNotified(page, "The file is not text in UTF-8 or UTF-16.");
    // A browser reports a choice only if it changes the chosen file.
    assert.equal(await page.inputValue("#file"), "");
    const dataTransfer = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      for (const name of ["a.csv", "b.csv"]) data.items.add(new File(["1"], name));
      return data;
    });
    await page.dispatchEvent("body", "drop", { dataTransfer });
    await isNotified(page, "Import one file at a time.");
  },

  async twoWindowsShowEditsAndSelectionsOfEachUser(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "B2", "4711");
    await shows(bob, "B2", "4711");
    await type(bob, "C2", "=B2*2");
    await shows(ada, "C2", "=B2*2");
    await choose(ada, "D7");
    await until(bob, ([{ workbook }]) => {
      const [other] = [...workbook.presence.people.values()];
      return other?.name === "Ada Lace" && other.position?.col === 3 && other.position.row === 6;
    });
    await bob.waitForSelector('#people i[aria-label="Ada Lace"]');
    await agree(url, story, ada, bob);
    await ada.close();
    await bob.waitForFunction(() => !document.querySelector("#people i"));
  },

  async aFormulaTypedOfflineFollowsARowInsertedMeanwhile(browser) {
    const [ada, bob] = await two(browser, column("C", 21, 25));
    await goOffline(ada);
    await type(ada, "D1", "=SUM(C21:C25)");
    await ada.waitForFunction(() => document.querySelector("#state").textContent.includes("1 change kept here"));
    await send(url, story, "POST", "/rows?author=Program", { row: 5 });
    await until(bob, ([{ workbook }]) => workbook.version === 7);
    await goOnline(ada);
    await shows(bob, "D1", "=SUM(C22:C26)");
    await shows(ada, "D1", "=SUM(C22:C26)");
    await agree(url, story, ada, bob);
  },

  async aReloadPreservesPendingChanges(browser) {
    const [ada, bob] = await two(browser, column("C", 21, 25));
    await goOffline(ada);
    await type(ada, "D1", "=SUM(C21:C25)");
    await type(ada, "D2", "second");
    await until(ada, ([{ workbook }]) => workbook.waiting === 2);
    await send(url, story, "POST", "/rows?author=Program", { row: 5 });
    await ada.reload();
    await isOpen(ada);
    await shows(bob, "D1", "=SUM(C22:C26)");
    await shows(bob, "D2", "second");
    await agree(url, story, ada, bob);
    assert.equal(await versionOf(ada), 9);
  },

  async theStatusIsShownOnceForABurstOfChanges(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await isSaved(page);
    const reports = await evaluate(page, async ([{ workbook }]) => {
      let count = 0;
      workbook.addEventListener("state", () => (count += 1));
      for (let times = 0; times < 5; times++) workbook.model.trigger("update");
      await new Promise((resolve) => setTimeout(resolve));
      return count;
    });
    assert.equal(reports, 1);
  },

  async aCachedSheetOpensOffline(browser) {
    const [ada, bob] = await two(browser, { A1: "kept" }, people.WITH_WORKER);
    await ada.waitForSelector("body[data-cached]");
    await ada.context().setOffline(true);
    await type(ada, "A2", "typed offline");
    await ada.reload();
    await isOpen(ada);
    assert.equal(await textOf(ada, "A1"), "kept");
    assert.equal(await textOf(ada, "A2"), "typed offline");
    await until(ada, ([{ workbook }]) => workbook.waiting === 1 && workbook.connectionStatus === "disconnected");
    assert.match(await ada.textContent("#state"), /No connection · 1 change kept here/);
    await type(ada, "A3", "and on");
    await ada.context().setOffline(false);
    await shows(bob, "A2", "typed offline");
    await shows(bob, "A3", "and on");
    await agree(url, story, ada, bob);
  },

  async aChangeWhoseAnswerIsLostIsAppliedOnce(browser) {
    const [ada, bob] = await two(browser);
    let lost = 0;
    await ada.route("**/append*", async (route) => {
      await route.fetch();
      if (lost++ < 2) return route.abort();
      return route.continue();
    });
    await type(ada, "A1", "once");
    await ada.keyboard.type("twice");
    await ada.keyboard.press("Enter");
    await shows(bob, "A2", "twice");
    await agree(url, story, ada, bob);
    assert.equal(await versionOf(ada), 3);
  },

  async anUndoRevertsOnlyTheUsersOwnEdit(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "by Ada");
    await shows(bob, "A1", "by Ada");
    await type(bob, "A2", "by Bob");
    await shows(ada, "A2", "by Bob");
    await ada.keyboard.press("Control+z");
    await shows(bob, "A1", "");
    assert.equal(await textOf(bob, "A2"), "by Bob");
    await ada.keyboard.press("Control+y");
    await shows(bob, "A1", "by Ada");
    await bob.keyboard.press("Control+z");
    await shows(ada, "A2", "");
    await agree(url, story, ada, bob);
  },

  async anUndoNeverBlocksASheetThatIsOffline(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "A1", "kept");
    await isSaved(ada);
    await ada.route("**/append*", (route) => route.abort());
    await ada.keyboard.press("Control+z");
    await until(ada, ([{ workbook }]) => workbook.connectionStatus === "disconnected" && workbook.waiting === 0);
    await type(ada, "A2", "typed on");
    assert.equal(await textOf(ada, "A2"), "typed on");
    await ada.unroute("**/append*");
    await shows(bob, "A2", "typed on");
    await isSaved(ada);
    await ada.keyboard.press("Control+z");
    await shows(bob, "A2", "");
    await ada.keyboard.press("Control+z");
    await shows(bob, "A1", "");
    await agree(url, story, ada, bob);
  },

  async aProgramsValueAppearsInAnOpenPage(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await write(url, story, "C3", "from outside");
    await shows(page, "C3", "from outside");
  },

  async anEditByTheCommandLineAppearsInAnOpenPage(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    console.log("open");
    await shows(page, "B2", "by command");
    await page.click("#history");
    await page.click("#tab-cell");
    await choose(page, "B2");
    await page.waitForSelector(".entries li");
    assert.match(await page.textContent(".entries"), /Clerk/);
  },

  async reopeningASheetFetchesOnlyNewEntries(browser) {
    await make(url, story, { A1: "x".repeat(50_000), ...column("B", 1, 20) });
    const page = await person(browser, "Ada Lace");
    const sizes = [];
    await page.route(/\/load(\?|$)/, async (route) => {
      const response = await route.fetch();
      sizes.push((await response.body()).length);
      await route.fulfill({ response });
    });
    await open(page, url, story);
    await write(url, story, "B2", "new");
    await shows(page, "B2", "new");
    await isSaved(page);
    await page.goto(`${url}/web/sheet/`);
    await write(url, story, "B3", "newer");
    await open(page, url, story);
    await shows(page, "B3", "newer");
    assert.equal(await textOf(page, "A1"), "x".repeat(50_000));
    assert.ok(sizes[0] > 50_000, String(sizes));
    assert.ok(sizes[1] < 2000, String(sizes));
  },

  async tabsOfABrowserAreSeparateClients(browser) {
    await make(url, story);
    const first = await person(browser, "Ada Lace");
    const second = await windowOf(first.context());
    await open(first, url, story);
    await open(second, url, story);
    await goOffline(first);
    await type(first, "A1", "one");
    await type(second, "A2", "two");
    await goOnline(first);
    await Promise.all([shows(first, "A2", "two"), shows(second, "A1", "one")]);
    await agree(url, story, first, second);
  },

  async typedTextIsNotInterpretedAsMarkup(browser) {
    const markup = '<img src="x" onerror="window.isHurt = true">';
    await make(url, story, { A1: markup }, markup);
    const [ada, bob] = [await person(browser, markup), await person(browser, "Bob Hart")];
    await open(ada, url, story);
    await open(bob, url, story);
    await send(url, story, "POST", "/versions", { version: 2, label: markup });
    await type(ada, "A2", markup);
    await shows(bob, "A2", markup);
    await bob.waitForFunction(() => document.querySelectorAll("#people i").length === 1);
    await bob.click("#history");
    await choose(bob, "A2");
    const isHurt = () => "isHurt" in window || document.querySelector("img[src=x]") !== null;
    const lines = { cell: ".held code", activity: ".held:not(.named, :has(*))", versions: ".named" };
    for (const [tab, line] of Object.entries(lines)) {
      await bob.click(`#tab-${tab}`);
      await bob.locator(`.entries ${line}`, { hasText: markup }).first().waitFor();
      assert.equal(await bob.evaluate(isHurt), false, tab);
    }
    assert.equal(await bob.textContent("#title"), markup);
    await bob.goto(`${url}/web/sheet/`);
    await bob.locator("#list .title", { hasText: markup }).first().waitFor();
    assert.deepEqual([await ada.evaluate(isHurt), await bob.evaluate(isHurt)], [false, false]);
  },

  async theListIsUsedWithoutAMouse(browser) {
    await make(url, "alpha", {}, "Alpha plan");
    await make(url, "beta", {}, "Beta budget");
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    await page.waitForSelector("#list a");
    await page.keyboard.press("/");
    await page.keyboard.type("beta bud");
    await page.waitForFunction(() => document.querySelectorAll("#list a").length === 1);
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => document.activeElement === document.querySelector("#list a"));
    await page.keyboard.press("ArrowUp");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
    await page.keyboard.type("alpha");
    await page.keyboard.press("Enter");
    await isOpen(page);
    assert.equal(await page.textContent("#title"), "Alpha plan");
    await page.goBack();
    await page.waitForSelector("#list a");
    page.answers = ["Made by key"];
    await page.locator("body").press("n");
    await isOpen(page);
    assert.equal(await page.textContent("#title"), "Made by key");
  },

  async theColourSchemeFollowsTheSystemUntilTheUserChooses(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace", { colorScheme: "dark" });
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await open(page, url, story);
    await page.waitForSelector(".o-spreadsheet.dark");
    const dark = await paper();
    await page.click("#scheme");
    await page.waitForSelector(".o-spreadsheet:not(.dark)");
    assert.notEqual(await paper(), dark);
    await page.reload();
    await isOpen(page);
    await page.waitForSelector(".o-spreadsheet:not(.dark)");
    await page.click("#scheme");
    assert.equal(await paper(), dark);
  },

  async quickTypingReplacesTheContentOfACell(browser) {
    await make(url, story, { A1: "kept", A2: "old" });
    const page = await person(browser, "Ada Lace");
    await page.addInitScript(() => {
      const later = globalThis.requestAnimationFrame.bind(globalThis);
      globalThis.held = null;
      globalThis.requestAnimationFrame = (callback) =>
        globalThis.held ? globalThis.held.push(callback) : later(callback);
    });
    await open(page, url, story);
    // Delay all frames while the keys are pressed, as on a slow machine or with a fast typist.
    await page.evaluate(() => (globalThis.held = []));
    await choose(page, "A1");
    for (const key of ["1", "2", "Enter", "3", "4", "Enter"]) await page.keyboard.press(key);
    await page.evaluate(() => {
      const callbacks = globalThis.held;
      globalThis.held = null;
      callbacks.forEach((callback) => requestAnimationFrame(callback));
    });
    assert.deepEqual([await textOf(page, "A1"), await textOf(page, "A2")], ["12", "34"]);
    await type(page, "A1", "slowly");
    assert.equal(await textOf(page, "A1"), "slowly");
  },

  ...versionViewer({ url, story, two }),
  ...titles({ url, story, two, folder }),
  ...away({ url, story, two }),
  ...branches({ url, story, two }),
  ...clipboard({ url, story, two }),
  ...faults({ url, story, two }),
  ...waitingUndo({ url, story, two }),
  ...layout({ url, story }),
  ...network({ url, story, two }),
});

await tellStories(chromium, (task) => storiesOf({ ...task, two: twoOf(task) }));
