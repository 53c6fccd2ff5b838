// Engine: o-spreadsheet's model, as this page uses it. Of the engine's private names, all files of the page may use
// `model.session`. Only this file, rebase.js, refusal.js, trial.js, charts.js, clipboard.js and plugins.js use others.
// The engine's version is pinned, and apps/sheet/tests/test_e2e.py tests the uses of private names.

import "./charts.js";
import "./rebase.js";
import "./refusal.js";
import "./trial.js";

const { coreTypes, DispatchResult, Model, readonlyAllowedCommands, Spreadsheet } = globalThis.o_spreadsheet;
const { helpers, stores: Stores } = globalThis.o_spreadsheet;

export { helpers, Spreadsheet };

/** Marks each command that the model has refused: refusal.js. */
const REFUSED = Symbol.for("stratalog.refused");

/** Make a model from data and the messages after it. The model sends and receives messages through `transport`. */
export function makeModel(data, messages, { client, transport, isReadOnly = false, page = {} }) {
  const config = { client, transportService: transport, mode: isReadOnly ? "readonly" : "normal", custom: { page } };
  const model = new Model(data, config, messages);
  blockWhileAnUndoWaits(model.session);
  queueWhileAnUndoWaits(model);
  return model;
}

// While an undo of this page is unacknowledged, the engine blocks changes. But the engine lifts the block at any
// client's undo, and the page's undo then removes text that the user typed meanwhile. So this function keeps the block:
// docs/concepts/sheet-engine-reports.md.
function blockWhileAnUndoWaits(session) {
  const { acknowledge } = session;
  session.acknowledge = (message) => {
    acknowledge.call(session, message);
    session.waitingUndoRedoAck = session.pendingMessages.some(({ type }) => type !== "REMOTE_REVISION");
  };
}

/** Has the id and the version with which a queued command is stored. */
const STORED = Symbol("stored");
/** Marks a queued command with its position in the queue. */
const QUEUED = Symbol("queued");
const DISALLOWED = new DispatchResult("WaitingSessionConfirmation");
const HISTORY = new Set(["REQUEST_UNDO", "REQUEST_REDO"]);

/** The commands that a model's user gave while an undo or redo waited for the server, by model. */
const queues = new WeakMap();

/**
 * While the engine blocks changes, queue the user's commands, which the engine would refuse and forget. Other commands
 * than these depend on the selection, or on the clipboard, of the moment at which they are executed.
 */
function queueWhileAnUndoWaits(model) {
  const { dispatch, session } = model;
  const queue = [];
  queues.set(model, queue);
  model.dispatch = (type, payload) => {
    if (session.canApplyOptimisticUpdate()) return dispatch(type, payload);
    const isView = readonlyAllowedCommands.has(type) && !coreTypes.has(type);
    if (isView) return withoutBlock(session, () => dispatch(type, payload));
    if (!coreTypes.has(type) && !HISTORY.has(type)) return dispatch(type, payload);
    // The user gives the command before the page shows the queued ones, which may move its cells.
    const { buildTransformation } = session.revisions.HEAD_BRANCH;
    const alone = { id: "", clientId: "", commands: [{ ...payload, type }] };
    const { commands } = buildTransformation.with({ commands: queue })(alone);
    queue.push(...commands);
    model.trigger("update");
    return DispatchResult.Success;
  };
}

/** Dispatch a command that changes only what the page shows, such as its scroll position. */
function withoutBlock(session, dispatch) {
  session.waitingUndoRedoAck = false;
  try {
    return dispatch();
  } finally {
    session.waitingUndoRedoAck = true;
  }
}

/**
 * Dispatch the queued commands, in their order. After a queued undo or redo, the rest of them wait again. If `miss` is
 * given, call `miss(isRedo)` for each queued undo or redo instead.
 */
