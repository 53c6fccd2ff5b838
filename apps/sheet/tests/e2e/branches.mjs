// Stories of sheets whose server is restored from an older backup.

import assert from "node:assert/strict";
import { ask } from "../../../../tests/e2e/telling.mjs";
import * as people from "./people.mjs";

const { goOffline, goOnline, isOpen, isSaved, make, open, person, shows, type, until, versionOf } = people;

const says = (page, text) => page.waitForFunction((wanted) => document.body.textContent.includes(wanted), text);
const isCached = (page) => page.waitForSelector("body[data-cached]");

export const branches = ({ url, story, two }) => ({
  async aServerRestoredFromABackupAcceptsPendingChanges(browser) {
    const [ada, bob] = await two(browser);
    await type(ada, "B1", "before");
    await shows(bob, "B1", "before");
    await isSaved(ada);
    await ask("backup");
    const profile = await person(browser, "Cyd", people.WITH_WORKER);
    await open(profile, url, story);
    await type(ada, "B2", "lost");
    for (const page of [bob, profile]) await shows(page, "B2", "lost");
    await isSaved(ada);
    await isCached(profile);
    await goOffline(profile);
    await type(profile, "B4", "typed offline");
    await until(profile, ([{ workbook }]) => workbook.waiting === 1);
    const address = profile.url();
    await profile.goto(`${url}/web/client/stratalog.d.ts`);
    await goOffline(ada);
    await type(ada, "B3", "waits");
    const bobHears = says(bob, "The server went back to an older state of this sheet");
    await ask("restore");
    await goOnline(ada);
    await shows(ada, "B3", "waits");
    await says(ada, "The server went back to an older state of this sheet");
    await shows(bob, "B3", "waits");
    await profile.goto(address);
    await isOpen(profile);
    for (const page of [ada, bob, profile]) {
      await shows(page, "B4", "typed offline");
      await shows(page, "B2", "");
      await shows(page, "B1", "before");
    }
    await bobHears;
    await type(bob, "B5", "goes on");
    for (const page of [ada, profile]) await shows(page, "B5", "goes on");
    await Promise.all([ada, bob, profile].map(isSaved));
    assert.equal(new Set(await Promise.all([ada, bob, profile].map(versionOf))).size, 1);
  },

  async aTabAheadOfARestoredServerReturnsToTheVersionOfTheServer(browser) {
    await make(url, story, { A1: "one" });
    const page = await person(browser, "Ada Lace");
    await open(page, url, story);
    await isSaved(page);
    const before = await versionOf(page);
    await ask("backup");
    await type(page, "A2", "lost");
    await isSaved(page);
    await ask("restore");
    await until(page, ([{ workbook }, version]) => workbook.version === version, before);
    await shows(page, "A2", "");
    await page.waitForFunction(
      (version) => document.querySelector("input[type=range]").getAttribute("max") === String(version),
      before,
    );
  },
});
