// Start: load the page of a sheet, if its engine is available.

if (globalThis.o_spreadsheet && globalThis.owl) await import("./edit.js");
else
  document.querySelector("#opening").textContent =
    "The spreadsheet’s engine is not installed. Run: stratalog sheet setup";
