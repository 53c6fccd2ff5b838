// Names: the address of a sheet's page, and the name of a new sheet in the store, where names are unique.

export const addressOf = (organisation, sheet) =>
  `/web/sheet/edit.html?${new URLSearchParams({ in: organisation, sheet })}`;

export const freshName = (title) => `${slug(title)}-${crypto.randomUUID().slice(0, 6)}`;

/** The letters and digits of a title, in any script, joined by hyphens: at most 40 characters, or "sheet" if none. */
const slug = (title) =>
  title
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu)
    ?.join("-")
    .slice(0, 40) || "sheet";
