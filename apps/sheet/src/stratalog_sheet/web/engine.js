// Engine: o-spreadsheet's model, as this page uses it. What reaches behind its public names stands here and nowhere
// else; the version is pinned, and the stories of apps/sheet/tests/test_e2e.py hold each of these ways.

import "./rebase.js";

const { Model, Spreadsheet, helpers, stores: Stores } = globalThis.o_spreadsheet;

export { helpers, Spreadsheet };

/** A model of the data and the messages after it, which speaks through the transport. */
export function makeModel(data, messages, { client, transport, isReadOnly = false, page = {} }) {
  const config = { client, transportService: transport, mode: isReadOnly ? "readonly" : "normal", custom: { page } };
  const model = new Model(data, config, messages);
  blockWhileAnUndoWaits(model.session);
  return model;
}

// The engine lifts the block of an undo that waits at anybody's undo, and its own undo then removes what was typed
// meanwhile: docs/concepts/sheet-engine-reports.md.
function blockWhileAnUndoWaits(session) {
  const { acknowledge } = session;
  session.acknowledge = (message) => {
    acknowledge.call(session, message);
    session.waitingUndoRedoAck = session.pendingMessages.some(({ type }) => type !== "REMOTE_REVISION");
  };
}

/** The messages that no entry holds yet, as they read after all rebases. */
export function pendingOf({ session }) {
  return session.pendingMessages
    .filter(({ type }) => type === "REMOTE_REVISION")
    .map((message) => ({ ...message, commands: session.revisions.get(message.nextRevisionId).commands }));
}

/**
 * Do again what a message of an earlier life of this page did, under its own id: the server may have it already.
 * Answers the commands that this model does not take.
 */
export function redo(model, message) {
  const { session, state } = model;
  const refused = [];
  model.isReplayingCommand = true;
  const { changes } = state.recordChanges(() => {
    for (const command of message.commands) {
      if (model.checkDispatchAllowedRemoteCommand(command).isSuccessful)
        model.dispatchToHandlers(model.coreHandlers, command);
      else refused.push(command);
    }
  });
  model.isReplayingCommand = false;
  const ids = session.uuidGenerator;
  session.uuidGenerator = { uuidv4: () => message.nextRevisionId };
  session.save({ type: "REDO_PENDING" }, message.commands, changes);
  session.uuidGenerator = ids;
  model.onRemoteRevisionReceived({ commands: message.commands });
  const pending = session.pendingMessages.find(({ nextRevisionId }) => nextRevisionId === message.nextRevisionId);
  if (pending) pending.typedAt = message.typedAt;
  return refused;
}

/**
 * A message as the model should see it. The engine takes one of its own client's id for an acknowledgement, also one of
 * an earlier life of this page that this model knows nothing of.
 */
export function prepared({ session }, message) {
  const isOurs = session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === message.nextRevisionId);
  // The engine moves what is selected by these, and leaves them as they were first typed.
  for (const pending of session.pendingMessages) {
    if (pending.type === "REMOTE_REVISION") pending.commands = session.revisions.get(pending.nextRevisionId).commands;
  }
  return { ...message, clientId: isOurs ? session.clientId : "another" };
}

/** The commands of a message that cells can be told from: one for each cell, where the message has one for many. */
export const commandsOf = ({ session }, { commands }) => session.commandSquisher.unsquish(commands ?? []);

/** What a revision did, as it reads now. */
export const commandsOfRevision = ({ session }, id) => session.revisions.get(id).commands;

/** What an undo or redo does to the present state, as commands. */
export function effectOfHistory({ session }, { undoneRevisionId, redoneRevisionId }) {
  const isPending = (id) => session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === id);
  const isUndo = undoneRevisionId !== undefined;
  return session.revisions.tree.effectOf(undoneRevisionId ?? redoneRevisionId, isUndo, isPending);
}

