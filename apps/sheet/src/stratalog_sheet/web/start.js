// Start: the page of a sheet, if the engine that it stands on is there.

if (globalThis.o_spreadsheet && globalThis.owl) await import("./edit.js");
else
  document.querySelector("#opening").textContent =
    "The spreadsheet’s engine is not there yet. Run: stratalog sheet setup";
