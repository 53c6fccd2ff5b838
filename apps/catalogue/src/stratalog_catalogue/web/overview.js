// The overview: the counts of each source by format and kind, from its last scan. The page shows the overview while no
// work is selected.

import { make, moment, size } from "./parts.js";

const HEAD = ["Source", "Records", "Versions", "Size"];
const LEAD = "The catalogue stores every version of each record unchanged, and makes a work from the newest version.";
const UNSCANNED = "No source has been scanned yet.";
const FIRST = ["add ORGANISATION/books ./inbox --format json", "poll ORGANISATION"];

/** Show the counts in `element`. A click on a row's source calls `choose(source)`. */
export function showOverview(element, stats, organisation, choose) {
  const { sources, not_scanned: waiting, dead_letters: letters } = stats;
  const rows = sources.flatMap((source) =>
    (source.rows.length ? source.rows : [{}]).map((row) => line(source, row, choose)),
  );
  const head = make("tr", {}, ...HEAD.map((text) => make("th", { scope: "col" }, text)));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  const dead = Object.entries(letters).map(([source, count]) => `${count.toLocaleString("en")} of ${source}`);
  if (stats.more_dead_letters) dead.push("and more that are not counted");
  element.replaceChildren(
    make("h2", {}, "What is here"),
    make("p", { class: "lead" }, LEAD),
    ...(rows.length ? [make("div", { class: "wide" }, table)] : unscanned(waiting, organisation)),
    waiting.length ? make("p", { class: "minor" }, `Not scanned yet: ${waiting.join(", ")}.`) : "",
    ...(dead.length ? [make("h3", {}, "Dead letters"), ...deadLetterLines(dead, organisation)] : []),
  );
  element.scrollTop = 0;
}

/** The format, the kind and the time are below the name, so that the table fits a narrow screen. */
function line({ source, as_of_ms }, row, choose) {
  const button = make("button", { type: "button", class: "link", onclick: () => choose(source) }, source);
  const facts = [row.format, row.kind, moment(as_of_ms).replaceAll(" ", "\u00a0")].filter(Boolean).join(" · ");
  const number = (value) => (value ?? 0).toLocaleString("en");
  const cells = [number(row.records), number(row.versions), size(row.bytes ?? 0)];
  const name = make("th", { scope: "row" }, button, make("small", {}, facts));
  return make("tr", {}, name, ...cells.map((text) => make("td", {}, text)));
}

/** Say that no source has been scanned, and how to begin. */
function unscanned(waiting, organisation) {
  const commands = (waiting.length ? FIRST.slice(1) : FIRST).map((text) =>
    make("li", {}, make("code", {}, `stratalog catalogue ${text.replace("ORGANISATION", organisation)}`)),
  );
  return [make("p", { class: "minor" }, `${UNSCANNED} Begin with:`), make("ol", { class: "begin" }, ...commands)];
}

function deadLetterLines(dead, organisation) {
  const command = make("code", {}, `stratalog catalogue dead-letters ${organisation}`);
  return [make("p", {}, `${dead.join(", ")}. `, make("span", { class: "minor" }, "Why: ", command))];
}
