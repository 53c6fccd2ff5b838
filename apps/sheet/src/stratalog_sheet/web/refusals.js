// Refusals: tells the user which committed commands the engine cannot execute. The sheet lacks their changes.

import { make, toast } from "./dom.js";

/** Make the line about one command. */
export function refusal({ type, reason }) {
  return make("p", { class: "how", "data-refused": type }, `Left out: ${type}. The engine cannot use it (${reason}).`);
}

/** Tell the user when a model lacks further commands. */
export function watchRefusals(workbook) {
  let known = new Set();
  const check = () => {
    const { refused } = workbook;
    const versions = new Set(refused.map(({ version }) => version));
    if ([...versions].some((version) => !known.has(version))) {
      const which = [...versions].map((version) => `v${version}`).join(", ");
      toast(`The engine cannot use some changes, and the sheet lacks them: ${which}. See the activity.`, true);
    }
    known = versions;
  };
  workbook.addEventListener("model", check);
  workbook.addEventListener("given", check);
}
