// The overview: the counts of each source by format and kind, from its last scan. The page shows the overview while no
// work is selected.

import { make, moment, size } from "./parts.js";

const HEAD = ["Source", "Format", "Kind", "Records", "Versions", "Size", "As of"];
const LEAD = "The catalogue stores every version of each record unchanged, and makes a work from the newest version.";
const UNSCANNED = "No source has been scanned yet.";

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
    rows.length ? make("div", { class: "wide" }, table) : make("p", { class: "minor" }, UNSCANNED),
    waiting.length ? make("p", { class: "minor" }, `Not scanned yet: ${waiting.join(", ")}.`) : "",
    ...(dead.length ? [make("h3", {}, "Dead letters"), ...deadLetterLines(dead, organisation)] : []),
  );
  element.scrollTop = 0;
}

function line({ source, as_of_ms }, row, choose) {
  const button = make("button", { type: "button", class: "link", onclick: () => choose(source) }, source);
  const number = (value) => (value ?? 0).toLocaleString("en");
  const cells = [row.format ?? "", row.kind ?? "", number(row.records), number(row.versions), size(row.bytes ?? 0)];
  const rest = [...cells, moment(as_of_ms)].map((text) => make("td", {}, text));
  return make("tr", {}, make("th", { scope: "row" }, button), ...rest);
}

function deadLetterLines(dead, organisation) {
  const command = make("code", {}, `stratalog catalogue dead-letters ${organisation}`);
  return [make("p", {}, `${dead.join(", ")}. `, make("span", { class: "minor" }, "Why: ", command))];
}
