// Access: names and roles of the engine's controls, for screen readers, and keys by which the focus leaves the cells.
// The engine gives its controls titles, but no roles, and the Tab key selects the next cell.

import { find, make } from "./dom.js";

const GRID = ".grid-place:not([hidden])";
const PARTS = [".o-spreadsheet-topbar", ".o-grid", ".o-spreadsheet-bottombar-wrapper"].map((part) => `${GRID} ${part}`);
/** The parts of the page in the order in which F6 gives them the focus. */
const REGIONS = ["header", ...PARTS, "#panel:not([hidden])", "#timeline"];
const FOCUSABLE = "a[href], button:enabled, input:enabled, [tabindex='0'], [contenteditable='true']";
const CELLS = ".o-grid .o-composer";
const HINT = "Arrow keys select a cell. F6 leaves the cells, and F6 again goes further. Shift+F6 goes back.";

/** Selectors of the engine's controls, each with its role and its name. A name is a text or a function of the model. */
const CONTROLS = [
  [".o-topbar-toolbar", "toolbar", "Formats"],
  [".o-topbar-topleft", "toolbar", "Menus"],
  [".o-topbar-menu", "button", null],
  [":is(.o-toolbar-button, .o-menu-item-button)[title]:not(.o-number-editor)", "button", titleOf],
  ["[title] > .o-menu-item-button:not([title])", "button", titleOf],
  [".o-number-editor input", null, titleOf],
  [".o-named-range-selector input", null, "Selected cells, or the name of a range"],
  [".o-topbar-composer .o-composer, .o-bottom-bar-composer .o-composer", "textbox", "Content of the selected cell"],
  [".o-grid-add-rows-input", null, "The number of rows to add"],
  [".o-sheet-list", "tablist", "Worksheets"],
  [".o-sheet", "tab", titleOf],
  [".o-add-sheet", "button", "Add a worksheet"],
  [".o-list-sheets", "button", "List of worksheets"],
  [".o-figure", "figure", figureName],
];
const PRESSED = "[role='button'], [role='tab']";
const BARS = "[role='toolbar'], [role='tablist']";

function titleOf(element) {
  return element.closest("[title]")?.title ?? "";
}

/** The kind of a figure, the title of its chart, and the cell at its corner. */
function figureName({ dataset: { id } }, model) {
  const figure = model?.getters.getFigure(model.getters.getActiveSheetId(), id);
  if (!figure) return "A chart or a picture";
  const { type = "", title } = figure.tag === "chart" ? chartOf(model, id) : {};
  const kind = { chart: `${type[0]?.toUpperCase()}${type.slice(1)} chart`, image: "Picture" }[figure.tag] ?? "Figure";
  const corner = `at ${globalThis.o_spreadsheet.helpers.toXC(figure.col, figure.row)}`;
  return [kind, title?.text && `“${title.text}”`, corner].filter(Boolean).join(" ");
}

const chartOf = ({ getters }, id) => getters.getChartDefinition(getters.getChartIdFromFigureId(id)) ?? {};

/** Makes the controls of one canvas usable with a keyboard and a screen reader. */
export class Access {
  #element;
  #model = null;
  #isDue = false;
  /** Announces the selected cell. */
  #announced = make("p", { class: "unseen", "aria-live": "polite" });

