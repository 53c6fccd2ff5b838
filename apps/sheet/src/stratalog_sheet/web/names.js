// The addresses of a sheet's page and of the page of all sheets, and the name of a new sheet in the store. The random
// end of the name makes it very unlikely that another sheet of the organisation has the name.

export const addressOf = (organisation, sheet) =>
  `/web/sheet/edit.html?${new URLSearchParams({ in: organisation, sheet })}`;

export const homeOf = (organisation) => `/web/sheet/?${new URLSearchParams({ in: organisation })}`;

/** Return the start of a text, of at most `length` UTF-16 units. A character of two units is not cut in half. */
export const cut = (text, length) => text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");

export const freshName = (title) => `${slug(title)}-${crypto.randomUUID().slice(0, 6)}`;

/**
 * Return the words of a title in lower case, joined by hyphens and cut to 40 UTF-16 units. A word is a run of letters
 * and digits of any script. A title without words gives "sheet".
 */
const slug = (title) => cut((title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ["sheet"]).join("-"), 40);
