// Ending: the messages above a sheet after the page has stopped, for example because the sheet was deleted.

import { make, sentence } from "./dom.js";
import { nameOf } from "./engine.js";

/** A number of changes in words. */
export const changes = (count) => (count === 1 ? "1 change" : `${count} changes`);

/** Return a message that the sheet was deleted. It offers the page's copy, with its unsent changes, as a download. */
export function describeDeletion({ title, waiting }, { downloadHere, discard, complain }) {
  const waits = waiting ? `, and ${changes(waiting)} of yours that came too late` : "";
  const deleted = make("b", {}, `“${title}” was deleted.`);
  return [
    make("p", {}, deleted, ` This window still shows its last known state${waits}.`),
    button("Download as .xlsx", () => downloadHere().catch(complain), "strong"),
    button("Discard", () => discard().catch(complain), "quiet"),
  ];
}

/** Describe why a sheet does not open, with a link to the list of sheets. */
export function describeFailure(error, name, home) {
  const text = error.code === "not-found" || !name ? "Sheet not found." : sentence(error);
  return [text, make("a", { href: home }, "All sheets")];
}

/** Return a message that the page accepts no edit until a reload. It has the text of an edit that is not stored. */
export function describeFault({ fault, waiting, hasOfflineCache }, { edit }) {
  const words = ["The page takes no more edits until you reload it.", sentence(fault)];
  const fate = hasOfflineCache ? "stored in this browser" : "not stored, so lost on a reload";
  if (waiting) words.push(`Not sent yet: ${changes(waiting)}, ${fate}.`);
  if (edit?.isChanged) words.push(`Not stored, in ${nameOf(edit.col, edit.row)}: ${edit.text}`);
  const stopped = make("b", {}, "This page has stopped.");
  return [make("p", {}, stopped, ` ${words.join(" ")}`), button("Reload", () => location.reload(), "strong")];
}

const button = (text, does, className) => make("button", { type: "button", class: className, onclick: does }, text);
