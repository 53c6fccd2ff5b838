// Identity: the user's name that others see. All pages of this browser share the name.

import { cut } from "./names.js";

const NAME = "stratalog name";
const ADJECTIVES = ["Amber", "Brisk", "Calm", "Clever", "Gentle", "Keen", "Merry", "Quiet", "Swift", "Warm"];
const ANIMALS = ["Badger", "Crane", "Finch", "Hare", "Heron", "Lynx", "Otter", "Raven", "Seal", "Wren"];

/** Return the name that others see: the name that the user typed, or a generated name. */
export function ownName() {
  const name = localStorage.getItem(NAME);
  if (name) return name.toWellFormed(); // an earlier page could store half a character
  const pick = (words) => words[crypto.getRandomValues(new Uint32Array(1))[0] % words.length];
  return rename(`${pick(ADJECTIVES)} ${pick(ANIMALS)}`);
}

export function rename(name) {
  localStorage.setItem(NAME, cut(name.trim(), 40));
  return ownName();
}

/** Return the first letters of the first two words of a name. */
export const initials = (text) => (text.match(/(?<!\p{L})\p{L}/gu) ?? ["?"]).slice(0, 2).join("").toUpperCase();
