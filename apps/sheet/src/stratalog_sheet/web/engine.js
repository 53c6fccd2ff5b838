// Engine: o-spreadsheet's model, as this page uses it. What reaches behind its public names stands here and nowhere
// else; the version is pinned, and the stories of apps/sheet/tests/test_e2e.py hold each of these ways.

const { Model, Spreadsheet, helpers, stores: Stores } = globalThis.o_spreadsheet;

export { helpers, Spreadsheet };

/** A model of the data and the messages after it, which speaks through the transport. */
export function makeModel(data, messages, { client, transport, isReadOnly = false, page = {} }) {
  const config = { client, transportService: transport, mode: isReadOnly ? "readonly" : "normal", custom: { page } };
  return new Model(data, config, messages);
}

/** The messages that no entry holds yet, as they read after all rebases. */
export function pendingOf({ session }) {
  return session.pendingMessages
    .filter(({ type }) => type === "REMOTE_REVISION")
    .map((message) => ({ ...message, commands: session.revisions.get(message.nextRevisionId).commands }));
}

/** Do again what a message of an earlier life of this page did, under its own id: the server may have it already. */
export function redo(model, message) {
  const { session, state } = model;
  model.isReplayingCommand = true;
  const { changes } = state.recordChanges(() => {
    for (const command of message.commands) {
      const isAllowed = model.checkDispatchAllowedRemoteCommand(command).isSuccessful;
      if (isAllowed) model.dispatchToHandlers(model.coreHandlers, command);
    }
  });
  model.isReplayingCommand = false;
  const ids = session.uuidGenerator;
  session.uuidGenerator = { uuidv4: () => message.nextRevisionId };
  session.save({ type: "REDO_PENDING" }, message.commands, changes);
  session.uuidGenerator = ids;
  model.onRemoteRevisionReceived({ commands: message.commands });
}

/**
 * A message as the model should see it. The engine takes one of its own client's id for an acknowledgement, also one of
 * an earlier life of this page that this model knows nothing of.
 */
export function prepared({ session }, message) {
  const isOurs = session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === message.nextRevisionId);
  return { ...message, clientId: isOurs ? session.clientId : "another" };
}

/** Take back undos that wait for the server, which block the sheet meanwhile. `withdraw` forgets what is being sent. */
export function dropWaitingUndo(model, withdraw) {
  const { session } = model;
  const waiting = session.pendingMessages.filter(({ type }) => type !== "REMOTE_REVISION");
  if (!waiting.length) return;
  for (const { type, undoneRevisionId, redoneRevisionId } of waiting) {
    moveBetweenStacks(model, undoneRevisionId ?? redoneRevisionId, type === "REVISION_REDONE");
  }
  session.dropPendingHistoryMessages();
  session.waitingAck = false;
  withdraw();
  session.sendPendingMessage();
}

/** An undo that was believed lost and came through after all leaves its revision where a redo finds it. */
export function noteHistory(model, { type, undoneRevisionId, redoneRevisionId }) {
  if (type === "REVISION_UNDONE") moveBetweenStacks(model, undoneRevisionId, true);
  if (type === "REVISION_REDONE") moveBetweenStacks(model, redoneRevisionId, false);
}

function moveBetweenStacks(model, id, isUndone) {
  const history = model.handlers.find(({ undoStack }) => undoStack);
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
export const endTyping = (stores) => stores.get(Stores.CellComposerStore).stopEdition();

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
