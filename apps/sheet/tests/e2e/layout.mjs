// Stories of the layout of the pages: controls keep their places, and messages are in view.

import assert from "node:assert/strict";
import { evaluate, isNotified, isOpen, make, open, person, send, shows, until } from "./people.mjs";

/** Whether the window shows an element completely. This runs in the page. */
function isInWindow(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}

export const layout = ({ url, story }) => ({
  async theThumbOfTheSliderFollowsTheMouse(browser) {
    await make(url, story, Object.fromEntries(["A1", "A2", "A3", "A4", "A5", "A6", "A7"].map((cell) => [cell, cell])));
    for (const width of [1280, 1000, 360]) {
      const page = await person(browser, "Ada Lace", { viewport: { width, height: 700 } });
      await open(page, url, story);
      const slider = page.locator("#timeline input");
      const box = () => slider.evaluate((element) => JSON.stringify(element.getBoundingClientRect()));
      const before = await box();
      const { x, y, width: length } = await slider.boundingBox();
      // The centre of the thumb, which is 16 pixels wide, stays 8 pixels from the ends of the slider.
      const xOf = (version) => x + 8 + ((length - 16) * (version - 1)) / 7;
      await page.mouse.move(xOf(8), y + 13);
      await page.mouse.down();
      for (const version of [7, 6, 5, 4, 3, 2, 1, 2, 5]) {
        await page.mouse.move(xOf(version), y + 13);
        assert.equal(await slider.inputValue(), String(version), `at ${width} pixels`);
        assert.equal(await box(), before);
      }
      await page.mouse.up();
      await page.waitForSelector(".facts:has-text('1 cell changed')");
      assert.equal(await box(), before);
      await page.click('[data-do="now"]');
      await page.waitForSelector(".facts:text-is('now')");
      assert.equal(await box(), before);
    }
  },

  async theFactsOfTheNewestVersionAreNotShownForAnEarlierVersion(browser) {
    await make(url, story, { A1: "one", A2: "two" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    let proceed;
    await page.route("**/load?**", async (route) => {
      await new Promise((resolve) => (proceed = resolve));
      await route.continue();
    });
    await page.locator("#timeline input").press("ArrowLeft");
    assert.equal(await page.textContent(".when"), "Version 2 of 3");
    await page.waitForSelector(".facts:text-is('Opening…')");
    proceed();
    await page.waitForSelector(".facts:has-text('1 cell changed')");
  },

  async anAddressWithoutASheetOrAVersionIsUnderstood(browser) {
    await make(url, story, { A1: "one" });
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/edit.html?in=other`);
    await page.getByText("Sheet not found.").waitFor();
    assert.match(await page.locator("#opening a").getAttribute("href"), /in=other/);
    await open(page, url, story, "&at=first");
    assert.equal(await page.textContent(".when"), "Version 2now");
    await open(page, url, story, "&at=1");
    await page.waitForSelector(".when:has-text('Version 1 of 2')");
  },

  async theArrowKeysMoveTheSliderOverSeveralVersions(browser) {
    await make(url, story, { A1: "one", A2: "two", A3: "three" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    const slider = page.locator("#timeline input");
    await slider.focus();
    const below = await slider.evaluate((element) => {
      const { outlineOffset, outlineWidth } = getComputedStyle(element);
      const end = element.getBoundingClientRect().bottom + parseFloat(outlineOffset) + parseFloat(outlineWidth);
      return end - innerHeight;
    });
    assert.ok(below <= 0, `the outline of the focus ends ${below} pixels below the window`);
    for (const version of [3, 2, 1]) {
      await page.keyboard.press("ArrowLeft");
      await page.waitForSelector(`.when:has-text('Version ${version} of 4')`);
      await until(page, ([{ versionViewer }, wanted]) => versionViewer.version === wanted, version);
      if (version === 3) await page.waitForSelector(".facts:has-text('changed')"); // the canvas is mounted
      assert.ok(await slider.evaluate((element) => element === document.activeElement));
    }
    await page.keyboard.press("Escape");
    await page.waitForSelector(".facts:text-is('now')");
  },

  async aCanvasAcceptsInputAfterAnInterruptedMountWithoutTheFocus(browser) {
    await make(url, story, { A1: "one" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await page.locator("#title").focus();
    const result = await evaluate(page, async ([{ workbook }]) => {
      const { Canvas } = await import(`${location.origin}/web/sheet/canvas.js`);
      const box = document.getElementById("then");
      const canvas = new Canvas(box);
      canvas.mount(workbook.model);
      while (!box.inert) await null;
      canvas.clear();
      const isInert = box.inert;
      await canvas.mount(workbook.model);
      return [isInert, box.inert];
    });
    assert.deepEqual(result, [false, false]);
  },

  async chartsAndTheSwitchOfANarrowPageHaveNames(browser) {
    await make(url, story, { A1: "1", A2: "2" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await evaluate(page, ([{ workbook }]) => {
      const common = { type: "bar", dataSetsHaveTitle: false, legendPosition: "none", stacked: false };
      for (const [id, text, col] of [
        ["one", "Sales", 2],
        ["two", "", 10],
      ]) {
        const definition = { ...common, title: { text }, dataSets: [{ dataRange: "A1:A2" }] };
        const box = { col, row: 2, offset: { x: 0, y: 0 }, size: { width: 300, height: 200 } };
        workbook.model.dispatch("CREATE_CHART", { sheetId: "sheet1", chartId: id, figureId: id, ...box, definition });
      }
    });
    await page.getByRole("figure", { name: "Bar chart “Sales” at C3" }).waitFor();
    await page.getByRole("figure", { name: "Bar chart at K3" }).waitFor();
    await page.setViewportSize({ width: 640, height: 400 }); // a zoom of 200 percent
    await page.getByRole("switch", { name: "Online" }).waitFor();
  },

  async theCellsAreLeftByKeyboardAndControlsHaveNames(browser) {
    await make(url, story, { A1: "one", A2: "=1/0" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    const announced = (text) => page.waitForSelector(`#now > [aria-live]:text-is('${text}')`);
    const hasFocus = (selector) => page.waitForFunction((part) => document.activeElement.matches(part), selector);
    await page.keyboard.press("ArrowDown");
    await announced("A2, #DIV/0!, The divisor must be different from zero., =1/0");
    await page.getByRole("textbox", { name: "A2, #DIV/0!" }).waitFor();
    await page.getByRole("textbox", { name: "Content of the selected cell" }).waitFor();
    await page.getByRole("tab", { name: "Sheet1", selected: true }).waitFor();
    await page.keyboard.press("F6");
    await hasFocus("[aria-label='Add a worksheet']");
    await page.keyboard.press("F6");
    await hasFocus("#timeline *");
    await page.keyboard.press("F6");
    await hasFocus(".home");
    await page.keyboard.press("F6");
    await hasFocus("[role=toolbar][aria-label=Menus] > :first-child");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await hasFocus("[aria-label^=Undo]");
    while (!(await page.evaluate(() => document.activeElement.matches("[aria-label^=Bold]"))))
      await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await until(page, ([{ workbook }]) => workbook.model.getters.getCurrentStyle().bold);
    await page.keyboard.press("Escape");
    await page.keyboard.type("two");
    await page.keyboard.press("Enter");
    await shows(page, "A2", "two");
    await page.click("[aria-label^=Italic]");
    await page.keyboard.type("three");
    await page.keyboard.press("Enter");
    await shows(page, "A3", "three");
    await page.keyboard.press("Shift+F6");
    await hasFocus("[role=toolbar][aria-label=Menus] *");
  },

  async theTitleFieldKeepsTheFocusWhenAnotherUserRestores(browser) {
    await make(url, story, { A1: "one", A2: "two" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await page.click("#title");
    await page.keyboard.type("A new ");
    await page.$eval("#now .o-grid", (grid) => grid.classList.add("before"));
    await send(url, story, "POST", "/restore?author=Bob", { version: 2 });
    await page.waitForSelector("#now .o-grid:not(.before)");
    await shows(page, "A2", "");
    await page.keyboard.type("title");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#title:text-is('A new title')");
  },

  async usersWithoutAPlaceInTheHeaderAreCounted(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await evaluate(page, ([{ workbook }]) => {
      for (let index = 1; index <= 9; index += 1) {
        const client = { id: `c${index}`, name: `Guest ${index}`, position: { sheetId: "sheet1", col: index, row: 0 } };
        workbook.model.session.onMessageReceived({ type: "CLIENT_JOINED", version: 1, client });
      }
      workbook.dispatchEvent(new Event("people"));
    });
    assert.deepEqual(await page.locator("#people i").allTextContents(), ["G", "G", "G", "G", "G", "G", "+3"]);
    assert.equal(await page.getAttribute("#people i:last-of-type", "aria-label"), "and Guest 7, Guest 8, Guest 9");
  },

  async theGridHasTheFocusAfterThePanelIsClosed(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await page.click("#history");
    const isFree = await page.$eval("#panel .close", (/** @type {HTMLElement} */ button) => {
      button.focus();
      button.click();
      return document.activeElement === document.body; // at the next frame, the engine then gives the grid the focus
    });
    assert.ok(isFree);
    await isOpen(page);
    await page.keyboard.type("typed");
    await page.keyboard.press("Enter");
    await shows(page, "A1", "typed");
  },

  async theLinkToAllSheetsKeepsTheOrganisation(browser) {
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/edit.html?in=elsewhere&sheet=${story}`);
    await page.getByText("Sheet not found.").waitFor();
    await page.click(".home");
    await page.waitForURL("**/web/sheet/?in=elsewhere");
  },

  async aRunningImportIsShownAboveALongList(browser) {
    for (let index = 0; index < 9; index++) await make(url, `${story}${index}`);
    const page = await person(browser, "Ada Lace", { viewport: { width: 1280, height: 500 } });
    await page.goto(`${url}/web/sheet/`);
    await page.waitForSelector("#list li");
    let fail;
    await page.route("**/import?**", async (route) => {
      await new Promise((resolve) => (fail = resolve));
      await route.abort();
    });
    await page.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from("1") });
    const message = page.getByText("Importing a.csv…");
    await message.waitFor();
    // Each refresh of the list draws the message again.
    await page.evaluate(() => {
      document.querySelector("#list").firstElementChild.id = "earlier";
      dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForSelector("#earlier", { state: "detached" });
    assert.ok(await message.evaluate(isInWindow));
    for (const name of ["b.csv", "b.txt"]) {
      await page.setInputFiles("#file", { name, mimeType: "text/csv", buffer: Buffer.from("2") });
      await isNotified(page, name === "b.csv" ? "Import one file at a time." : "neither .xlsx nor .csv");
      assert.equal(await message.count(), 1);
    }
    fail();
    await isNotified(page, "The server cannot be reached.");
    assert.equal(await message.count(), 0);
  },

  async aSlowListOfSheetsIsRequestedOnce(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    const waiting = [];
    await page.route("**/organisations/local/sheets/", async (route) => {
      await new Promise((resolve) => waiting.push(resolve));
      await route.continue();
    });
    await page.goto(`${url}/web/sheet/`);
    await page.getByText("Loading the sheets…").waitFor();
    for (let index = 0; index < 3; index++) await page.evaluate(() => dispatchEvent(new Event("visibilitychange")));
    waiting.forEach((resolve) => resolve());
    await page.waitForSelector(`#list li[data-name="${story}"]`);
    assert.equal(waiting.length, 1);
    assert.equal(await page.textContent("#hint"), "");
  },

  async aRefreshOfTheListLeavesAnOpenMenu(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await page.goto(`${url}/web/sheet/`);
    const more = page.locator(`#list li[data-name="${story}"] .more`);
    await more.click();
    await page.evaluate(() => {
      performance.clearResourceTimings();
      dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForFunction(() => {
      return performance.getEntriesByType("resource").some(({ name }) => /sheets\/$/.test(name));
    });
    await page.getByRole("menuitem", { name: "Rename" }).press("Escape");
    assert.ok(await more.evaluate((element) => element === document.activeElement));
  },

  async aSheetThatWasNotImportedHasNoOriginalFile(browser) {
    await make(url, story);
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await page.click("#more");
    await page.click("text=Download the original file");
    await isNotified(page, "This sheet was not made from a file.");
    await page.click("#more");
    await send(url, story, "DELETE", "/");
    await page.click("text=Download the original file");
    await isNotified(page, "Not found.");
  },
});
