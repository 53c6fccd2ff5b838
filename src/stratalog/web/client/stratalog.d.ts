/**
 * A JSON value, or bytes. The lists and objects that a client returns are frozen. Bytes cannot be frozen: copy returned
 * bytes before you change them.
 */
export type Value =
  null | boolean | number | string | Uint8Array | readonly Value[] | { readonly [name: string]: Value };

/** A mutator reads and writes the document through its draft. */
export interface Draft {
  get(key: string, fallback?: Value): Value;
  has(key: string): boolean;
  put(key: string, value: Value): void;
  /** Remove `key`. Returns whether the key existed. */
  delete(key: string): boolean;
  /** Keys that start with `prefix` and their values, in order of code points. */
  scan(prefix?: string): [key: string, value: Value][];
  keys(prefix?: string): string[];
}

/** A mutator depends only on its draft and its arguments: it uses no clock, no random numbers and no network. */
export type Mutator = (draft: Draft, args: any) => void;
export type Mutators = Readonly<Record<string, Mutator>>;

/** The mutators put, del, patch, inc and append. The server has the same mutators. */
export const BUILT_IN_MUTATORS: Mutators;

export class StratalogError extends Error {
  /** The kind of error: a code of the server, such as "invalid", or of the client alone, such as "unreached". */
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** A mutator throws this error. `reason` says why the mutation has no effect. `undo` rejects with it too. */
export class Rejected extends StratalogError {
  constructor(reason: string);
  readonly reason: string;
}

/**
 * pending: the mutation is stored in the browser, and not yet confirmed. queued: the server will apply the mutation
 * later. applied: the mutation is part of the document. rejected: the mutation has no effect and is not sent again.
 * unknown: the client cannot find out whether the mutation was applied. lost: the mutation was applied, and then the
 * server went back to a history without the mutation, as after a restore.
 */
export type Status = "pending" | "queued" | "applied" | "rejected" | "unknown" | "lost";

/** The handle of one mutation. */
export interface Pending {
  readonly sequence: number;
  readonly name: string;
  readonly args: Value;
  readonly status: Status;
  /** The reason of the status rejected, lost or unknown, or null for another status. */
  readonly reason: string | null;
  /** The reason why the mutation's last run in this page had no effect, or null if it had an effect. */
  readonly predictedRejection: string | null;
  /** The keys that the mutation changed when it was last run. */
  readonly keys: string[];
  /**
   * Whether an undo of this page reverts the mutation. An undo that is rejected, lost or itself undone does not.
   */
  readonly isUndone: boolean;
  /**
   * Resolves to the status when the mutation is settled: applied, rejected or unknown. An applied mutation may be lost
   * later.
   */
  readonly settled: Promise<Status>;
}

/** A mutation that was rejected, lost or of unknown outcome, with its arguments for another attempt. */
export interface Failure {
  readonly sequence: number;
  readonly name: string;
  readonly args: Value;
  readonly status: "rejected" | "unknown" | "lost";
  readonly reason: string;
}

export interface Options {
  /** A bearer token, or a function that returns the current token on each call. */
  token?: string | (() => string | Promise<string>);
  /** The mutators, which must be the server's mutators. The default is `BUILT_IN_MUTATORS`. */
  mutators?: Mutators;
  /** Create the document if it is missing. */
  create?: boolean;
  /** Separates the stored data of several people who use one browser. */
  name?: string;
  /** Whether to synchronise in the background from the beginning. The default is true. */
  start?: boolean;
}

/** Return a client of the document at `url`. The server need not be reachable. */
export function connect(url: string | URL, options?: Options): Promise<Client>;

export interface Client {
  /**
   * The client's id in the document's history. The client takes a new id if it cannot continue under this id, for
   * example because the server has deleted the client.
   */
  readonly id: string;
  /** The version of the canonical state, or 0 before the first pull. */
  readonly version: number;
  /** Whether the client synchronises in the background. */
  readonly running: boolean;
  /** The error of the last sync cycle in the background, or null if the cycle succeeded. */
  readonly lastError: Error | null;
  /** The newest thousand mutations that were rejected, lost or of unknown outcome, oldest first. */
  readonly failures: Failure[];
  /**
   * The presence states of the other connections, by connection id. Each client writes its own state, so a state may be
   * untrue.
   */
  readonly others: Readonly<Record<string, Value>>;
  /** The principals of the other connections as the server reports them, by connection id. */
  readonly principals: Readonly<Record<string, { readonly id: string; readonly name: string }>>;

  get(key: string, fallback?: Value): Value;
  has(key: string): boolean;
  scan(prefix?: string): [key: string, value: Value][];
  keys(prefix?: string): string[];

  /**
   * Run a mutation. Readers see the effect at once. The promise resolves when the mutation is durable in the browser.
   * If the mutator throws, the promise rejects with the mutator's error, and nothing is changed or stored. If the
   * browser cannot store the mutation, readers no longer see its effect, and the promise rejects.
   */
  mutate(name: string, args?: Value): Promise<Pending>;
  /** Undo a mutation by new mutations, which keep all later changes. Rejects with Rejected if this is impossible. */
  undo(mutation: Pending): Promise<Pending[]>;
  /** The unconfirmed mutations, in order. Mutations from before a reload are included. */
  pending(): Pending[];

  /** Remove a failure from `failures`, for example after the user has seen it. */
  dismiss(failure: Failure): Promise<void>;

  /**
   * Call `callback` with the changed keys that start with `prefix`, after changes of any client. Returns a function
   * that ends the subscription.
   */
  subscribe(callback: (keys: string[]) => void, prefix?: string): () => void;
  /**
   * Call `callback` whenever the pending mutations, the failures or the properties of the client may have changed.
   * Returns a function that ends these calls.
   */
  watch(callback: () => void): () => void;

  /**
   * Set this client's presence state, for example its cursor. `null` removes the state. Throws `limit-exceeded` for a
   * state over 1 KiB, and `invalid` for a whole number beyond 64 bits. A state that the server refuses is reported as
   * an uncaught error, and is not shown.
   */
  show(state: Value): void;

  /** Run one sync cycle now: push, then pull. Rejects with the cycle's error. */
  sync(): Promise<void>;
  start(): void;
  /** Stop synchronising until `start`. New mutations stay pending. */
  stop(): void;
  /** Try again now, without the rest of the back-off, and even with a token that the server refused. */
  hurry(): void;
  /** Stop synchronising, and release the tab's lease. The next tab can take over the stored data. */
  close(): void;
}
