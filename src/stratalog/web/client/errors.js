// Errors: one class, with a `code` for each kind. The server's responses use the same codes. A mutator throws Rejected.

export class StratalogError extends Error {
  constructor(code, message, details = {}) {
    super(message);
    this.name = "StratalogError";
    this.code = code;
    this.details = details;
  }
}

/** Thrown by a mutator. `reason` says why the mutation has no effect. */
export class Rejected extends StratalogError {
  constructor(reason) {
    super("rejected", reason);
    this.name = "Rejected";
    this.reason = reason;
  }
}

export const invalid = (message, details) => new StratalogError("invalid", message, details);
export const exceeded = (message, details) => new StratalogError("limit-exceeded", message, details);
