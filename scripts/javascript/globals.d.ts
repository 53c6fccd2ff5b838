// Global names that neither browsers nor Node define.

/** The engine of the spreadsheet and its library of components: classic scripts without types. */
declare var o_spreadsheet: any;
declare var owl: any;

/** Names of TypeScript's library for workers. TypeScript cannot load it together with the library for pages. */
interface ServiceWorkerGlobalScope {
  readonly clients: { claim(): Promise<void> };
  addEventListener(type: "activate" | "fetch" | "install", listener: (event: any) => void): void;
  skipWaiting(): Promise<void>;
}

/** Values that browser tests store in a page and read later. */
declare var held: FrameRequestCallback[] | null;
declare var painted: number[];
declare var saw: (version: number) => void;
declare var seen: number[];
declare var toasts: string[];

/** Packages that only the tests in tests/e2e install, in their own folders. */
declare module "fake-indexeddb/auto";
declare module "replicache";