  /** Give the controls in an element their roles and names, now and after each change of the engine. */
  constructor(element) {
    this.#element = element;
    element.append(this.#announced);
    const observed = { childList: true, subtree: true, attributes: true, attributeFilter: ["class", "title"] };
    new MutationObserver(() => this.#describeSoon()).observe(element, observed);
    element.addEventListener("mousedown", leaveFocus);
    element.addEventListener("keydown", onKey);
    element.addEventListener("keydown", passTab, { capture: true });
  }

  /** Announce the selected cell of a model while the focus is in the cells. */
  follow(model) {
    this.#model = model;
    model.on("update", this, () => {
      if (this.#model !== model) return;
      this.#announce();
      this.#describeSoon();
    });
    this.#announce();
    this.#describeSoon();
  }

  #describeSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => this.#describe());
  }

  #describe() {
    this.#isDue = false;
    for (const [selector, role, name] of CONTROLS) {
      for (const control of this.#element.querySelectorAll(selector)) label(control, role, name, this.#model);
    }
    for (const tab of this.#element.querySelectorAll(".o-sheet"))
      set(tab, "aria-selected", String(tab.classList.contains("active")));
    for (const bar of this.#element.querySelectorAll(BARS)) limitStops(bar);
  }

  #announce() {
    const cells = find(CELLS, this.#element);
    if (!cells) return;
    const shown = describeCell(this.#model);
    set(cells, "role", "textbox");
    set(cells, "aria-label", shown);
    set(cells, "aria-description", HINT);
    const hasFocus = this.#element.contains(document.activeElement);
    if (hasFocus && this.#announced.textContent !== shown) this.#announced.textContent = shown;
  }
}

function label(control, role, name, model) {
  if (role) set(control, "role", role);
  if (name) set(control, "aria-label", typeof name === "string" ? name : name(control, model));
  if (control.matches(PRESSED) && !control.hasAttribute("tabindex")) control.tabIndex = control.closest(BARS) ? -1 : 0;
  if (role === "button") set(control, "aria-disabled", String(control.classList.contains("o-disabled")));
}

/** Set an attribute, unless it has the value, because each change calls the observer again. */
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Let the Tab key reach one control of a bar. Arrow keys reach the others. */
function limitStops(bar) {
  const controls = pressedIn(bar);
  const stop = controls.find(({ tabIndex }) => tabIndex === 0) ?? controls[0];
  if (stop) stop.tabIndex = 0;
}

const pressedIn = (bar) => [...bar.querySelectorAll(PRESSED)].filter(({ offsetParent }) => offsetParent);

/** A click on a control must not take the focus from the cell that is being edited. */
function leaveFocus(event) {
  const control = event.target.closest(PRESSED);
  if (control && !event.target.isContentEditable && !event.target.closest("input")) event.preventDefault();
}

/** At a Tab in a field of the toolbar, the engine would give the cells the focus. Give it to the next control. */
function passTab(event) {
  const { key, shiftKey, target } = event;
  if (key !== "Tab" || shiftKey || !target.matches(".o-topbar-toolbar input")) return;
  const controls = pressedIn(target.closest(BARS));
  const isAfter = (each) => target.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING;
  const next = controls.find(isAfter) ?? controls[0];
  event.preventDefault();
  event.stopPropagation();
  target.blur(); // the engine gives the cells the focus
  give(next, controls);
}

function onKey(event) {
  const { key, target } = event;
  if (!target.matches(PRESSED)) return;
  const bar = target.closest(BARS);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (key === "Enter" || key === " ") press(target);
  else if (key === "Escape") focusCells(target);
  else if (step && bar) move(target, pressedIn(bar), step);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** The engine listens to several events of the mouse. */
function press(control) {
  for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup"])
    control.dispatchEvent(new MouseEvent(type, { bubbles: true, button: 0 }));
  control.click();
}

function move(from, controls, step) {
  give(controls[(controls.indexOf(from) + step + controls.length) % controls.length], controls);
}

/** Give a control the focus, and let the Tab key reach only this control of its bar. */
function give(control, controls) {
  for (const each of controls) each.tabIndex = each === control ? 0 : -1;
  control.focus();
}

const focusCells = (element) => find(CELLS, element.closest(".grid-place"))?.focus();

/** Give the focus to the next part of the page, or to the part before. */
function leave(step) {
  const regions = REGIONS.map((selector) => find(selector)).filter(Boolean);
  const at = regions.findIndex((region) => region.contains(document.activeElement));
  for (let count = 1; count <= regions.length; count++) {
    const region = regions[(Math.max(at, 0) + step * count + regions.length * count) % regions.length];
    const first = find(CELLS, region) ?? [...region.querySelectorAll(FOCUSABLE)].find((each) => each.offsetParent);
    if (first) return first.focus();
  }
}

addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "F6" || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    leave(event.shiftKey ? -1 : 1);
  },
  { capture: true },
);

function describeCell({ getters }) {
  const position = getters.getActivePosition();
  const { formattedValue, message } = getters.getEvaluatedCell(position);
  const name = globalThis.o_spreadsheet.helpers.toXC(position.col, position.row);
  const formula = getters.getCellText(position, { showFormula: true });
  const parts = [name, formattedValue || "empty", message, formula.startsWith("=") ? formula : ""];
  return parts.filter(Boolean).join(", ");
}