export function runQueued(model, miss) {
  const queue = queues.get(model);
  while (queue.length && model.session.canApplyOptimisticUpdate()) {
    const { type, [STORED]: stored, ...payload } = queue.shift();
    if (miss && HISTORY.has(type)) miss(type === "REQUEST_REDO");
    // The message keeps the id of the stored command, which the server would otherwise get twice after a crash.
    else withId(model.session, stored?.nextRevisionId, () => model.dispatch(type, payload));
  }
}

/**
 * Call `deliver`, which gives the model a message, and move the queued commands with their cells. Returns the commands
 * whose cells the message deleted, which are not queued any more.
 */
export function moveQueued(model, deliver) {
  const queue = queues.get(model);
  if (!queue.length) return deliver(), [];
  // The engine must move these commands, but not execute them.
  const { checkDispatchAllowedRemoteCommand: check } = model;
  model.checkDispatchAllowedRemoteCommand = (command) =>
    QUEUED in command ? DISALLOWED : check.call(model, command);
  try {
    const waiting = queue.map((command, index) => ({ ...command, [QUEUED]: index }));
    const after = rebased(model, waiting, deliver);
    const left = new Set(after.map((command) => command[QUEUED]));
    const lost = queue.filter((_, index) => !left.has(index));
    queue.splice(0, queue.length, ...after.map(({ [QUEUED]: _, ...command }) => command));
    return lost;
  } finally {
    delete model.checkDispatchAllowedRemoteCommand;
  }
}

/**
 * Return a message for each queued command except undos and redos, for the page that opens after a crash.
 * `version` is the model's version.
 */
export function queuedOf(model, version) {
  return queues.get(model).flatMap((command) => {
    if (HISTORY.has(command.type)) return [];
    command[STORED] ??= { nextRevisionId: crypto.randomUUID(), typedAt: version };
    return { type: "REMOTE_REVISION", version: 1, ...command[STORED], commands: [{ ...command }] };
  });
}

/** Return the uncommitted messages except undos and redos, with the commands of each message after all rebases. */
export function pendingOf({ session }) {
  return session.pendingMessages
    .filter(({ type }) => type === "REMOTE_REVISION")
    .map((message) => ({ ...message, commands: session.revisions.get(message.nextRevisionId).commands }));
}

/**
 * Apply a pending message again, after a reload of the page or in a new model. The message keeps its id, because the
 * server may already have the message. Returns the commands that this model refuses.
 */
export function redo(model, message) {
  const { session, state } = model;
  const refused = [];
  model.isReplayingCommand = true;
  const { changes } = state.recordChanges(() => {
    for (const command of message.commands) {
      const isAllowed = model.checkDispatchAllowedRemoteCommand(command).isSuccessful;
      if (isAllowed) model.dispatchToHandlers(model.coreHandlers, command);
      if (!isAllowed || REFUSED in command) refused.push(command);
    }
  });
  model.isReplayingCommand = false;
  withId(session, message.nextRevisionId, () => session.save({ type: "REDO_PENDING" }, message.commands, changes));
  model.onRemoteRevisionReceived({ commands: message.commands });
  const pending = session.pendingMessages.find(({ nextRevisionId }) => nextRevisionId === message.nextRevisionId);
  if (pending) pending.typedAt = message.typedAt;
  return refused;
}

/** Let a session give the next message this id, if `id` is given. */
function withId(session, id, send) {
  const ids = session.uuidGenerator;
  if (id) session.uuidGenerator = { uuidv4: () => id };
  try {
    send();
  } finally {
    session.uuidGenerator = ids;
  }
}

/**
 * Prepare a committed message for the model. The engine treats a message with its own client id as an acknowledgement.
 * So a message that this model has not sent gets another client id, for example a message from before a reload.
 */
