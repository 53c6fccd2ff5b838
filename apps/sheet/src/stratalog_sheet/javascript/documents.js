// linkedom provides the XML documents with which the engine reads and writes .xlsx.
globalThis.DOMParser = globalThis.linkedom.DOMParser;
globalThis.XMLSerializer = class {
  serializeToString(document) {
    return document.toString();
  }
};
