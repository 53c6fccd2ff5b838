// Global names that neither browsers nor Node define.

/** The engine of the spreadsheet and its library of components: classic scripts without types. */
declare var o_spreadsheet: any;
declare var owl: any;

/** Names that only TypeScript's library for workers declares; it cannot be used together with the one for pages. */
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

/** Packages that are installed in another folder, only for their browser tests. */
declare module "fake-indexeddb/auto";
declare module "replicache";
