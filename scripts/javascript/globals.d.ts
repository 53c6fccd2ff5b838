// What scripts find in the global scope that neither browsers nor Node put there.

/** The engine of the spreadsheet, and the library of components that it is made with: classic scripts without types. */
declare var o_spreadsheet: any;
declare var owl: any;

/** What the library for pages leaves to the one for workers; the two exclude each other. */
interface ServiceWorkerGlobalScope {
  readonly clients: { claim(): Promise<void> };
  addEventListener(type: "activate" | "fetch" | "install", listener: (event: any) => void): void;
  skipWaiting(): Promise<void>;
}

/** What stories note in a page, to read it later. */
declare var held: FrameRequestCallback[] | null;
declare var painted: number[];
declare var saw: (version: number) => void;
declare var seen: number[];
declare var toasts: string[];

/** Installed for their stories alone, elsewhere than here. */
declare module "fake-indexeddb/auto";
declare module "replicache";
