// Positions: how cells move when rows, columns and sheets are added and deleted.

/** The axis of a command's lines, by its dimension. */
const AXES = { COL: "col", ROW: "row" };

/**
 * Return a cell's position after a command. `gone` is null while the cell exists. After the cell's deletion, `gone` is
 * "ROW", "COL" or "SHEET", and the position is the position of the gap that the cell left.
 * @param {{ sheetId: any, col: any, row: any, gone?: any }} cell
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

/** Return a cell's position after commands, in their order. */
export const movedBy = (position, commands) => commands.reduce(moved, { gone: null, ...position });

/** Whether two positions are of the same cell. */
export const isSame = (left, right) =>
  left.sheetId === right.sheetId && left.col === right.col && left.row === right.row && !left.gone && !right.gone;
