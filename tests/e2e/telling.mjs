// The Node process that tells stories, which are async functions of a browser. All stories of the process share one
// Chromium. Each story opens its own browser contexts, so no story sees the storage, cache or cookies of another one.

import process from "node:process";
import { createInterface } from "node:readline";

const STORY_MS_MAX = 300_000;
// Each window of Chromium loads the suggestions of its address bar as two pages, which cost as much CPU as a page of
// ours. No story uses the address bar. Chromium obeys only the last `--disable-features`, so the switch repeats the
// features that Playwright 1.65 turns off on this platform.
const FEATURES_OFF = [
  "WebUIOmniboxPopup",
  "WebUIOmniboxAimPopup",
  "WebUIOmniboxFullPopup",
  "AimEnabled",
  "AvoidCorsURLLoaderRestartOnRedirect",
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsFirstBalancedModeAutoEnable",
  "HttpsUpgrades",
  "LensOverlay",
  "MediaRouter",
  "NetworkTimeServiceQuerying",
  "OptimizationHints",
  "PaintHolding",
  "PreconnectToSearch",
  "ThirdPartyStoragePartitioning",
];

/** The options with which Playwright launches Chromium. */
export const launching = (executablePath) => ({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", `--disable-features=${FEATURES_OFF.join()}`],
});

/** The story that is being told: its name, the address of its server, and a folder for its files. */
export const task = { story: "", url: "", folder: "" };

let lines;

async function nextLine() {
  lines ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const { value } = await lines.next();
  return value;
}

/** Print a word for the test, and return the line with which the test answers. */
export async function ask(word) {
  console.log(word);
  return nextLine();
}

/**
 * Wait until an async task in the page resolves to a true value, and return the value. Playwright's `waitForFunction`
 * does not do that: it takes the promise of such a task for a true value, and returns at once.
 */
export async function untilResolved(page, task, argument) {
  for (;;) {
    const value = await page.evaluate(task, argument);
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Without an argument, list the stories. With the path of Chromium as an argument, tell the stories that the lines of
 * stdin name. Each line is a `task` as JSON. After each story the process prints “told”. An error in a story ends the
 * process, since an error can leave the browser in any state. `storiesOf` returns the stories for a task.
 */
export async function tellStories(chromium, storiesOf) {
  const [executablePath] = process.argv.slice(2);
  if (!executablePath) return console.log(Object.keys(storiesOf(task)).join("\n"));
  const browser = await chromium.launch(launching(executablePath));
  try {
    for (let line = await nextLine(); line; line = await ask("told")) {
      Object.assign(task, JSON.parse(line));
      const late = setTimeout(endLate, STORY_MS_MAX);
      await storiesOf(task)[task.story](browser);
      await Promise.all(browser.contexts().map((context) => context.close()));
      clearTimeout(late);
    }
  } finally {
    await browser.close();
  }
}

function endLate() {
  console.error(`${task.story} runs longer than ${STORY_MS_MAX / 1000} s`);
  process.exit(1);
}
