// Menu: a list of actions below a button, or above the button if there is no room below. Arrow keys move the focus, and
// Escape closes the menu.

import { make } from "./dom.js";

export function openMenu(button, items) {
  if (button.getAttribute("aria-expanded") === "true") return;
  const close = (toButton = true) => {
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    removeEventListener("pointerdown", outside, true);
    if (toButton) button.focus();
  };
  const outside = ({ target }) => menu.contains(target) || close(false);
  const choose = (does) => () => {
    close();
    does();
  };
  const entries = items.map(([text, does, className]) =>
    make("button", { type: "button", role: "menuitem", tabindex: "-1", class: className, onclick: choose(does) }, text),
  );
  const move = (event) => {
    // Keys reach only this menu, not the page below it.
    event.stopPropagation();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") return close();
    if (!step) return;
    event.preventDefault();
    entries[(entries.indexOf(document.activeElement) + step + entries.length) % entries.length].focus();
  };
  const menu = make("div", { class: "menu", role: "menu", onkeydown: move }, ...entries);
  const { top, bottom, right } = button.getBoundingClientRect();
  document.body.append(menu);
  const below = bottom + 6;
  const isRoom = below + menu.offsetHeight <= innerHeight;
  menu.style.top = `${isRoom ? below : Math.max(8, top - 6 - menu.offsetHeight)}px`;
  menu.style.right = `${Math.max(8, innerWidth - right)}px`;
  button.setAttribute("aria-expanded", "true");
  addEventListener("pointerdown", outside, true);
  entries[0].focus();
}
