// Values: JSON values, and bytes (Uint8Array). Each value has one canonical form, so that a page and the server agree
// on equality. Whole numbers are integers, -0 is 0, and the JSON text has names in the order of their code points. A
// canonical value is frozen, except bytes, which cannot be frozen.

import { exceeded, invalid } from "./errors.js";

const DEPTH_MAX = 64;
const BYTES = "$bytes";

/** The canonical copy of a value. Throws `invalid` and `limit-exceeded`. */
export function canonical(value, what = "value", depth = DEPTH_MAX) {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") return checkText(value, what);
  if (typeof value === "number") return checkNumber(value, what);
  if (value instanceof Uint8Array) return value.slice();
  const isList = Array.isArray(value);
  if (!isList && !isObject(value)) throw invalid(`${what} has a type that JSON cannot say`, { value: typeof value });
  if (depth === 0) throw exceeded(`${what} is nested too deeply`, { limit: DEPTH_MAX });
  if (isList) return Object.freeze(Array.from(value, (item) => canonical(item, what, depth - 1)));
  const members = Object.entries(value).map(([name, item]) => [
    checkText(name, what),
    canonical(item, what, depth - 1),
  ]);
  return Object.freeze(Object.fromEntries(members));
}

/** Whether a value is a JSON object. */
export function isObject(value) {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** The JSON text of a canonical value. Equal values have equal texts. */
export function encode(value) {
  if (value instanceof Uint8Array) return `{"${BYTES}":"${toBase64(value)}"}`;
  if (Array.isArray(value)) return `[${value.map(encode).join()}]`;
  if (typeof value === "number") return encodeNumber(value);
  if (!isObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort(compare);
  const escape = isMarked(names) ? "$" : "";
  return `{${names.map((name) => `${JSON.stringify(escape + name)}:${encode(value[name])}`).join()}}`;
}

/** The size of a canonical value's JSON text in UTF-8. */
export const encodedBytes = (value) => new TextEncoder().encode(encode(value)).length;

/** The size of a JSON value as MessagePack. Throws `invalid` if its JSON text has an integer beyond 64 bits. */
export function packedBytes(value) {
  if (typeof value === "number") return Number.isInteger(value) ? integerBytes(value) : 9;
  if (typeof value === "string") {
    const { length } = new TextEncoder().encode(value);
    return formBytes(length, 32, 256) + length;
  }
  if (!Array.isArray(value) && !isObject(value)) return 1;
  const parts = Array.isArray(value) ? value : Object.entries(value).flat();
  return parts.reduce((sum, part) => sum + packedBytes(part), formBytes(Object.keys(value).length, 16, 16));
}

/** Return the frozen value of `plain`, which JSON.parse has made from a text of `encode`. Throws `invalid`. */
export function decode(plain) {
  if (Array.isArray(plain)) return Object.freeze(plain.map(decode));
  if (!isObject(plain)) return plain;
  const names = Object.keys(plain);
  if (isMarked(names) && !names[0].startsWith("$$")) return decodeBytes(names[0], plain[names[0]]);
  const cut = isMarked(names) ? 1 : 0;
  return Object.freeze(Object.fromEntries(names.map((name) => [name.slice(cut), decode(plain[name])])));
}

/** Compare texts by code point, as the server does. JavaScript's own order is by UTF-16 unit. */
export function compare(left, right) {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const [leftUnit, rightUnit] = [left.charCodeAt(index), right.charCodeAt(index)];
    if (leftUnit !== rightUnit) return rank(leftUnit) - rank(rightUnit);
  }
  return left.length - right.length;
}

export const same = (left, right) =>
  left === right || (left !== undefined && right !== undefined && encode(left) === encode(right));

const isMarked = (names) => names.length === 1 && names[0].startsWith("$");

// Surrogates encode the highest code points, so they come last.
const rank = (unit) => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);

function checkText(text, what) {
  if (!text.isWellFormed()) throw invalid(`${what} holds a lone surrogate`);
  return text;
}

function checkNumber(value, what) {
  if (!Number.isFinite(value)) throw invalid(`${what} holds a number that JSON cannot say`, { value });
  return value === 0 ? 0 : value;
}

// A whole number beyond the safe integers is a float. Its exponent form makes other readers decode it as a float.
function encodeNumber(value) {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
}

function integerBytes(value) {
  // JSON has 2^69 as digits, which other readers decode as an integer, but 1e21 with an exponent, as a float.
  const isFloat = Math.abs(value) >= 1e21;
  // JSON has -(2^63) as -9223372036854776000, which is beyond 64 bits.
  if (!isFloat && (value <= -(2 ** 63) || value >= 2 ** 64)) throw invalid("an integer is beyond 64 bits", { value });
  if (isFloat) return 9;
  return value < 0 ? formBytes(-1 - value, 32, 128, 2 ** 15, 2 ** 31) : formBytes(value, 128, 256);
}

// MessagePack has forms of 1, 2, 3, 5 and 9 bytes for a number or a length. Each form but the last has a limit.
const formBytes = (value, one, two, three = 2 ** 16, five = 2 ** 32) =>
  value < one ? 1 : value < two ? 2 : value < three ? 3 : value < five ? 5 : 9;

function decodeBytes(name, text) {
  if (name !== BYTES || typeof text !== "string") throw invalid("bytes must be {$bytes: text}", { name });
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
