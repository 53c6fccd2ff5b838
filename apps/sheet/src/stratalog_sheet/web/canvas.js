// Canvas: shows a model. A component of the engine can show only one model, so the canvas makes a new component for
// each model.

import { composerOf, endTyping, Spreadsheet, typeAnew, useStores } from "./engine.js";
import { toast } from "./dom.js";

const TEMPLATES = "/web/sheet/engine/o-spreadsheet/dist/o_spreadsheet.xml";
const { App, Component, reactive, useExternalListener, useState, xml } = globalThis.owl;

/** The colour scheme of all canvases. */
export const theme = reactive({ scheme: "light" });
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

  constructor(element) {
    this.#element = element;
  }

  async mount(model) {
    this.clear();
    templates ??= fetch(TEMPLATES).then((answer) => answer.text());
    const spreadsheet = { model, notifyUser, raiseError, askConfirmation };
    const element = this.#element;
    // Without this `isSmall`, the engine would measure the element before the element has its size.
    const env = {
      get isSmall() {
        return element.clientWidth < SMALL_PIXELS;
      },
    };
    const options = { props: { spreadsheet, element }, env, templates: await templates, translateFn: (text) => text };
    this.#app = new App(Frame, { ...options, translatableAttributes: ["data-tooltip"], warnIfNoStaticProps: false });
    this.#element.hidden = false;
    this.#frame = await this.#app.mount(this.#element);
    await painted();
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
    this.#app?.destroy();
    this.#app = this.#frame = null;
    this.#element.hidden = true;
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
