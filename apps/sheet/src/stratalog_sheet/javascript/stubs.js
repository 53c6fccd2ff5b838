// What the engine asks of a browser before it is loaded into a bare V8: little of it is ever used.
globalThis.window = globalThis;
globalThis.self = globalThis;
const ignore = () => {};
globalThis.console = { debug: ignore, error: ignore, info: ignore, log: ignore, trace: ignore, warn: ignore };
globalThis.performance = { now: () => Date.now() };
globalThis.setTimeout = globalThis.setInterval = globalThis.requestAnimationFrame = () => 0;
globalThis.clearTimeout = globalThis.clearInterval = globalThis.cancelAnimationFrame = ignore;
globalThis.navigator = { userAgent: "", language: "en-US", clipboard: {} };
globalThis.location = { href: "", origin: "" };
globalThis.addEventListener = globalThis.removeEventListener = ignore;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
globalThis.atob = (text) => {
  let out = "", bits = 0, held = 0;
  for (const character of text.replaceAll("=", "")) {
    held = (held << 6) | DIGITS.indexOf(character);
    bits += 6;
    if (bits >= 8) out += String.fromCharCode((held >> (bits -= 8)) & 255);
  }
  return out;
};
// The engine names the components of its page as it loads; nothing is ever drawn here.
globalThis.owl = {
  Component: class {},
  markRaw: (value) => value,
  toRaw: (value) => value,
  whenReady: ignore,
  xml: String.raw,
};
