// The documents in which the engine reads and writes xlsx are linkedom's.
globalThis.DOMParser = globalThis.linkedom.DOMParser;
globalThis.XMLSerializer = class {
  serializeToString(document) {
    return document.toString();
  }
};
