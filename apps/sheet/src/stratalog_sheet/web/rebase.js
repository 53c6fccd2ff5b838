// Rebase: what waits is moved past a command of somebody else one command after the other. The engine moves each by the
// command as it came, also one that was typed after a row of one's own came or went, and so has it in another cell:
// docs/concepts/sheet-engine-reports.md.

/** Have the engine's history rebase what waits in order. Others' commands stay as they were committed. */
export function rebaseInOrder({ session }) {
  const branch = Object.getPrototypeOf(session.revisions.HEAD_BRANCH);
  branch.insert = insert;
}

/** @this {any} */
function insert(newOperation, predecessorId) {
  const { before, operation, after } = this.locateOperation(predecessorId);
  const transform = (command, executed) => {
    const alone = { id: "", clientId: "", commands: [command] };
    return this.buildTransformation.with({ commands: executed })(alone).commands;
  };
  let executed = newOperation.data.commands;
  const rebased = [];
  for (const waiting of after) {
    const commands = [];
    for (const command of waiting.data.commands) {
      commands.push(...transform(command, executed));
      executed = past(executed, command, transform);
    }
    rebased.push(waiting.transformed((data) => replaced(data, commands)));
  }
  this.operations = [...before, operation, newOperation, ...rebased];
}

const replaced = ({ constructor: Revision, id, clientId, rootCommand, timestamp }, commands) =>
  new Revision(id, clientId, commands, rootCommand, undefined, timestamp);

/** Commands as they read after one that waits: what they move is somewhere else by then. */
function past(executed, waiting, transform) {
  const result = [];
  let left = [waiting];
  for (const command of executed) {
    const [own] = left;
    result.push(...(own ? moved(command, own, transform) : [command]));
    if (own) left = transform(own, [command]);
  }
  return result;
}

function moved(command, own, transform) {
  if (!isOfLines(command)) return transform(command, [own]);
  if (own.type === "DUPLICATE_SHEET" && own.sheetId === command.sheetId)
    return [command, { ...command, sheetId: own.sheetIdTo }];
  const isNear = isOfLines(own) && own.sheetId === command.sheetId && own.dimension === command.dimension;
  if (!isNear) return [command];
  return command.type === "ADD_COLUMNS_ROWS" ? [movedAddition(command, own)] : movedRemoval(command, own);
}

/** The lines that somebody added: where they are beside one's own lines. */
function movedAddition(command, own) {
  const at = startOf(command);
  if (own.type === "REMOVE_COLUMNS_ROWS") return addition(command, at - countBelow(own.elements, at));
  const start = startOf(own);
  // In one gap, each keeps to the line that it was added beside: one's own ones before a line follow the others.
  const isAfter = start < at || (start === at && own.position === "after");
  return addition(command, isAfter ? at + own.quantity : at);
}

/** The lines that somebody removed, among one's own: own ones that were added beside one of them are gone, too. */
function movedRemoval(command, own) {
  const { elements } = command;
  if (own.type === "REMOVE_COLUMNS_ROWS") {
    const others = elements.filter((element) => !own.elements.includes(element));
    const left = others.map((element) => element - countBelow(own.elements, element));
    return left.length ? [{ ...command, elements: left }] : [];
  }
  const start = startOf(own);
  const lost = elements.includes(own.base) ? Array.from({ length: own.quantity }, (_, index) => start + index) : [];
  const left = elements.map((element) => (element < start ? element : element + own.quantity));
  return [{ ...command, elements: [...left, ...lost] }];
}

const isOfLines = ({ type }) => type === "ADD_COLUMNS_ROWS" || type === "REMOVE_COLUMNS_ROWS";
const startOf = ({ base, position }) => (position === "after" ? base + 1 : base);
const countBelow = (elements, line) => new Set(elements.filter((element) => element < line)).size;
const addition = (command, base) => ({ ...command, base, position: "before" });
