// Two clients undo and redo changes of rows and columns after later changes. Each text must stay in its row and
// column. `node undo.mjs ENGINE_FOLDER PAGE_FOLDER FIRST_SEED SEEDS` plays a run for each seed, and prints the faults
// of the first seeds that have some.
import { chanceOf, change, effectOfHistory, look, made, movedBy, named, playAll, sheetId } from "./lines.mjs";

const STEPS = 24;

/**
 * Play a run: two clients change rows and columns, type, undo and redo. Return a line for each text that is missing or
 * in another cell, for each wrong prediction of a move, and for a difference between the clients.
 */
function play(seed) {
  const chance = chanceOf(seed);
  const below = (limit) => Math.floor(chance() * limit);
  const clients = [made(named(), "ann"), made(named(), "ben")];
  const typed = [];
  const unpredicted = [];
  let hasRedone = false;
  const deliver = (client) => {
    for (const message of client.sent.splice(0)) for (const each of clients) unpredicted.push(...given(each, message));
  };
  for (let step = 0; step < STEPS; step++) {
    const client = clients[below(2)];
    const roll = below(10);
    if (roll < 4) change(client.model, below);
    else if (roll < 6) client.model.dispatch("REQUEST_UNDO");
    else if (roll < 7) {
      const { redoStack } = client.model.handlers.find(({ undoStack }) => undoStack);
      hasRedone ||= redoStack.length > 0;
      if (redoStack.length) client.model.dispatch("REQUEST_REDO");
    } else type(client.model, `text ${step}`, below, typed);
    deliver(client);
  }
  const [ann, ben] = clients.map(({ model }) => look(model));
  const same = JSON.stringify([...ann].sort()) === JSON.stringify([...ben].sort());
  const elsewhere = typed.flatMap((each) => wrong(ann, each, hasRedone));
  return [...elsewhere, ...unpredicted, ...(same ? [] : ["the clients differ"])].map((line) => `seed ${seed}: ${line}`);
}

/** Give a client a message. Return a line for each name or text that an undo or redo moves to an unpredicted cell. */
function given({ model, receive }, message) {
  if (message.type === "REMOTE_REVISION") return receive(message) ?? [];
  const before = look(model);
  const effect = effectOfHistory(model, message);
  const sizes = sizesOf(model);
  receive(message);
  const after = look(model);
  // An undo that removes a line also removes lines that were later added beside this line. The prediction omits those
  // added lines that are still pending: see `effectOf` in rebase.js. So check no moves if the sizes were not predicted.
  const grown = sizesOf(model).map((size, index) => size - sizes[index]);
  if (grown.some((lines, index) => lines !== grownBy(effect, ["ROW", "COL"][index]))) return [];
  return [...before].flatMap(([name, { col, row }]) => {
    const there = after.get(name);
    const predicted = movedBy({ sheetId, col, row }, effect);
    const isRight = predicted.gone ? !there : !there || (there.col === predicted.col && there.row === predicted.row);
    return isRight ? [] : [`${name} goes to ${JSON.stringify(there)}, not to ${JSON.stringify(predicted)}`];
  });
}

const sizesOf = ({ getters }) => [getters.getNumberRows(sheetId), getters.getNumberCols(sheetId)];

function grownBy(effect, dimension) {
  const lines = effect.filter((command) => command.dimension === dimension);
  return lines.reduce((sum, { quantity, elements }) => sum + (quantity ?? -elements.length), 0);
}

/** Type into a cell whose row and column have names. Skip a cell that was typed into before. */
function type(model, text, below, typed) {
  const positions = look(model);
  const lines = (dimension) => [...positions].filter(([name]) => name.startsWith(dimension));
  const [row, { row: top }] = lines("ROW")[below(4)] ?? ["", {}];
  const [column, { col: left }] = lines("COL")[below(4)] ?? ["", {}];
  if (!row || !column || typed.some((each) => each.row === row && each.column === column)) return;
  const before = new Set(model.session.pendingMessages.map(({ nextRevisionId }) => nextRevisionId));
  const { isSuccessful } = model.dispatch("UPDATE_CELL", { sheetId, col: left, row: top, content: text });
  const revision = model.session.pendingMessages.find(({ nextRevisionId }) => !before.has(nextRevisionId));
  if (isSuccessful && revision) typed.push({ text, row, column, model, id: revision.nextRevisionId });
}

function wrong(positions, { text, row, column, model, id }, hasRedone) {
  const [there, top, left] = [text, row, column].map((each) => positions.get(each));
  const isUndone = [...model.session.revisions.tree.execution(model.session.revisions.tree.branches[0])].some(
    ({ operation, isCancelled }) => operation.id === id && isCancelled,
  );
  const where = there ? `at ${JSON.stringify(there)}` : "nowhere";
  // If a removal of a line is undone, redone and undone again, the engine loses texts that users typed in between. So a
  // text may be missing after a redo.
  const isRight = there ? top && left && there.row === top.row && there.col === left.col : hasRedone || isUndone;
  return isRight || (!there && (!top || !left)) ? [] : [`“${text}” of ${row}, ${column} is ${where}`];
}

playAll(play);
