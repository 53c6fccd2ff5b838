/**
 * Create an element with properties and children. “role”, and names that start with “data-” or “aria-”, become
 * attributes. The element does not get children that are null.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (/^(data|aria)-|^role$/.test(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Set the text only if it differs. Setting an equal text would remove a selection. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const titleOf = (movie) =>
  movie.Title === null || movie.Title === undefined ? "Untitled" : String(movie.Title);
export const yearOf = (movie) => /\d{4}/.exec(movie["Release Date"] ?? "")?.[0] ?? "";
export const ratingOf = (movie) => (typeof movie["IMDB Rating"] === "number" ? movie["IMDB Rating"].toFixed(1) : "");
