// Zone words: a text with the number of cells, rows and columns in some zones.

const CELLS_COUNTED_MAX = 10_000;

/**
 * Return the size of the zones as text, for example "2 cells and 1 row"; an empty string without zones.
 * A zone without a right edge counts as rows, a zone without a bottom edge as columns. A cell, row or column in
 * several zones counts once. If the cells may be more than CELLS_COUNTED_MAX, the text has "many cells".
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

/** Return a count and its noun, such as "2 cells"; an empty string if the count is 0. */
export function counted(count, noun) {
  return count === 1 ? `1 ${noun}` : count ? `${count} ${noun}s` : "";
}

function numbers(first, last) {
  return Array.from({ length: last - first + 1 }, (_, number) => first + number);
}
