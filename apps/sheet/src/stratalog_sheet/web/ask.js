// Ask: a question that something hangs on, with the answer that changes nothing chosen first.

import { make } from "./dom.js";

/** Whether the answer is `yes`. Escape is a no. */
export function ask({ title, text, yes }) {
  const no = make("button", { class: "quiet", value: "", autofocus: true }, "Cancel");
  const choices = make("form", { method: "dialog" }, no, make("button", { class: "strong bad", value: "yes" }, yes));
  const dialog = make(
    "dialog",
    { class: "ask", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
    make("h2", { id: "ask-title" }, title),
    make("p", { id: "ask-text" }, text),
    choices,
  );
  // Keys are for the question, and not for what lies below it.
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
