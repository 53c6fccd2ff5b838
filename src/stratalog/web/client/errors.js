// Errors: StratalogError, with a `code` for each kind, and Rejected, which mutators throw. Most codes are also codes of
// the server's responses. Only the client uses "unreached": the server has certainly not executed the request.

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

const RETRY_AFTER_SECONDS_MAX = 300;
const CODES = { 404: "not-found", 408: "outcome-unknown", 413: "limit-exceeded" };

/** Return the error for an unsuccessful response. `body` is its decoded body; undefined if the body is not JSON.
 *
 * The code comes from the server's error body. A response without a code may come from a proxy, so it does not show
 * whether the request took effect. Without a code, 408, 500 and above give "outcome-unknown", 404 gives "not-found",
 * 413 gives "limit-exceeded", and any other status gives "invalid". With any body, 429 gives "unreached" and 401 gives
 * "forbidden". The error has `details.retryAfter`, in seconds. */
export function errorOf(response, body) {
  const { status } = response;
  const guess = status >= 500 ? "outcome-unknown" : (CODES[status] ?? "invalid");
  const code = status === 429 ? "unreached" : status === 401 ? "forbidden" : (body?.code ?? guess);
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "0", 10) || 0;
  const retryAfter = Math.min(Math.max(0, seconds), RETRY_AFTER_SECONDS_MAX);
  const details = { status, retryAfter, limit: body?.limit, value: body?.value };
  return new StratalogError(code, body?.message ?? `the server answered ${status}`, details);
}

export const invalid = (message, details) => new StratalogError("invalid", message, details);
export const exceeded = (message, details) => new StratalogError("limit-exceeded", message, details);
