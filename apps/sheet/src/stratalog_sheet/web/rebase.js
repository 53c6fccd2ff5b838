// Rebase: makes the engine rebase its history in order. To rebase B by A is to give B the positions that its cells have
// after A. A new command rebases an operation. The operation then rebases the command, and this new form of the command
// rebases the next operation. Without this file, the engine rebases all operations by the original form of the command.
// A text that was typed after the insertion of a row may then get into a wrong cell:
// docs/concepts/sheet-engine-reports.md. This file also corrects other faults of the engine that would make the models
// of one log differ, such as views that do not follow an undo of a loaded message. The server's engines load this file
// as a script, so it has no exports.
{
  /** Marks an ordered undo. All clients of a log execute an undo without this mark in the engine's own way. */
  const IN_ORDER = "ordered";
  /** The revision of a workbook that the engine has read from a file. */
  const OF_ANOTHER_PROGRAM = "START_REVISION";
  const { Model, helpers, registries } = globalThis.o_spreadsheet;
  const { session } = new Model();
  const Session = Object.getPrototypeOf(session);
  const Tree = Object.getPrototypeOf(session.revisions.tree);
  const Branch = Object.getPrototypeOf(session.revisions.HEAD_BRANCH);
  const { onMessageReceived, sendUpdateMessage } = Session;
  const { undo, rebaseUp, insertPrevious } = Tree;
  const { checkDispatchAllowedCoreCommand } = Model.prototype;

  /** @this {any} */
  Session.onMessageReceived = function (message) {
    this.revisions.tree.isNextInOrder = message.rebase === IN_ORDER;
    onMessageReceived.call(this, message);
  };

  /** @this {any} */
  Session.sendUpdateMessage = function (message) {
    sendUpdateMessage.call(this, message.type === "REVISION_UNDONE" ? { ...message, rebase: IN_ORDER } : message);
  };

  /** Insert another client's committed operation before the pending operations. @this {any} */
  Branch.insert = function (newOperation, predecessorId) {
    const { before, operation, after } = this.locateOperation(predecessorId);
    const walk = new Walk(this, newOperation.data.commands);
    this.operations = [...before, operation, newOperation, ...after.map((waiting) => walk.pass(waiting))];
  };

  /**
   * Undo an operation. If the undo is ordered and the operation adds or removes lines, move the operation's inverse
   * past the later operations, as `Walk` describes. Otherwise undo in the engine's own way.
   * @this {any}
   */
  Tree.undo = function (branch, operation) {
    this.inOrder ??= new Set();
    this.inOrder.delete(operation.id);
    if (!this.isNextInOrder || !operation.data.commands.some(isOfLines)) return undo.call(this, branch, operation);
    this.inOrder.add(operation.id);
    const inner = this.branchingOperationIds.get(branch);
    this.branchingOperationIds.set(branch, operation.id);
    const without = branch.fork(operation.id);
    if (inner) this.branchingOperationIds.set(without, inner);
    this.insertBranchAfter(branch, without);
    moveBranches(this, without, new Walk(branch, inverse(operation.data.commands)));
  };

  /**
   * After a redo, rebuild a lower branch from the branch above. The lower branch omits one operation, which is undone.
   * @this {any}
   */
  Tree.rebaseUp = function (branch) {
    const { previousBranch, branchingOperation } = this.findPreviousBranchingOperation(branch);
    if (!this.inOrder?.has(branchingOperation?.id)) return rebaseUp.call(this, branch);
    const without = previousBranch.fork(branchingOperation.id);
    this.branchingOperationIds.set(without, this.branchingOperationIds.get(branch));
    this.removeBranchFromTree(branch);
    this.insertBranchAfter(previousBranch, without);
    const walk = new Walk(branch, inverse(branchingOperation.data.commands));
    without.operations = without.operations.map((operation) => walk.pass(operation));
    const next = this.nextBranch(without);
    if (next) this.rebaseUp(next);
  };

  /** Insert a new operation also into the branches that keep an undone operation for a redo. @this {any} */
  Tree.insertPrevious = function (branch, newOperation, insertAfter) {
    const { previousBranch, branchingOperation } = this.findPreviousBranchingOperation(branch);
    if (!this.inOrder?.has(branchingOperation?.id)) return insertPrevious.call(this, branch, newOperation, insertAfter);
    const { before, operation } = branch.locateOperation(insertAfter);
    const walk = new Walk(branch, branchingOperation.data.commands);
    for (const known of [...before, operation]) walk.skip(known);
    const tail = branch.fork(insertAfter);
    tail.operations = tail.operations.map((later) => walk.pass(later));
    previousBranch.cutAfter(insertAfter);
    previousBranch.appendBranch(tail);
    this.insertPrevious(previousBranch, newOperation, insertAfter);
  };

  /**
   * Return the commands by which an undo or redo of an operation changes the present state. This function moves the
   * commands past the later committed operations. It does not move them past pending operations, for which
   * `isPending(id)` is true. An undo that removes a line also removes lines that were later added beside this line. The
   * result omits those added lines that are still pending.
   * @this {any}
   */
  Tree.effectOf = function (id, isUndo, isPending) {
    const { branch, operation } = this.findOperation(this.getLastBranch(), id);
    const { commands } = operation.data;
    const walk = new Walk(branch, isUndo ? inverse(commands) : commands);
    for (const { operation: later, isCancelled } of this.execution(this.branches[0]).startAfter(id)) {
      if (!isCancelled && !isPending(later.id)) walk.skip(later);
    }
    return walk.commands;
  };

  /** Rebase a branch and the branches below it. A lower branch begins after the operation that it omits. */
  function moveBranches(tree, branch, walk) {
    const branching = tree.branchingOperationIds.get(branch);
    const next = tree.nextBranch(branch);
    branch.operations = branch.operations.map((operation) => {
      if (next && operation.id === branching) moveBranches(tree, next, walk.copy());
      return walk.pass(operation);
    });
  }

  /** Moves commands past operations. The commands rebase an operation, and the operation then rebases the commands. */
  class Walk {
    constructor({ buildTransformation }, commands) {
      this.buildTransformation = buildTransformation;
      this.commands = commands;
    }

    copy = () => new Walk(this, this.commands);

    /** Return the operation rebased by the commands. */
    pass(operation) {
      const passed = [];
      for (const command of operation.data.commands) {
        passed.push(...this.transform(command, this.commands));
        this.commands = past(this.commands, command, this.transform);
      }
      const copied = this.buildTransformation.with({ commands: [] });
      return operation.transformed(({ id, clientId, rootCommand, timestamp }) =>
        copied({ id, clientId, rootCommand, timestamp, commands: passed }),
      );
    }

    skip({ data }) {
      for (const command of data.commands) this.commands = past(this.commands, command, this.transform);
    }

    transform = (command, executed) => {
      const alone = { id: "", clientId: "", commands: [command] };
      return this.buildTransformation.with({ commands: executed })(alone).commands;
    };
  }

  const inverse = (commands) =>
    [...commands].reverse().flatMap((command) => registries.inverseCommandRegistry.get(command.type)(command));

  /** Return executed commands rebased by a waiting command, which may move their lines. */
  function past(executed, waiting, transform) {
    const result = [];
    let left = [waiting];
    for (const command of executed) {
      const [own] = left;
      result.push(...(own ? moved(command, own, transform) : [command]));
      if (own && executed.length > 1) left = transform(own, [command]);
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

  /** Rebase `command`, an executed command that adds lines, by the waiting command `own`. */
  function movedAddition(command, own) {
    const at = startOf(command);
    if (own.type === "REMOVE_COLUMNS_ROWS") return addition(command, at - countBelow(own.elements, at));
    const start = startOf(own);
    // If both commands add lines to the same gap, the lines that `own` adds before a line stay beside that line.
    const isAfter = start < at || (start === at && own.position === "after");
    return addition(command, isAfter ? at + own.quantity : at);
  }

  /**
   * Rebase `command`, an executed command that removes lines, by the waiting command `own`. If `own` added lines beside
   * a removed line, the result also removes the added lines.
   */
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

  // The engine makes its views only after it has replayed the loaded messages, so an undo of a loaded message reverts
  // nothing in a view. If the undo brings back a sheet that the message had deleted, the sheet has no heights of rows,
  // and the engine fails: docs/concepts/sheet-engine-reports.md. So the two views below compute their contents again.
  const views = registries.coreViewsPluginRegistry;

  /** Return a `View` that starts again at each undo or redo, once the engine has reverted a loaded message. */
  const restarting = (View) =>
    class extends View {
      constructor(config) {
        super(config);
        const { processedRevisions, revisions } = config.session;
        const loaded = new Set(processedRevisions);
        const { revertOperation } = revisions;
        revisions.revertOperation = (revision) => {
          this.isStale ||= loaded.has(revision.id);
          revertOperation(revision);
        };
      }

      handle(command) {
        const isHistory = command.type === "UNDO" || command.type === "REDO";
        super.handle(isHistory && this.isStale ? { type: "START" } : command);
      }
    };

  class RowSizes extends restarting(views.get("row_size")) {
    /** Add the missing heights before a command, because the engine replays later messages before the undo ends. */
    beforeHandle(command) {
      const ids = command.type === "START" ? [] : this.getters.getSheetIds();
      for (const id of ids) if (!this.tallestCellInRow[id]) this.initializeSheet(id);
      super.beforeHandle(command);
    }
  }

  class FormulaTracker extends restarting(views.get("formula_tracker")) {
    /** Leave out the cells of deleted sheets, because the engine fails on their evaluation. */
    getCellsWithTrackedFormula(formula) {
      const { getCellPosition, tryGetSheet } = this.getters;
      return super.getCellsWithTrackedFormula(formula).filter((id) => tryGetSheet(getCellPosition(id).sheetId));
    }
  }

  const HIDING =
    /^(UN)?(HIDE_COLUMNS_ROWS|GROUP_HEADERS|FOLD_(ALL_)?HEADER_GROUPS?(_IN_ZONE)?)$|^UPDATE_(TABLE|FILTER)$/;

  /**
   * Evaluates each SUBTOTAL after a command that may hide or show lines. The engine does this only for the user's own
   * commands.
   */
  class Subtotals extends globalThis.o_spreadsheet.UIPlugin {
    handle({ type }) {
      if (!HIDING.test(type)) return;
      this.dispatch("EVALUATE_CELLS", { cellIds: this.getters.getCellsWithTrackedFormula("SUBTOTAL") });
    }
  }

  /**
   * Leaves the styles of a loaded state as they are. The engine gives each cell that a merge hides the style of the
   * merge's first cell, also when it loads a state. Once the first column of the merge is removed, only users who have
   * loaded the state see this style: docs/concepts/sheet-engine-reports.md.
   */
  class Merges extends registries.corePluginRegistry.get("merge") {
    importMerges(sheetId, merges) {
      const { dispatch } = this;
      this.dispatch = (type, { style, ...payload }) => dispatch(type, payload);
      try {
        super.importMerges(sheetId, merges);
      } finally {
        this.dispatch = dispatch;
      }
    }
  }

  /**
   * Leaves the borders of a loaded state as they are. The engine extends the borders of a merge to all its cells, and
   * leaves only one of two borders between two cells, also when it loads a state. It needs to do this only for a
   * workbook of another program: docs/concepts/sheet-engine-reports.md.
   */
  class Borders extends registries.corePluginRegistry.get("borders") {
    import(data) {
      if (data.revisionId === OF_ANOTHER_PROGRAM) return super.import(data);
      this.setBorder = (sheetId, col, row, border) =>
        this.history.update("borders", sheetId, col, row, helpers.deepCopy(border));
      try {
        super.import({ ...data, sheets: data.sheets.map((sheet) => ({ ...sheet, merges: [] })) });
      } finally {
        delete this.setBorder;
      }
    }
  }

  /**
   * Return a plugin that copies its rules before it changes their ranges and formulas. The engine changes a rule in
   * place, but a rule shares its formulas with the command that added it, and with its copies in duplicated sheets:
   * docs/concepts/sheet-engine-reports.md.
   */
  const copying = (Plugin, rules) =>
    class extends Plugin {
      adaptRanges(adapters) {
        for (const sheetId in this[rules]) this.history.update(rules, sheetId, helpers.deepCopy(this[rules][sheetId]));
        super.adaptRanges(adapters);
      }
    };

  const THRESHOLDS = ["minimum", "midpoint", "maximum", "lowerInflectionPoint", "upperInflectionPoint"];

  /**
   * Begin each formula of a threshold with "=" in a new command, before the command becomes a message. The engine moves
   * no other formula with its cells. Commands of stored messages stay as they are, because they would otherwise change
   * past versions: docs/decisions/0062-a-stored-message-keeps-its-meaning.md. @this {any}
   */
  Model.prototype.checkDispatchAllowedCoreCommand = function (command) {
    const rule = command.type === "ADD_CONDITIONAL_FORMAT" ? command.cf.rule : {};
    for (const point of THRESHOLDS.map((name) => rule[name] ?? {})) {
      if (point.type === "formula" && point.value && !point.value.startsWith("=")) point.value = `=${point.value}`;
    }
    return checkDispatchAllowedCoreCommand.call(this, command);
  };

  for (const [name, rules] of [["conditional formatting", "cfRules"], ["dataValidation", "rules"]])
    registries.corePluginRegistry.replace(name, copying(registries.corePluginRegistry.get(name), rules));
  registries.corePluginRegistry.replace("borders", Borders);
  registries.corePluginRegistry.replace("merge", Merges);
  registries.featurePluginRegistry.remove("subtotal_evaluation");
  registries.statefulUIPluginRegistry.add("stratalog_subtotals", Subtotals);
  views.replace("row_size", RowSizes);
  views.replace("formula_tracker", FormulaTracker);
}
