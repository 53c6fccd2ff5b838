// Marks: cells that the page highlights for a while, or until the next marks.

import { helpers } from "./engine.js";

const FRESH_MS = 1600;

export class Marks {
  #zones = [];
  #onChange;
  #timer = null;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** Mark these cells and no others. */
  set(zones, kind = "changed") {
    clearTimeout(this.#timer);
    this.#zones = zones.map((zone) => ({ ...zone, kind }));
    this.#onChange();
  }

  /** Mark these cells for FRESH_MS. */
  flash(zones) {
    if (!zones.length) return;
    this.set(zones, "fresh");
    this.#timer = setTimeout(() => this.set([]), FRESH_MS);
  }

  /** The marked zones in a sheet of the workbook. */
  in(sheetId) {
    return this.#zones.filter((zone) => zone.sheetId === sheetId);
  }

  get count() {
    return this.#zones.length;
  }
}

/** The zones that a message's commands name. A message that undoes another, or removes rows, names no zone. */
export function zonesOf(message) {
  return (message?.commands ?? []).flatMap(zonesOfCommand);
}

/** The zone of a cell or range with a name such as B7 or B7:C9. */
export function zoneOf(sheetId, name) {
  return { sheetId, ...helpers.toZone(name) };
}

function zonesOfCommand({ type, sheetId, col, row, target, targetRange, dimension, base, position, quantity }) {
  if (!sheetId) return [];
  if (targetRange) return [zoneOf(sheetId, targetRange)];
  if (Array.isArray(target)) return target.map((zone) => ({ sheetId, ...zone }));
  if (Number.isInteger(col) && Number.isInteger(row))
    return [{ sheetId, left: col, right: col, top: row, bottom: row }];
  if (type !== "ADD_COLUMNS_ROWS") return [];
  const first = position === "before" ? base : base + 1;
  const last = first + quantity - 1;
  const sheet = { left: 0, right: Infinity, top: 0, bottom: Infinity };
  return [
    { sheetId, ...sheet, ...(dimension === "ROW" ? { top: first, bottom: last } : { left: first, right: last }) },
  ];
}