export function prepared({ session }, message) {
  const isOurs = session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === message.nextRevisionId);
  // The engine moves the selection by the commands of `pendingMessages`, but does not rebase these commands. So rebase
  // the commands here.
  for (const pending of session.pendingMessages) {
    if (pending.type === "REMOTE_REVISION") pending.commands = session.revisions.get(pending.nextRevisionId).commands;
  }
  return { ...message, clientId: isOurs ? session.clientId : "another" };
}

/** Return a message's commands, with a command for many cells split into one for each cell. */
export const commandsOf = ({ session }, { commands }) => session.commandSquisher.unsquish(commands ?? []);

/** Return the commands that the model has refused, because the engine cannot execute them: `{id, reason, command}`. */
export function refusedIn({ session: { revisions } }) {
  const executed = [...revisions.tree.execution(revisions.tree.branches[0])];
  return executed.flatMap(({ operation: { id, data }, isCancelled }) => {
    const refused = isCancelled ? [] : data.commands.filter((command) => command[REFUSED]);
    return refused.map((command) => ({ id, reason: command[REFUSED], command }));
  });
}

/** The commands of a revision, after all rebases until now. */
export const commandsOfRevision = ({ session }, id) => session.revisions.get(id).commands;

/** Return the commands by which an undo or redo changes the present state. */
export function effectOfHistory({ session }, { undoneRevisionId, redoneRevisionId }) {
  const isPending = (id) => session.pendingMessages.some(({ nextRevisionId }) => nextRevisionId === id);
  const isUndo = undoneRevisionId !== undefined;
  return session.revisions.tree.effectOf(undoneRevisionId ?? redoneRevisionId, isUndo, isPending);
}

/**
 * Take back undos and redos that the server has not acknowledged, because they block the sheet. `withdraw` makes the
 * transport forget the message that the transport is sending. Returns the messages that were taken back.
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

/** Return the id of the revision that the next undo or redo would change, without the ids in `except`; else null. */
export function nextInHistory(model, isRedo, except) {
  const history = historyOf(model);
  return (isRedo ? history.redoStack : history.undoStack).findLast((id) => !except.includes(id)) ?? null;
}

/** Undo or redo a revision of this page. Returns false if that is impossible. */
export function moveInHistory(model, id, isRedo) {
  const history = historyOf(model);
  if (!model.session.canApplyOptimisticUpdate()) return false;
  if (!(isRedo ? history.redoStack : history.undoStack).includes(id)) return false;
  if (isRedo) model.session.redo(id);
  else model.session.undo(id);
  moveBetweenStacks(model, id, !isRedo);
  return true;
}

/** After the commit of an undo or redo that the page had taken back, move its revision to the other stack. */
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
 * Take back the newest messages, as if the model had not read these messages. Returns false if one of the messages is
 * an undo or redo. An undo or redo has also changed earlier messages, so the caller then needs a new model.
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

/** Make the model refuse further changes, and keep the existing changes. */
export const freeze = (model) => model.updateMode("readonly");

/** Return the files of the model's workbook, as the engine exports them, without images. */
export async function filesOf(model) {
  const { files } = await model.exportXLSX();
  return files.filter(({ content }) => content !== undefined);
}

/** Provide the engine's stores to a component and its children. */
export const useStores = () => Stores.useStoreProvider();

/** Commit the open edit. */
export const endTyping = (stores) => composerOf(stores).stopEdition();

/**
 * Empty the input element before the first key of a new edit. The engine empties the element only in the next frame, so
 * a fast key would be added to the element's old text.
 */
export function typeAnew({ target, inputType }, stores) {
  if (inputType !== "insertText" || !target.classList.contains("o-composer")) return;
  if (stores.get(Stores.CellComposerStore).editionMode === "inactive") target.replaceChildren();
}

/** Return the view of a model: the selected cell and the scroll position. */
export function viewOf({ getters }) {
  const { scrollX, scrollY } = getters.getActiveSheetScrollInfo();
  return { ...getters.getActivePosition(), scrollX, scrollY };
}

/** Show a view in another model, if that model has the view's sheet. Select the cell if that model has the cell. */
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

