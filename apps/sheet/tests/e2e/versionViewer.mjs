// Stories of the version viewer, which shows earlier versions of a sheet.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import {
  agree,
  cells,
  choose,
  evaluate,
  goOffline,
  hasVersion,
  isOpen,
  isSaved,
  showVersion,
  make,
  open,
  person,
  send,
  shows,
  stateOf,
  textOf,
  type,
  until,
  versionOf,
  write,
} from "./people.mjs";

/** Create a sheet with the story's name, and open it in one browser. */
async function openMade(browser, url, story, contents) {
  await make(url, story, contents);
  const page = await person(browser, "Ada Lace");
  await open(page, url, story);
  return page;
}

/** Make a sheet, let two people write B2, insert a row above B2, and open the history of the selected cell. */
async function openCellHistory(browser, url, story) {
  await make(url, story);
  await write(url, story, "B2", "10", "Ann Lee");
  await write(url, story, "B2", "20", "Cleo");
  await send(url, story, "POST", "/rows", { row: 1 });
  const page = await person(browser, "Ada Lace");
  await open(page, url, story);
  await page.click("#history");
  await page.click("#tab-cell");
  return page;
}

export const versionViewer = ({ url, story, two }) => ({
  async theSliderShowsEveryVersion(browser) {
    const page = await openMade(browser, url, story, { A1: "one", A2: "two", A3: "=A1" });
    await type(page, "B1", "mine");
    await isSaved(page);
    await page.keyboard.press("Control+z");
    await hasVersion(page, 6);
    await send(url, story, "POST", "/rows", { row: 1 });
    await write(url, story, "A1", "top");
    await hasVersion(page, 8);
    for (const version of [4, 7, 6, 5, 3, 7, 2, 1, 6]) {
      await showVersion(page, version);
      const server = await (await send(url, story, "GET", `/state?at=${version}`)).json();
      const shown = JSON.parse(await stateOf(page, "versionViewer"));
      assert.deepEqual(cells(shown), cells(server.sheets), `version ${version}`);
    }
    assert.match(await page.textContent("#timeline .when"), /Version 6 of 8/);
    await page.click('[data-do="now"]');
    await page.waitForFunction(() => document.getElementById("then").hidden);
    assert.equal(await textOf(page, "A1"), "top");
  },

  async changedCellsStandOut(browser) {
    const page = await openMade(browser, url, story, { A1: "one", A2: "two", A3: "three" });
    await showVersion(page, 3);
    await until(page, ([{ versionViewer }]) => {
      const zones = versionViewer.marks.in("sheet1");
      return zones.length === 1 && zones[0].top === 1;
    });
    await page.click('[data-do="compare"]');
    await until(page, ([{ versionViewer }]) =>
      versionViewer.marks.in("sheet1").some(({ top, left }) => top === 2 && left === 0),
    );
    assert.equal(await evaluate(page, ([{ versionViewer }]) => versionViewer.marks.count), 1);
    assert.match(await page.textContent("#timeline .when"), /1 cell changed/);
    // A row that was inserted later does not move the marks in the shown version, and its cells get no marks there.
    await send(url, story, "POST", "/rows", { row: 1 });
    await write(url, story, "A1", "in the new row");
    await hasVersion(page, 6);
    await page.click('[data-do="compare"]');
    await page.click('[data-do="compare"]');
    await page.waitForFunction(() => /2 cells changed/.test(document.querySelector("#timeline .when").textContent));
    const marked = await evaluate(page, ([{ versionViewer }]) => versionViewer.marks.in("sheet1"));
    assert.deepEqual(
      marked.map(({ top, left }) => [top, left]),
      [[2, 0]],
    );
  },

  async theHistoryButtonListsAllEntries(browser) {
    const page = await openMade(browser, url, story, { A1: "one", A2: "two" });
    await page.click("#history");
    await page.waitForFunction(() => document.querySelectorAll("#panel .entries li").length === 3);
    const entries = await page.locator("#panel .entries li").allInnerTexts();
    assert.match(entries[0], /wrote A2/);
    assert.match(entries[2], /created the sheet/);
    await page.click('[aria-label="Look at version 2"]');
    await until(page, ([{ versionViewer }]) => versionViewer.version === 2);
  },

  async theVersionViewerDownloadsTheWorksheetThatItShows(browser) {
    await make(url, story, { A1: "first" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await evaluate(page, ([{ workbook }]) => {
      workbook.model.dispatch("CREATE_SHEET", { sheetId: "later", name: "Later", position: 1 });
      workbook.model.dispatch("ACTIVATE_SHEET", { sheetIdFrom: "sheet1", sheetIdTo: "later" });
    });
    await hasVersion(page, 3);
    await write(url, story, "A1", "second");
    await hasVersion(page, 4);
    // Version 2 lacks the active tab of the page, so the viewer shows another tab, and keeps that tab for version 3.
    for (const version of [2, 3]) {
      await showVersion(page, version);
      await page.click("#more");
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.click("text=Download this tab as .csv"),
      ]);
      assert.equal(await readFile(await download.path(), "utf8"), "first\r\n", `version ${version}`);
    }
  },

  async playShowsEachVersionUpToTheNewest(browser) {
    const page = await openMade(browser, url, story, { A1: "one", A2: "two", A3: "three" });
    const seen = new Set();
    await page.exposeFunction("saw", (version) => seen.add(version));
    await evaluate(page, ([{ versionViewer }]) => {
      new MutationObserver(() => globalThis.saw(versionViewer.version)).observe(document.querySelector(".when"), {
        childList: true,
        subtree: true,
      });
    });
    await page.click('[data-do="play"]');
    await page.waitForFunction(() => document.body.dataset.time === "past");
    await page.waitForFunction(() => document.body.dataset.time === "now");
    assert.deepEqual([...seen].filter((version) => version > 0).sort(), [1, 2, 3]);
  },

  async blameShowsTheAuthorAndBothValuesOfEachChange(browser) {
    const page = await openCellHistory(browser, url, story);
    await choose(page, "B3");
    await page.waitForFunction(() => document.querySelectorAll("#panel .entries li").length === 2);
    const entries = await page.locator("#panel .entries li").allInnerTexts();
    assert.match(entries[0], /Cleo[\s\S]*10 → 20/);
    assert.match(entries[1], /Ann Lee[\s\S]*empty → 10/);
    await type(page, "B3", "30");
    await choose(page, "B3");
    await page.waitForFunction(() => /Ada Lace/.test(document.querySelector("#panel .entries li")?.textContent));
    await page.click('[aria-label="Look at version 2"]');
    await until(page, ([{ versionViewer }]) => versionViewer.version === 2);
  },

  async blameOfAnEarlierVersionIsForTheCellAtThatVersion(browser) {
    const page = await openCellHistory(browser, url, story);
    await showVersion(page, 2);
    // The page also selects a cell when it shows a version. So repeat the selection until the panel has B2.
    await until(page, ([{ versionViewer }]) => {
      versionViewer.model.selection.selectCell(1, 1);
      return document.querySelector("#panel h2")?.textContent === "B2Sheet1, version 2";
    });
    await page.waitForFunction(() => document.querySelector("#panel .entries"));
    assert.match(await page.innerText("#panel .entries"), /^Ann Lee[\s\S]*empty → 10/);
    await page.click('[data-do="now"]');
    await choose(page, "B2");
    await page.getByText("No change of this cell is known.").waitFor();
  },

  async aRestoreAddsANewVersion(browser) {
    const [ada, bob] = await two(browser, { A1: "first" });
    await type(bob, "A1", "second");
    await shows(ada, "A1", "second");
    await goOffline(bob);
    await type(bob, "A3", "typed meanwhile");
    await showVersion(ada, 2);
    await ada.click('[data-do="restore"]');
    await shows(ada, "A1", "first");
    assert.equal(await versionOf(ada), 4);
    await bob.click("#online");
    await shows(bob, "A1", "first");
    await shows(ada, "A3", "typed meanwhile");
    await agree(url, story, ada, bob);
    await showVersion(ada, 3);
    assert.equal(
      await evaluate(ada, ([{ versionViewer }]) =>
        versionViewer.model.getters.getCellText({ sheetId: "sheet1", col: 0, row: 0 }),
      ),
      "second",
    );
  },

  async aCopyIsMadeOfAnEarlierVersion(browser) {
    const page = await openMade(browser, url, story, { A1: "first", A2: "second" });
    await showVersion(page, 2);
    page.answers = ["The copy"];
    await Promise.all([
      page.waitForURL((address) => !address.search.includes(`sheet=${story}`)),
      page.click('[data-do="copy"]'),
    ]);
    await isOpen(page);
    assert.equal(await page.textContent("#title"), "The copy");
    assert.equal(await textOf(page, "A1"), "first");
    assert.equal(await textOf(page, "A2"), "");
    await type(page, "A2", "of the copy");
    await isSaved(page);
    await showVersion(page, 1);
  },

  async aNamedVersionIsListedAndOpened(browser) {
    const [ada, bob] = await two(browser, { A1: "first", A2: "second" });
    await showVersion(ada, 2);
    ada.answers = ["Before the review"];
    await ada.click('[data-do="name"]');
    await bob.waitForSelector('.ticks button[title^="Before the review"]');
    await bob.click("#history");
    await bob.click("#tab-versions");
    await bob.waitForSelector("text=Before the review");
    await bob.click('[aria-label="Look at version 2"]');
    await until(bob, ([{ versionViewer }]) => versionViewer.version === 2);
  },

  async aNamedVersionStaysInItsPlaceOnTheSlider(browser) {
    const page = await openMade(browser, url, story, { A1: "first", A2: "second" });
    await send(url, story, "POST", "/versions", { version: 2, label: "Half way" });
    const tick = page.locator('[aria-label="Version 2, Half way"]');
    const left = () => tick.evaluate(({ style }) => parseFloat(style.left));
    await tick.waitFor();
    await page.waitForFunction(() => document.querySelector("#timeline input").getAttribute("max") === "4");
    assert.equal(Math.round(await left()), 33);
    await write(url, story, "A3", "third");
    await page.waitForFunction(() => document.querySelector("#timeline input").getAttribute("max") === "5");
    assert.equal(await left(), 25);
  },

  async aReadOnlyLinkAllowsNoChange(browser) {
    const page = await openMade(browser, url, story, { A1: "first", A2: "second" });
    await open(page, url, story, "&view&at=2");
    await until(page, ([{ versionViewer }]) => versionViewer.version === 2);
    await page.click('[data-do="now"]');
    await choose(page, "A1");
    await page.keyboard.type("changed");
    await page.keyboard.press("Enter");
    assert.equal(await textOf(page, "A1"), "first");
    assert.equal(await page.locator('[data-do="restore"]').count(), 0);
    assert.equal(await evaluate(page, ([{ workbook }]) => workbook.waiting), 0);
  },

  async aLateAnswerForAnotherPanelTabIsNotShown(browser) {
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    const shown = await page.evaluate(async () => {
      const { Panel } = await import(`${location.origin}/web/sheet/panel.js`);
      const { promise: answer, resolve: send } = Promise.withResolvers();
      const asked = {};
      const queryOf = (tab, result) => {
        const { promise, resolve } = Promise.withResolvers();
        asked[tab] = promise;
        return () => (resolve(undefined), result);
      };
      const never = new Promise(() => {});
      const panel = document.createElement("div");
      document.body.append(panel);
      const made = new Panel(panel, { activity: queryOf("activity", answer), versions: queryOf("versions", never) });
      made.isOpen = true;
      await asked.activity;
      made.choose("versions");
      send([{ version: 1, author: "Ada", created_ms: 0, text: "of the activity" }]);
      await asked.versions;
      return document.querySelector("#panel-body").textContent;
    });
    assert.equal(shown, "Reading the history…");
  },
});
