// Canvas: shows a model. A component of the engine can show only one model, so the canvas makes a new component for
// each model.

import { Alarm, pauseMs } from "/web/client/backoff.js";
import { Access } from "./access.js";
import { composerOf, endTyping, Spreadsheet, typeAnew, useStores } from "./engine.js";
import { toast } from "./dom.js";

const TEMPLATES = "/web/sheet/engine/o-spreadsheet/dist/o_spreadsheet.xml";
const BACKOFF = { firstMs: 250, limitMs: 15_000 };
const { App, Component, reactive, useExternalListener, useState, xml } = globalThis.owl;

/** The colour scheme of all canvases. */
const theme = reactive({ scheme: "light" });
const followTheme = () => (theme.scheme = document.documentElement.dataset.scheme);
addEventListener("stratalog-scheme", followTheme);
followTheme();
const SMALL_PIXELS = 700;
let templates = null;

class Frame extends Component {
  static template = xml`<Spreadsheet t-props="props.spreadsheet" colorScheme="theme.scheme" />`;
  static components = { Spreadsheet };
  static props = ["spreadsheet", "element"];

  setup() {
    this.theme = useState(theme);
    this.stores = useStores();
    useExternalListener(this.props.element, "beforeinput", (event) => typeAnew(event, this.stores), { capture: true });
  }
}

export class Canvas {
  #element;
  #app = null;
  #frame = null;
  #turn = 0;
  #access;
  /** Whether the canvas accepts no input, and whether it is mounting a component that must not take the focus. */
  #isInert = false;
  #isWithoutFocus = false;

  constructor(element) {
    this.#element = element;
    this.#access = new Access(element);
  }

  /** Show a model. Returns false if another `mount` or `clear` came meanwhile. */
  async mount(model) {
    this.clear();
    const turn = this.#turn;
    const texts = await (templates ??= fetchTemplates());
    if (turn !== this.#turn) return false;
    const spreadsheet = { model, notifyUser, raiseError, askConfirmation };
    const element = this.#element;
    // Without this `isSmall`, the engine would measure the element before the element has its size.
    const env = {
      get isSmall() {
        return element.clientWidth < SMALL_PIXELS;
      },
    };
    const options = { props: { spreadsheet, element }, env, templates: texts, translateFn: (text) => text };
    this.#app = new App(Frame, { ...options, translatableAttributes: ["data-tooltip"], warnIfNoStaticProps: false });
    this.#element.hidden = false;
    const frame = await this.#mountUnfocused();
    if (turn !== this.#turn) return false;
    this.#frame = frame;
    await painted();
    if (turn !== this.#turn) return false;
    this.#access.follow(model);
    return true;
  }

  /** Mount the component. If the focus is outside of the canvases, as in the slider, the engine must not take it. */
  async #mountUnfocused() {
    const [app, { activeElement }] = [this.#app, document];
    this.#block(!(activeElement === document.body || activeElement?.closest(".grid-place")));
    const frame = await app.mount(this.#element);
    if (app === this.#app) this.#block(false);
    return frame;
  }

  #block(isWithoutFocus) {
    this.#isWithoutFocus = isWithoutFocus;
    this.#element.inert = this.#isInert || isWithoutFocus;
  }

  /** Whether the canvas accepts no input. */
  set isInert(isInert) {
    this.#isInert = isInert;
    this.#block(this.#isWithoutFocus);
  }

  /** Commit the open edit. */
  endTyping() {
    if (this.#frame) endTyping(this.#frame.stores);
  }

  /** The composer of the shown model; null if the canvas shows no model. */
  get composer() {
    return this.#frame && composerOf(this.#frame.stores);
  }

  clear() {
    this.#turn++;
    this.#app?.destroy();
    this.#app = this.#frame = null;
    this.#block(false); // an interrupted mount does not end
    this.#element.hidden = true;
  }
}

/** Fetch the engine's templates. Without the templates no canvas can show a sheet, so repeat a failed request. */
async function fetchTemplates() {
  for (let failures = 1; ; failures++) {
    const answer = await fetch(TEMPLATES).catch(() => null);
    const text = answer?.ok ? await answer.text().catch(() => null) : null;
    if (text !== null) return text;
    await new Alarm().wait(pauseMs(failures, BACKOFF));
  }
}

/** Wait until the engine has painted the sheet. Only then has the engine computed the visible part of the sheet. */
const painted = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

function notifyUser({ text, type }) {
  toast(text, type === "danger");
}

function raiseError(text, onClose) {
  toast(text, true);
  onClose?.();
}

function askConfirmation(text, onYes, onNo) {
  if (confirm(text)) onYes();
  else onNo?.();
}
