// Confirm: a dialog before an action that cannot be undone. The dialog opens with the focus on Cancel.

import { make } from "./dom.js";

/** Return whether the user chose `yes`. Escape counts as no. */
export function confirmInDialog({ title, text, yes }) {
  const no = make("button", { class: "quiet", value: "", autofocus: true }, "Cancel");
  const choices = make("form", { method: "dialog" }, no, make("button", { class: "strong bad", value: "yes" }, yes));
  const dialog = make(
    "dialog",
    { class: "confirm", "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" },
    make("h2", { id: "confirm-title" }, title),
    make("p", { id: "confirm-text" }, text),
    choices,
  );
  // Keys reach only the dialog, not the page below it.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}
