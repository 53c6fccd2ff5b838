// Look: light or dark, and the name that others see. Both are this browser's, and every page of it follows.

const SCHEME = "stratalog scheme";
const NAME = "stratalog name";
const dark = matchMedia("(prefers-color-scheme: dark)");
const ADJECTIVES = ["Amber", "Brisk", "Calm", "Clever", "Gentle", "Keen", "Merry", "Quiet", "Swift", "Warm"];
const ANIMALS = ["Badger", "Crane", "Finch", "Hare", "Heron", "Lynx", "Otter", "Raven", "Seal", "Wren"];

/** What is chosen: light, dark, or auto for what the system says. */
export const choice = () => localStorage.getItem(SCHEME) ?? "auto";

export function scheme() {
  return choice() === "auto" ? (dark.matches ? "dark" : "light") : choice();
}

/** Show the scheme now and whenever it changes; `onChange` is told as well. */
export function follow(onChange = () => {}) {
  const show = () => {
    document.documentElement.dataset.scheme = scheme();
    onChange(scheme());
  };
  dark.addEventListener("change", show);
  addEventListener("storage", ({ key }) => key === SCHEME && show());
  addEventListener("stratalog-scheme", show);
  show();
}

/** Change to the other scheme; to what the system says where that is the same. */
export function toggle() {
  const other = scheme() === "dark" ? "light" : "dark";
  if (other === (dark.matches ? "dark" : "light")) localStorage.removeItem(SCHEME);
  else localStorage.setItem(SCHEME, other);
  dispatchEvent(new Event("stratalog-scheme"));
}

/** The name that others see: what was typed once, or one that is made up. */
export function ownName() {
  const name = localStorage.getItem(NAME);
  if (name) return name;
  const pick = (words) => words[crypto.getRandomValues(new Uint32Array(1))[0] % words.length];
  return rename(`${pick(ADJECTIVES)} ${pick(ANIMALS)}`);
}

export function rename(name) {
  localStorage.setItem(NAME, name.trim().slice(0, 40));
  return ownName();
}
