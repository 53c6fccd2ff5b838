// Retitle: edit a title in place. Enter or a loss of the focus saves the new title. Escape before then keeps the old
// title.

import { make, sentence, toast } from "./dom.js";

const TITLE_CHARACTERS_MAX = 200;

/** Edit a title in place of an element. Resolves to the result of `save(title)`; null if no title was saved. */
export function retitle(shown, text, save) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  let isDone = false;
  return new Promise((resolve) => {
    const input = make("input", {
      class: "retitle",
      type: "text",
      dir: "auto",
      value: text,
      maxlength: TITLE_CHARACTERS_MAX,
      "aria-label": "Title",
      autocomplete: "off",
      spellcheck: "false",
      onkeydown: (event) => press(event),
      onblur: () => submit(),
    });
    const end = (answer = null) => {
      if (isDone) return;
      // Set this first, because the removal of the input may fire `blur`.
      isDone = true;
      const hadFocus = document.activeElement === input;
      shown.hidden = false;
      input.remove();
      if (hadFocus && before?.isConnected) before.focus();
      resolve(answer);
    };
    const submit = async () => {
      const title = input.value.trim();
      if (isDone || input.readOnly) return;
      if (!title || title === text) return end();
      input.readOnly = true;
      try {
        end(await save(title));
      } catch (error) {
        toast(sentence(error), true);
        input.readOnly = false;
        // After an error, the input stays open only if the input still has the focus.
        if (document.activeElement !== input) end();
      }
    };
    const press = (event) => {
      event.stopPropagation();
      if (event.isComposing) return;
      if (event.key === "Enter") submit();
      // While a title is saved, Escape cannot keep the old title.
      if (event.key === "Escape" && !input.readOnly) end();
    };
    shown.hidden = true;
    shown.after(input);
    input.focus();
    input.select();
  });
}
