// Refusal: makes the engine refuse each command that it cannot execute. Without this file, the engine throws, and no
// engine opens the version of the command or a later version: docs/concepts/sheet-engine-reports.md. The command's
// message stays in the log. The page and the server's engines load this file, because all models of a log must refuse
// the same commands. The server's engines load this file as a script, so it has no exports.
{
  /**
   * Marks a refused command with the reason, if the command is unusable. The reason is empty if the engine refuses the
   * command because of another change, for example because a name is taken. A rebase copies the mark, and no message
   * contains the mark.
   */
  const REFUSED = Symbol.for("stratalog.refused");
  const { CorePlugin, Model, coreTypes, registries } = globalThis.o_spreadsheet;
  const { checkDispatchAllowedRemoteCommand, dispatchToHandlers, onRemoteRevisionReceived } = Model.prototype;

  /**
   * Refuse a command if its check throws. A check may throw, because each plugin checks a command even if the command's
   * sheet does not exist. @this {any}
   */
  Model.prototype.checkDispatchAllowedRemoteCommand = function (command) {
    delete command[REFUSED];
    try {
      const result = checkDispatchAllowedRemoteCommand.call(this, command);
      const isUnusable = (reason) => reason === "InvalidSheetId" || reason.startsWith("Unusable: ");
      if (!result.isSuccessful) command[REFUSED] = result.reasons.find(isUnusable) ?? "";
      return result;
    } catch (error) {
      command[REFUSED] = `${error}`;
      return this.processCommandResults([command[REFUSED]]);
    }
  };

  /**
   * Execute a command. If a core plugin throws while the model replays a command, revert the changes of the command
   * and send its UNDO to the views. If a view throws, throw its error: unlike core plugins, the views of different
   * models may differ, because a view may lack earlier messages. @this {any}
   */
  Model.prototype.dispatchToHandlers = function (handlers, command) {
    if (command.type === "UNDO" || command.type === "REDO")
      command = { ...command, commands: command.commands.filter((undone) => !hasReservedId(undone)) };
    if (!this.isReplayingCommand || !coreTypes.has(command.type))
      return dispatchToHandlers.call(this, handlers, command);
    if (this.isExecuting) return execute(this, handlers, command);
    const { changes } = this.state;
    const [{ status }, count] = [this, changes.length];
    Object.assign(this, { isExecuting: true, hasFailedView: false });
    try {
      execute(this, handlers, command);
    } catch (error) {
      if (this.hasFailedView) throw error;
      for (const { target, key, before } of changes.splice(count).reverse()) {
        if (before === undefined) delete target[key];
        else target[key] = before;
      }
      this.range.isAdaptingRanges = false;
      this.status = status;
      command[REFUSED] = `${error}`;
      dispatchToHandlers.call(this, handlers, { type: "UNDO", commands: [command] });
    } finally {
      this.isExecuting = false;
    }
  };

  /** Give the stateful plugins only the commands that the model has executed. @this {any} */
  Model.prototype.onRemoteRevisionReceived = function ({ commands }) {
    onRemoteRevisionReceived.call(this, { commands: commands.filter((command) => !(REFUSED in command)) });
  };

  /** Refuses commands that the engine executes, although they make the core state inconsistent. */
  class Consistency extends CorePlugin {
    allowDispatch(command) {
      const { type, chartId, elements, figureId, sheetId } = command;
      if (hasReservedId(command)) return "Unusable: an id is the name of a property of each object";
      // The engine gives one cell different ids in different models.
      if (type === "UPDATE_CELL_POSITION") return "Unusable: the command names a cell by its id";
      // If a line is listed twice, the engine removes a further line, and only some plugins move that line's contents.
      if (type === "REMOVE_COLUMNS_ROWS" && new Set(elements).size < elements.length)
        return "Unusable: a line is removed twice";
      if (type !== "UPDATE_CHART" || this.figureOf(chartId) === figureId) return "Success";
      const isCarousel = this.getters.getFigure(sheetId, figureId)?.tag === "carousel";
      return isCarousel ? "Success" : "InvalidFigureId";
    }

    beforeHandle({ type, chartId }) {
      if (type === "UPDATE_CHART") this.figureId = this.figureOf(chartId);
    }

    /** After a chart has moved to a carousel, delete its empty figure. The engine cannot load an empty figure. */
    handle({ type, sheetId, figureId }) {
      const isLeft = type === "UPDATE_CHART" && this.figureId !== figureId;
      if (isLeft && this.getters.getFigure(sheetId, this.figureId)?.tag === "chart")
        this.dispatch("DELETE_FIGURE", { sheetId, figureId: this.figureId });
    }

    figureOf(chartId) {
      return this.getters.isChartDefined(chartId) ? this.getters.getFigureIdFromChartId(chartId) : undefined;
    }
  }

  registries.corePluginRegistry.add("stratalog_consistency", Consistency);

  /** Whether an id of a command is a name such as `constructor`. The engine looks up ids in plain objects. */
  function hasReservedId(command) {
    const isId = (name) => /^id$|Id(To)?$/.test(name);
    return Object.entries(command).some(([name, id]) => isId(name) && typeof id === "string" && id in {});
  }

  /** Call the handlers in the engine's order. */
  function execute(model, handlers, command) {
    let current;
    try {
      for (current of handlers) current.beforeHandle(command);
      for (current of handlers) current.handle(command);
      model.trigger("command-dispatched", command);
    } catch (error) {
      model.hasFailedView ||= current !== model.range && !(current instanceof CorePlugin);
      throw error;
    }
  }
}
