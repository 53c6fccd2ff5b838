// Zone words: the numbers of cells, rows and columns in zones, as text.

const CELLS_COUNTED_MAX = 10_000;

/**
 * Return the cells that zones cover, as in "2 cells and 1 row"; empty without zones. A row or column has no last cell.
 * A cell in several zones counts once. More than CELLS_COUNTED_MAX cells are "many cells".
 */
export function zoneWords(zones) {
  const [cells, rows, columns] = [new Set(), new Set(), new Set()];
  let isMany = false;
  for (const zone of zones) {
    const { sheetId, left, right = Infinity, top, bottom = Infinity } = zone;
    if (right === Infinity) for (const row of numbers(top, bottom)) rows.add(`${sheetId} ${row}`);
    else if (bottom === Infinity) for (const column of numbers(left, right)) columns.add(`${sheetId} ${column}`);
    else if (cells.size + (right - left + 1) * (bottom - top + 1) > CELLS_COUNTED_MAX) isMany = true;
    else
      for (const row of numbers(top, bottom))
        for (const column of numbers(left, right)) cells.add(`${sheetId} ${row} ${column}`);
  }
  const parts = [
    isMany ? "many cells" : counted(cells.size, "cell"),
    counted(rows.size, "row"),
    counted(columns.size, "column"),
  ].filter(Boolean);
  return [parts.slice(0, -1).join(", "), ...parts.slice(-1)].filter(Boolean).join(" and ");
}

/** A count and its noun; empty for none. */
export function counted(count, noun) {
  return count === 1 ? `1 ${noun}` : count ? `${count} ${noun}s` : "";
}

function numbers(first, last) {
  return Array.from({ length: last - first + 1 }, (_, number) => first + number);
}
