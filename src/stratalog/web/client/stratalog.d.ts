/** What JSON can say, and bytes. What a client gives out is frozen. */
export type Value =
  null | boolean | number | string | Uint8Array | readonly Value[] | { readonly [name: string]: Value };

/** What a mutator reads and writes. */
export interface Draft {
  get(key: string, fallback?: Value): Value;
  has(key: string): boolean;
  put(key: string, value: Value): void;
  /** Whether there was one. */
  delete(key: string): boolean;
  /** Keys that start with `prefix` and their values, in order of code points. */
  scan(prefix?: string): [key: string, value: Value][];
  keys(prefix?: string): string[];
}

/** Depends on nothing but its arguments: no clock, no chance, no network. */
export type Mutator = (draft: Draft, args: any) => void;
export type Mutators = Readonly<Record<string, Mutator>>;

/** put, del, patch, inc, append: the same as the server's. */
export const BUILT_IN_MUTATORS: Mutators;

export class StratalogError extends Error {
  /** The kind, as on the wire: "invalid", "limit-exceeded", "forbidden", "outcome-unknown" … */
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Thrown by a mutator: the mutation has no effect, for `reason`. */
export class Rejected extends StratalogError {
  constructor(reason: string);
  readonly reason: string;
}

/**
 * pending: kept, and not yet confirmed. queued: the server will apply it later. applied: part of the document.
 * rejected: recorded without effect. unknown: it may have been applied, and nobody can say. lost: it was applied, and the
 * server has gone back to a history without it, as after a restore.
 */
export type Status = "pending" | "queued" | "applied" | "rejected" | "unknown" | "lost";

/** The handle of one mutation. */
export interface Pending {
  readonly sequence: number;
  readonly name: string;
  readonly args: Value;
  readonly status: Status;
  /** Why it was rejected or lost, or is unknown. */
  readonly reason: string | null;
  /** Why it has no effect on what was last shown; null if it has one. */
  readonly predictedRejection: string | null;
  /** The keys it changed when it was last run. */
  readonly keys: string[];
  /** The status once it is settled: applied, rejected or unknown. What was applied may be lost later. */
  readonly settled: Promise<Status>;
}

/** A mutation that came to nothing, with what is needed to try something else. */
export interface Failure {
  readonly sequence: number;
  readonly name: string;
  readonly args: Value;
  readonly status: "rejected" | "unknown" | "lost";
  readonly reason: string;
}

export interface Options {
  /** A bearer token, or a function that gives one whenever it is asked. */
  token?: string | (() => string | Promise<string>);
  /** The server's; the built-in ones where none are given. */
  mutators?: Mutators;
  /** Make the document where it is missing. */
  create?: boolean;
  /** Tells apart what is kept for several people of one browser. */
  name?: string;
  /** Whether to keep in step from the beginning. */
  start?: boolean;
}

/** A client of the document at `url`. The server need not be reachable. */
export function connect(url: string | URL, options?: Options): Promise<Client>;

export interface Client {
  /** The present client id, as the history names it. It changes where the server refuses it. */
  readonly id: string;
  /** The version that the canonical state stands at; 0 before the first pull. */
  readonly version: number;
  /** Whether it keeps itself in step. */
  readonly running: boolean;
  /** Why the last sync cycle failed; null where it did not. */
  readonly lastError: Error | null;
  /** The newest thousand mutations that came to nothing, oldest first. */
  readonly failures: Failure[];
  /** What other connections show of themselves. */
  readonly others: Readonly<Record<string, Value>>;
  /** Whom they speak for, as the server knows it: what they show of themselves may be untrue. */
  readonly principals: Readonly<Record<string, { readonly id: string; readonly name: string }>>;

  get(key: string, fallback?: Value): Value;
  has(key: string): boolean;
  scan(prefix?: string): [key: string, value: Value][];
  keys(prefix?: string): string[];

  /** Shows at once; the promise is kept when it is durable in the browser. Rejects with what the mutator throws. */
  mutate(name: string, args?: Value): Promise<Pending>;
  /** Take back what a mutation did, and nothing since, as new mutations. Rejects with Rejected. */
  undo(mutation: Pending): Promise<Pending[]>;
  /** The mutations that the server has not confirmed, in order; those from before a reload as well. */
  pending(): Pending[];

  /** Forget a failure, once somebody has seen it. */
  dismiss(failure: Failure): Promise<void>;

  /** Called with the keys that changed, whoever changed them. Returns what ends it. */
  subscribe(callback: (keys: string[]) => void, prefix?: string): () => void;
  /** Called whenever what is pending, failed or known of the server may have changed. Returns what ends it. */
  watch(callback: () => void): () => void;

  /** Let others see this of the client, such as its cursor: up to a KiB; null for nothing. */
  show(state: Value): void;

  /** Run one sync cycle now: push, then pull. Rejects with what went wrong. */
  sync(): Promise<void>;
  start(): void;
  /** Be offline until `start`; what is changed meanwhile waits. */
  stop(): void;
  /** Try again without further waiting, also with a token that was refused. */
  hurry(): void;
  /** Stop, and leave what is kept to the next tab. */
  close(): void;
}
