// Positions: where cells go when rows, columns and sheets come and leave.

/** The axis of a command's lines, by its dimension. */
const AXES = { COL: "col", ROW: "row" };

/**
 * Where a cell is after a command. `gone` is null while it is there; else the dimension or "SHEET" that it went with,
 * and the position is the gap that it left.
 */
export function moved({ gone = null, ...position }, command) {
  if (position.sheetId !== command.sheetId || gone === "SHEET") return { ...position, gone };
  const axis = AXES[command.dimension];
  const line = position[axis];
  if (command.type === "DELETE_SHEET") return { ...position, gone: "SHEET" };
  if (command.type === "ADD_COLUMNS_ROWS") {
    const at = command.position === "before" ? command.base : command.base + 1;
    return { ...position, gone, [axis]: line < at ? line : line + command.quantity };
  }
  if (command.type === "REMOVE_COLUMNS_ROWS") {
    const below = command.elements.filter((element) => element < line).length;
    const isRemoved = command.elements.includes(line) && gone !== command.dimension;
    return { ...position, gone: isRemoved ? command.dimension : gone, [axis]: line - below };
  }
  return { ...position, gone };
}

/** Where a cell is after commands, in their order. */
export const movedBy = (position, commands) => commands.reduce(moved, { gone: null, ...position });

/** Whether two positions are of one cell. */
export const isSame = (left, right) =>
  left.sheetId === right.sheetId && left.col === right.col && left.row === right.row && !left.gone && !right.gone;
