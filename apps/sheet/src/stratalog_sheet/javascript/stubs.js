// Stubs: the browser functions that the engine expects, for a V8 without a browser. V8 loads this file before the
// engine. The engine calls few of the functions.
const ignore = () => {};
const zero = () => 0;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const decoded = (text) => {
  let out = "", bits = 0, held = 0;
  for (const character of text.replaceAll("=", "")) {
    held = (held << 6) | DIGITS.indexOf(character);
    bits += 6;
    if (bits >= 8) out += String.fromCharCode((held >> (bits -= 8)) & 255);
  }
  return out;
};

Object.assign(globalThis, {
  window: globalThis,
  self: globalThis,
  console: { debug: ignore, error: ignore, info: ignore, log: ignore, trace: ignore, warn: ignore },
  performance: { now: () => Date.now() },
  setTimeout: zero,
  setInterval: zero,
  requestAnimationFrame: zero,
  clearTimeout: ignore,
  clearInterval: ignore,
  cancelAnimationFrame: ignore,
  navigator: { userAgent: "", language: "en-US", clipboard: {} },
  location: { href: "", origin: "" },
  addEventListener: ignore,
  removeEventListener: ignore,
  atob: decoded,
});
// The engine defines the components of its user interface while it loads. This V8 draws no component.
globalThis.owl = {
  Component: class {},
  markRaw: (value) => value,
  toRaw: (value) => value,
  whenReady: ignore,
  xml: String.raw,
};