/** The composer of a canvas, which has the text of the open edit and its cell. */
export const composerOf = (stores) => stores.get(Stores.CellComposerStore);

/** Return the open edit with its cell; null if no edit is open. */
export function editOf(composer) {
  if (!composer || composer.editionMode === "inactive") return null;
  const { sheetId, col, row, currentContent: text, initialContent } = composer;
  return { sheetId, col, row, text, isChanged: text !== initialContent };
}

/** Move the open edit to the new position of its cell. */
export function moveEdit(composer, { col, row }) {
  Object.assign(composer, { col, row });
}

/** Select a cell without ending the open edit. Does nothing if another sheet is active. */
export function moveSelection(model, { sheetId, col, row }) {
  if (model.getters.getActiveSheetId() !== sheetId) return;
  const selection = model.handlers.find(({ gridSelection }) => gridSelection);
  const zone = model.getters.expandZone(sheetId, { left: col, right: col, top: row, bottom: row });
  const anchor = { cell: { col, row }, zone };
  selection.setSelectionMixin(anchor, [zone]);
  model.selection.resetDefaultAnchor(selection, structuredClone(anchor));
}

/**
 * Return the positions of cells after an undo or redo that `deliver` gives the model, with `gone` as in positions.js.
 * The new positions depend on all messages after the undone message. So the engine rebases two commands for each cell,
 * one for its row and one for its column. The engine drops the command of a deleted line.
 */
export function traced(model, positions, deliver) {
  // No plugin handles these commands. They have the fields by which the engine rebases a row or a column.
  const lineOf = (dimension, { sheetId, col, row }, index) => {
    return { type: "STRATALOG_LINE", index, sheetId, dimension, elements: [dimension === "ROW" ? row : col] };
  };
  const commands = positions.flatMap((each, index) => ["ROW", "COL"].map((line) => lineOf(line, each, index)));
  const after = rebased(model, commands, deliver);
  const lineAfter = (wanted, line) =>
    after.find(({ index, dimension }) => index === wanted && dimension === line)?.elements[0];
  return positions.map(({ sheetId, col, row }, index) => {
    const [rowAfter, colAfter] = [lineAfter(index, "ROW"), lineAfter(index, "COL")];
    const lost = rowAfter === undefined ? "ROW" : colAfter === undefined ? "COL" : null;
    const gone = model.getters.tryGetSheet(sheetId) ? lost : "SHEET";
    return { sheetId, col: colAfter ?? col, row: rowAfter ?? row, gone };
  });
}

/**
 * Return commands after the rebase by a message that `deliver` gives the model. This function temporarily puts the
 * commands at the end of the engine's history, so that the engine rebases them like unsent changes.
 */
function rebased(model, commands, deliver) {
  const { revisions } = model.session;
  const id = crypto.randomUUID();
  revisions.append(id, { id, clientId: "position", commands, changes: [], setChanges: () => {} });
  try {
    deliver();
    return revisions.get(id).commands;
  } finally {
    const [{ next }] = revisions.tree.revertedExecution(revisions.HEAD_BRANCH);
    revisions.revertTo(next.operation.id);
    revisions.tree.drop(id);
  }
}

// When another user inserts or deletes lines, the engine moves the edited cell twice, even if the lines are in another
// sheet. If the edited cell is deleted, the engine loses the typed text: docs/concepts/sheet-engine-reports.md. So this
// handler ignores these commands, and the page follows the edited cell itself.
const handle = Stores.CellComposerStore.prototype.handle;
Stores.CellComposerStore.prototype.handle = function (command) {
  if (command.type === "ADD_COLUMNS_ROWS" || command.type === "REMOVE_COLUMNS_ROWS") return;
  if (editOf(this) && !this.getters.tryGetSheet(this.sheetId)) this.model.config.custom.page.onEditLost?.(this);
  handle.call(this, command);
};