/**
 * Take back undos that wait for the server, which block the sheet meanwhile. `withdraw` forgets what is being sent.
 * Answers the messages that were taken back.
 */
export function dropWaitingUndo(model, withdraw) {
  const { session } = model;
  const waiting = session.pendingMessages.filter(({ type }) => type !== "REMOTE_REVISION");
  if (!waiting.length) return waiting;
  for (const { type, undoneRevisionId, redoneRevisionId } of waiting) {
    moveBetweenStacks(model, undoneRevisionId ?? redoneRevisionId, type === "REVISION_REDONE");
  }
  session.dropPendingHistoryMessages();
  session.waitingAck = false;
  withdraw();
  session.sendPendingMessage();
  return waiting;
}

/** The revision that an undo or redo would be of, beside those of `except`; null where there is none. */
export function nextInHistory(model, isRedo, except) {
  const history = historyOf(model);
  return (isRedo ? history.redoStack : history.undoStack).findLast((id) => !except.includes(id)) ?? null;
}

/** Undo a revision of one's own, or redo it. False where that cannot be. */
export function moveInHistory(model, id, isRedo) {
  const history = historyOf(model);
  if (!model.session.canApplyOptimisticUpdate()) return false;
  if (!(isRedo ? history.redoStack : history.undoStack).includes(id)) return false;
  if (isRedo) model.session.redo(id);
  else model.session.undo(id);
  moveBetweenStacks(model, id, !isRedo);
  return true;
}

/** An undo that was believed lost and came through after all leaves its revision where a redo finds it. */
export function noteHistory(model, { type, undoneRevisionId, redoneRevisionId }) {
  if (type === "REVISION_UNDONE") moveBetweenStacks(model, undoneRevisionId, true);
  if (type === "REVISION_REDONE") moveBetweenStacks(model, redoneRevisionId, false);
}

const historyOf = (model) => model.handlers.find(({ undoStack }) => undoStack);

function moveBetweenStacks(model, id, isUndone) {
  const history = historyOf(model);
  const [source, target] = isUndone ? [history.undoStack, history.redoStack] : [history.redoStack, history.undoStack];
  const index = source.lastIndexOf(id);
  if (index >= 0) target.push(...source.splice(index, 1));
}

/**
 * Take the newest messages back, as if they had not been read. False where there is an undo among them: that has
 * changed what came before it, too, and only a new model is without it.
 */
export function rewind(model, messages) {
  if (messages.some(({ type }) => type !== "REMOTE_REVISION")) return false;
  const { session } = model;
  const { revisions } = session;
  const target = messages[0].serverRevisionId;
  const commands = messages.flatMap(({ nextRevisionId }) => revisions.get(nextRevisionId).commands);
  revisions.revertTo(target);
  revisions.tree.drop(messages[0].nextRevisionId);
  for (const { nextRevisionId } of messages) session.processedRevisions.delete(nextRevisionId);
  session.serverRevisionId = target;
  model.dispatchFromCorePlugin("UNDO", { commands });
  model.finalize();
  model.trigger("update");
  return true;
}

/** Take no more changes, and keep those that there are. */
export const freeze = (model) => model.updateMode("readonly");

/** The files of the workbook that the model is, as the engine writes them. */
export async function filesOf(model) {
  const { files } = await model.exportXLSX();
  return files.filter(({ content }) => content !== undefined);
}

/** The stores of a component and those below it. */
export const useStores = () => Stores.useStoreProvider();

/** Take what is being typed into a cell as typed. */
export const endTyping = (stores) => composerOf(stores).stopEdition();

/**
 * Before a key writes: who begins to type in a cell begins with nothing. The engine empties the element that is typed
 * into with the next frame only; keys that are quicker than that would take in what the element held before.
 */
export function typeAnew({ target, inputType }, stores) {
  if (inputType !== "insertText" || !target.classList.contains("o-composer")) return;
  if (stores.get(Stores.CellComposerStore).editionMode === "inactive") target.replaceChildren();
}

