// Findings: a dialog that lists the differences between a file and its sheet, for example parts that an import lost.

import { capital, make } from "./dom.js";

const PLACES_SHOWN = 5;

/** Show the findings. Resolves when the dialog is closed. */
export function showFindings(title, findings) {
  const lines = findings.map(({ text, count, where }) => {
    const more = count > PLACES_SHOWN ? ", …" : "";
    const shown = where.length ? `: ${where.slice(0, PLACES_SHOWN).join(", ")}${more}` : "";
    const counted = count > 1 || where.length ? ` (${count}${shown})` : "";
    return make("li", {}, `${capital(text)}${counted}.`);
  });
  const close = make("button", { class: "strong", autofocus: true }, "Close");
  const dialog = make(
    "dialog",
    { class: "confirm", "aria-labelledby": "findings-title" },
    make("h2", { id: "findings-title" }, title),
    make("ul", {}, ...lines),
    make("form", { method: "dialog" }, close),
  );
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(undefined);
    });
  });
}
