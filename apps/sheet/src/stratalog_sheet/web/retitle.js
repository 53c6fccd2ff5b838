// Retitle: a title is typed anew where it stands. Enter keeps it, and so does leaving it; Escape leaves it as it was.

import { make, sentence, toast } from "./dom.js";

const TITLE_CHARACTERS_MAX = 200;

/** Ask for another title in the place of an element. `save(title)` tells the server; what it answers is answered. */
export function retitle(shown, text, save) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  let isDone = false;
  return new Promise((resolve) => {
    const input = make("input", {
      class: "retitle",
      type: "text",
      value: text,
      maxlength: TITLE_CHARACTERS_MAX,
      "aria-label": "Title",
      autocomplete: "off",
      spellcheck: "false",
      onkeydown: (event) => press(event),
      onblur: () => submit(true),
    });
    const end = (answer = null) => {
      if (isDone) return;
      // A browser may say that the input was left as it is taken away.
      isDone = true;
      const hadFocus = document.activeElement === input;
      shown.hidden = false;
      input.remove();
      if (hadFocus && before?.isConnected) before.focus();
      resolve(answer);
    };
    const submit = async (isLeft) => {
      const title = input.value.trim();
      if (isDone || input.readOnly) return;
      if (!title || title === text) return end();
      input.readOnly = true;
      try {
        end(await save(title));
      } catch (error) {
        toast(sentence(error), true);
        input.readOnly = false;
        // Nobody is held in a place that they have left.
        if (isLeft && document.activeElement !== input) end();
      }
    };
    const press = (event) => {
      event.stopPropagation();
      if (event.isComposing) return;
      if (event.key === "Enter") submit(false);
      if (event.key === "Escape") end();
    };
    shown.hidden = true;
    shown.after(input);
    input.focus();
    input.select();
  });
}
