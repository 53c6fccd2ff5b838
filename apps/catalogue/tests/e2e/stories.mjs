// Stories of users of a catalogue's page, run in Chromium as tests/e2e/telling.mjs says. No wait has a fixed duration.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { task, tellStories } from "../../../../tests/e2e/telling.mjs";

const WAIT_MS = 60_000;

/** Open the catalogue's page in a new browser context. */
async function person(browser, more = "", options = {}) {
  const profile = await browser.newContext({ viewport: { width: 1280, height: 820 }, ...options });
  const page = await profile.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => {
    console.error(error.stack);
    process.exit(1);
  });
  await page.goto(`${task.url}/web/catalogue/?in=acme${more}`);
  await page.waitForSelector("#list a");
  return page;
}

async function open(page, name) {
  await page.click(`#list a:has-text("${name}")`);
  await page.waitForSelector(`article h2:has-text("${name}")`);
  await page.waitForSelector("pre");
}

const listed = (page, count) =>
  page.waitForFunction((wanted) => document.querySelectorAll("#list a").length === wanted, count);
const differs = (page, ...lines) =>
  page.waitForFunction((wanted) => {
    const shown = [...document.querySelectorAll("pre span.came, pre span.went")].map((line) => line.textContent);
    return JSON.stringify(shown) === JSON.stringify(wanted);
  }, lines);
const focusIs = (page, selector) => page.waitForFunction((wanted) => document.activeElement.matches(wanted), selector);

