// Refusals: tells the user which committed commands the engine cannot execute. The sheet lacks their changes.

import { make, toast } from "./dom.js";

/** Make the line about one command. A button puts the whole command on the clipboard. */
export function refusal({ reason, command }) {
  const copy = () =>
    navigator.clipboard.writeText(JSON.stringify(command)).then(
      () => toast("The change is on the clipboard."),
      (error) => toast(error.message, true),
    );
  const text = typeof command.content === "string" ? [" ", make("code", {}, command.content)] : [];
  return make(
    "p",
    { class: "how", "data-refused": command.type },
    `Left out: ${command.type}`,
    ...text,
    `. The engine cannot use it (${reason}). `,
    make("button", { type: "button", class: "quiet", onclick: copy, onmousedown: leaveFocus }, "Copy"),
  );
}

/** A click on the button must not take the focus from the cell that is being edited. */
const leaveFocus = (event) => event.preventDefault();

/** Tell the user when the engine refuses commands of a version that had no refused command at the last check. */
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