/** What of a model is looked at: the cell that is chosen, and how far it is scrolled. */
export function viewOf({ getters }) {
  const { scrollX, scrollY } = getters.getActiveSheetScrollInfo();
  return { ...getters.getActivePosition(), scrollX, scrollY };
}

/** Look at the same of another model, as far as it has it. */
export function goTo(model, { sheetId, col, row, scrollX, scrollY }) {
  const { getters } = model;
  if (!getters.tryGetSheet(sheetId)) return;
  const sheetIdFrom = getters.getActiveSheetId();
  if (sheetIdFrom !== sheetId) model.dispatch("ACTIVATE_SHEET", { sheetIdFrom, sheetIdTo: sheetId });
  if (col < getters.getNumberCols(sheetId) && row < getters.getNumberRows(sheetId))
    model.selection.selectCell(col, row);
  model.dispatch("SET_VIEWPORT_OFFSET", { offsetX: scrollX, offsetY: scrollY });
}

/** A cell's name, as in B7. */
export const nameOf = (column, row) => helpers.toXC(column, row);

/** The composer of a canvas: what is typed into a cell, and which cell that is. */
export const composerOf = (stores) => stores.get(Stores.CellComposerStore);

/** What is being typed, with its cell; null where nothing is. */
export function editOf(composer) {
  if (!composer || composer.editionMode === "inactive") return null;
  const { sheetId, col, row, currentContent: text, initialContent } = composer;
  return { sheetId, col, row, text, isChanged: text !== initialContent };
}

/** The cell that is typed into is another one now: it has moved. */
export function moveEdit(composer, { col, row }) {
  Object.assign(composer, { col, row });
}

/** Choose a cell without ending what is being typed. */
export function moveSelection(model, { sheetId, col, row }) {
  if (model.getters.getActiveSheetId() !== sheetId) return;
  const selection = model.handlers.find(({ gridSelection }) => gridSelection);
  const zone = model.getters.expandZone(sheetId, { left: col, right: col, top: row, bottom: row });
  const anchor = { cell: { col, row }, zone };
  selection.setSelectionMixin(anchor, [zone]);
  model.selection.resetDefaultAnchor(selection, structuredClone(anchor));
}

/**
 * Where positions are after an undo or redo that `deliver` gives the model; null for one that went. What such a message
 * moves depends on all that came after what it undoes. So the positions stand at the end of the engine's own history
 * meanwhile, and are rebased as unsent changes are.
 */
export function traced({ session: { revisions } }, positions, deliver) {
  const id = crypto.randomUUID();
  // No plugin knows the command, and it has what the engine rebases the position of a cell by.
  const commands = positions.map((position, index) => ({ type: "STRATALOG_POSITION", index, ...position }));
  revisions.append(id, { id, clientId: "position", commands, changes: [], setChanges: () => {} });
  try {
    deliver();
    const rebased = revisions.get(id).commands;
    return positions.map((_, wanted) => {
      const { sheetId, col, row } = rebased.find(({ index }) => index === wanted) ?? {};
      return sheetId === undefined ? null : { sheetId, col, row };
    });
  } finally {
    const [{ next }] = revisions.tree.revertedExecution(revisions.HEAD_BRANCH);
    revisions.revertTo(next.operation.id);
    revisions.tree.drop(id);
  }
}

// The engine moves the cell that is typed into once too often, by commands of other sheets as well, and forgets what
// was typed where that cell was deleted: docs/concepts/sheet-engine-reports.md. The page follows that cell itself.
const handle = Stores.CellComposerStore.prototype.handle;
Stores.CellComposerStore.prototype.handle = function (command) {
  if (command.type === "ADD_COLUMNS_ROWS" || command.type === "REMOVE_COLUMNS_ROWS") return;
  if (editOf(this) && !this.getters.tryGetSheet(this.sheetId)) this.model.config.custom.page.onEditLost?.(this);
  handle.call(this, command);
};