const stories = {
  async aSearchedWorkIsShownWithItsVersions(browser) {
    const page = await person(browser);
    await page.fill("#search", "ZSH program");
    await listed(page, 1);
    await open(page, "zsh: the zsh program");
    assert.deepEqual(await page.locator(".versions i").allTextContents(), ["3", "2", "1"]);
    await differs(page, "-Version: 5.9", "+Version: 6.0");
    assert.deepEqual(await page.locator("pre mark").allTextContents(), ["5.9", "6.0"]);
    assert.equal(await page.title(), "zsh: the zsh program · Catalogue");
  },

  async anyTwoVersionsAreCompared(browser) {
    const page = await person(browser);
    await open(page, "zsh: the zsh program");
    await page.selectOption("select", "1");
    await differs(page, "-Version: 5.8", "+Version: 6.0");
    await page.click(".versions button >> nth=2");
    await page.selectOption("select", "2");
    await differs(page, "-Version: 5.9", "+Version: 5.8");
    await page.selectOption("select", "0");
    await page.waitForFunction(() => !document.querySelector("pre .went") && document.querySelector("pre .came"));
    assert.equal(await page.textContent('select option[value="0"]'), "an empty record");
  },

  async jsonRecordsAreComparedByValue(browser) {
    const page = await person(browser);
    await open(page, "Alien");
    await differs(page, '-"R. Scott"', '+"Ridley Scott"');
    assert.deepEqual(await page.locator("pre .where").allTextContents(), ["@@ Director"]);
  },

  async aRecordIsDownloadedUnchanged(browser) {
    const page = await person(browser);
    await open(page, "zsh: the zsh program");
    await page.click(".versions button >> nth=1");
    await differs(page, "-Version: 5.8", "+Version: 5.9");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=The record as it came")]);
    const pieces = [];
    for await (const piece of await download.createReadStream()) pieces.push(piece);
    assert.match(Buffer.concat(pieces).toString(), /^Package: zsh\n[^]*Version: 5\.9\n/);
    assert.equal(download.suggestedFilename(), "zsh-amd64");
  },

  async aDeletedRecordShowsItsEarlierVersions(browser) {
    const page = await person(browser, "&source=debian&id=dash/amd64");
    await page.waitForSelector("text=The source deleted this record. Its earlier versions are below.");
    assert.equal(await page.textContent(".versions .gone"), "deleted");
    await page.waitForFunction(() => document.querySelectorAll("pre .went").length > 5);
    assert.equal(await page.isVisible("text=The record as it came"), false);
  },

  async aWorkThatCannotBeReadShowsTheErrorAndItsVersions(browser) {
    const page = await person(browser);
    await page.route("**/catalogue/work?*", (route) => route.fulfill({ status: 503, body: "{}" }));
    await page.click('#list a:has-text("zsh: the zsh program")');
    await page.waitForSelector("text=The server answered 503.");
    assert.equal(await page.locator(".versions button").count(), 3);
    await page.route("**/catalogue/work?*", (route) => route.fulfill({ status: 404, body: "{}" }));
    await page.reload();
    await page.waitForSelector("text=No work was made from this record yet.");
  },

  async theCatalogueIsReadWithoutAMouse(browser) {
    const page = await person(browser);
    await page.keyboard.press("/");
    await focusIs(page, "#search");
    await page.keyboard.type("program");
    await listed(page, 2);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector('article h2:has-text("zsh")');
    await page.waitForSelector('#list a[aria-current="true"]:has-text("zsh")');
    await page.keyboard.press("ArrowRight");
    await focusIs(page, "#work");
    await page.keyboard.press("Escape");
    await focusIs(page, '#list a[aria-current="true"]');
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await focusIs(page, "#search");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector("#search").matches(":placeholder-shown"));
    await page.keyboard.type("alien");
    await page.keyboard.press("Enter");
    await page.waitForSelector('article h2:has-text("Alien")');
    assert.equal(await page.inputValue("#search"), "alien");
  },

  async theStartPageCountsTheWorksOfEachSource(browser) {
    const page = await person(browser);
    await page.waitForSelector("table");
    const texts = (rows) => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.innerText));
    const rows = await page.locator("tbody tr").evaluateAll(texts);
    assert.deepEqual(
      rows.map(([name, ...counts]) => [...name.split(/\n| · /).slice(0, 3), ...counts]),
      [
        ["debian", "rfc822", "package", "2", "4"],
        ["films", "json", "film", "2", "3"],
      ],
    );
    assert.match(await page.textContent("#counts"), /^4 works, as of .* · 1 dead letter$/);
    assert.match(await page.textContent("article"), /1 of films\. Why: stratalog catalogue dead-letters acme/);
    await page.click("tbody button:has-text('films')");
    await listed(page, 2);
    await page.waitForSelector('#sources button[aria-pressed="true"]:has-text("films")');
    await page.fill("#search", "no such title");
    await page.waitForSelector('#hint:has-text("No works match the search.")');
  },

  async aCatalogueWithoutWorksSaysHowToBegin(browser) {
    const page = await browser.newPage();
    await page.goto(`${task.url}/web/catalogue/?in=newcomer`);
    await page.waitForSelector('#hint:has-text("There are no works yet.")');
    const commands = page.locator("article code");
    await commands.first().waitFor();
    assert.deepEqual(await commands.allTextContents(), [
      "stratalog catalogue add newcomer/books ./inbox --format json",
      "stratalog catalogue poll newcomer",
    ]);
  },

  async longNamesLargeCountsAndLongWordsAreNotCutAtAnyWidth(browser) {
    for (const width of [360, 768, 1280]) {
      const page = await person(browser, "", { viewport: { width, height: 740 } });
      const change = (path, changed) =>
        page.route(`**/catalogue/${path}?*`, async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, json: changed(await response.json()) });
        });
      const counts = { records: 1_234_567, versions: 2_345_678, bytes: 1023 * 1024 ** 2 };
      const row = { format: "rfc822", kind: "package", ...counts };
      const long = { source: "the-longest-name-that-a-source-can-have0", works: 1, as_of_ms: 0, rows: [row] };
      await change("stats", (stats) => ({ ...stats, sources: [long, ...stats.sources] }));
      await change("work", (work) => ({ ...work, description: "x".repeat(500), subjects: ["y".repeat(200)] }));
      await page.reload();
      await page.waitForSelector('td:has-text("1,234,567")');
      assert.deepEqual(await page.evaluate(cut), []);
      await open(page, "zsh: the zsh program");
      assert.deepEqual(await page.evaluate(cut), []);
    }
  },

  async deadLettersBeyondTheLimitAreMentioned(browser) {
    const page = await person(browser);
    await page.route("**/catalogue/stats?*", async (route) => {
      const response = await route.fetch();
      const stats = { ...(await response.json()), dead_letters: { films: 2, more: 3 }, more_dead_letters: true };
      await route.fulfill({ response, json: stats });
    });
    await page.reload();
    await page.waitForSelector("text=2 of films, 3 of more, and more that are not counted.");
    assert.match(await page.textContent("#counts"), / · more than 5 dead letters$/);
  },

  async anAddressRestoresTheShownSearchAndWork(browser) {
    const page = await person(browser);
    await page.fill("#search", "program");
    await listed(page, 2);
    await open(page, "bash: the bash program");
    await page.reload();
    await listed(page, 2);
    await page.waitForSelector('article h2:has-text("bash")');
    assert.equal(await page.inputValue("#search"), "program");
    await page.goBack();
    await page.waitForSelector('article h2:has-text("What is here")');
    await page.click("#home");
    await listed(page, 4);
  },

  async aClickOnANameSearchesForTheName(browser) {
    const page = await person(browser);
    await open(page, "zsh: the zsh program");
    await page.click('dd button:has-text("bash")');
    await listed(page, 1);
    assert.equal(await page.inputValue("#search"), "bash");
  },

  async aClickOnANameOnANarrowScreenShowsTheBeginningOfItsList(browser) {
    const page = await person(browser, "", { viewport: { width: 390, height: 300 } });
    await open(page, "zsh: the zsh program");
    // The list of this search lacks the work. The search field must not get the focus, and with it a keyboard.
    await page.goto(`${page.url()}&q=alien`);
    await page.click('dd button:has-text("bash")');
    await listed(page, 1);
    assert.equal(await page.locator("#search:focus").count(), 0);
    assert.equal(await page.evaluate(() => scrollY), 0);
  },

  async textOfARecordIsNotInterpretedAsMarkup(browser) {
    const page = await person(browser);
    page.on("dialog", () => process.exit(1));
    await open(page, "<img src=x onerror=alert(1)>");
    assert.equal(await page.locator("main img").count(), 0);
  },

  async theColourSchemeFollowsTheSystemUntilTheReaderChooses(browser) {
    const page = await person(browser, "", { colorScheme: "dark" });
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await paper();
    await page.emulateMedia({ colorScheme: "light" });
    await page.waitForSelector('html[data-scheme="light"]');
    const light = await paper();
    assert.notEqual(light, dark);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForSelector('html[data-scheme="dark"]');
    await page.click("#scheme");
    assert.equal(await paper(), light);
    await page.reload();
    await page.waitForSelector("#list a");
    assert.equal(await paper(), light);
    await page.click("#scheme");
    assert.equal(await paper(), dark);
  },

  async aNarrowScreenShowsEitherTheListOrAWork(browser) {
    const page = await person(browser, "", { viewport: { width: 390, height: 800 } });
    await open(page, "zsh: the zsh program");
    assert.equal(await page.isVisible("#list"), false);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} pixels too wide`);
    await page.click("#back");
    await page.waitForSelector("#list a", { state: "visible" });
    await page.fill("#search", "program");
    await listed(page, 2);
    assert.equal(await page.isVisible("article"), false);
  },

  async aClosedWorkReturnsToItsLineInTheListOnANarrowScreen(browser) {
    const page = await person(browser, "", { viewport: { width: 390, height: 300 } });
    const isSeen = (selector) => page.locator(selector).evaluate(isInWindow);
    await page.waitForSelector("#list a");
    const key = await page.locator("#list a").last().getAttribute("data-key");
    for (const close of [() => page.click("#back"), () => page.keyboard.press("Escape"), () => page.goBack()]) {
      await page.locator("#list a").last().click();
      await page.waitForSelector("article h2", { state: "visible" });
      await page.waitForFunction(() => document.activeElement?.id === "work");
      assert.ok(await isSeen("#back"));
      await close();
      await page.waitForSelector(`#list a[data-key="${key}"]:focus`);
      assert.ok(await isSeen(":focus"));
    }
  },

  async aFailedSearchShowsItsErrorInPlaceOfEarlierResults(browser) {
    const page = await person(browser);
    await page.waitForSelector("#list a");
    await page.route("**/works?**", (route) => route.fulfill({ status: 503, body: "{}" }));
    await page.fill("#search", "zsh");
    await page.waitForSelector("#hint:has-text('The server answered 503.')");
    assert.equal(await page.locator("#list a").count(), 0);
  },

  async theLossOfTheServerIsReportedAndTheListStays(browser) {
    const page = await person(browser);
    await page.context().setOffline(true);
    await page.click('#list a:has-text("zsh: the zsh program")');
    await page.waitForSelector("article:has-text('The server cannot be reached.')");
    await listed(page, 4);
    await page.fill("#search", "zsh");
    await page.waitForSelector("#hint:has-text('The server cannot be reached.')");
    await page.context().setOffline(false);
    await page.click("#sources button >> nth=0");
    await listed(page, 1);
  },

  async thePageSaysThatItLoadsAndThatARecordIsUnknown(browser) {
    const page = await person(browser);
    await page.route("**/v1/**", () => {});
    await page.goto(`${task.url}/web/catalogue/?in=acme&source=films&id=unknown`);
    await page.waitForSelector("#hint:has-text('Loading the works…')");
    await page.unroute("**/v1/**");
    await page.reload();
    await page.waitForSelector("article:has-text('Record not found.')");
  },

  async aPrintedWorkIsNotCut(browser) {
    const page = await person(browser, "", { viewport: { width: 1280, height: 300 } });
    await open(page, "zsh: the zsh program");
    const cut = () => page.locator("article").evaluate(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight);
    assert.ok((await cut()) > 0);
    await page.emulateMedia({ media: "print" });
    assert.equal(await cut(), 0);
    assert.equal(await page.isVisible("#list"), false);
  },

  async iconsSelectionAndFocusAreSeenInTheUsersOwnColours(browser) {
    const page = await person(browser, "", { forcedColors: "active" });
    await open(page, "zsh: the zsh program");
    const style = (selector, name, part) =>
      page.locator(selector).evaluate((element, [key, of]) => getComputedStyle(element, of)[key], [name, part]);
    assert.notEqual(await style("#scheme", "backgroundColor", "::before"), await style("body", "backgroundColor"));
    assert.equal(await style('#list a[aria-current="true"]', "outlineStyle"), "solid");
    assert.equal(await style('#sources [aria-pressed="true"]', "outlineStyle"), "solid");
    await page.keyboard.press("/");
    assert.equal(await style("#search", "outlineStyle"), "solid");
  },

  async theFocusFollowsTheOrderOfThePageAndIsSeen(browser) {
    for (const width of [360, 1280]) {
      const page = await person(browser, "&of=debian", { viewport: { width, height: 700 } });
      await page.waitForSelector("#sources button");
      const before = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(before <= 0, `the page is ${before} pixels too wide at ${width} pixels`);
      const stops = [];
      for (let count = 0; count < 7; count++) {
        await page.keyboard.press("Tab");
        stops.push(await page.evaluate(stop));
      }
      assert.deepEqual(
        stops.map(({ name }) => name),
        ["home", "search", "scheme", "", "debian", "films", "debian/bash/amd64"],
      );
      for (const { name, isSeen } of stops) assert.ok(isSeen, `${name} at ${width} pixels`);
    }
  },

  async aListOfAllMatchingWorksIsNotCalledShortened(browser) {
    const page = await person(browser);
    const works = Array.from({ length: 101 }, (_, at) => ({ source: "films", id: `film ${at}` }));
    await page.route("**/works?**", (route) => {
      const { searchParams } = new URL(route.request().url());
      const matching = works.slice(0, searchParams.get("text") === "all" ? 101 : 100);
      return route.fulfill({ json: matching.slice(0, Number(searchParams.get("limit"))) });
    });
    await page.fill("#search", "all");
    await page.waitForSelector("#hint:has-text('Only the first 100 works are shown.')");
    await listed(page, 100);
    await page.fill("#search", "some");
    await page.waitForFunction(() => document.querySelector("#hint").textContent === "");
    await listed(page, 100);
  },
};

/** The focused element, and whether the window shows a sign of its focus. This runs in the page. */
function stop() {
  const element = /** @type {HTMLElement} */ (document.activeElement);
  const { outlineStyle, boxShadow, borderBottomColor, color } = getComputedStyle(element);
  const { top, bottom } = element.getBoundingClientRect();
  const isMarked = outlineStyle !== "none" || boxShadow !== "none" || borderBottomColor === color;
  const name = element.id || element.dataset.name || element.dataset.key || "";
  return { name, isSeen: isMarked && top >= 0 && bottom <= innerHeight };
}

/** The page and the parts of the work or the overview that are wider than their place. This runs in the page. */
function cut() {
  const parts = [document.documentElement, ...document.querySelectorAll("article, article *")];
  const isCut = ({ scrollWidth, clientWidth }) => clientWidth > 0 && scrollWidth > clientWidth;
  return parts.filter(isCut).map(({ outerHTML }) => outerHTML.slice(0, 120));
}

/** Whether the window shows an element completely. This runs in the page. */
function isInWindow(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}

await tellStories(chromium, () => stories);
