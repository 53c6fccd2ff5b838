// Version changes: what a version changed, or how it differs from the newest version, for the timeline and the canvas.

import { toast } from "./dom.js";
import { zoneOf, zonesOf } from "./marks.js";
import { counted, zoneWords } from "./zoneWords.js";

const COMPARED_CELLS_MAX = 5000;

/**
 * Return a version's `entry`, the `zones` to mark, and the size of the change in `words`. If `newest` is null, the
 * entry's message names these zones: see `zonesOf`. Otherwise the zones are the first cells that differ from version
 * `newest`. `path` is the path of the sheet. Throws if a request fails.
 */
export async function changesAt(server, path, versionViewer, version, newest) {
  const known = versionViewer.entry(version);
  const [entry] = known ? [known] : await server.get(`${path}/activity`, { before: version + 1, limit: 1 });
  if (newest === null) {
    const zones = zonesOf(entry.message);
    return { entry, zones, words: zoneWords(zones) };
  }
  const differences = await server.get(`${path}/changes`, { source: version, target: newest });
  if (differences.length > COMPARED_CELLS_MAX)
    toast(`${differences.length} cells differ; the first ${COMPARED_CELLS_MAX} are marked.`);
  // The canvas shows the earlier version, so mark only cells that exist in that version.
  const zones = differences
    .slice(0, COMPARED_CELLS_MAX)
    .filter(({ earlier_cell }) => earlier_cell)
    .map(({ sheet_id, earlier_cell }) => zoneOf(sheet_id, earlier_cell));
  return { entry, zones, words: counted(differences.length, "cell") };
}
