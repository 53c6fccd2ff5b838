// Work: shows one work in the shared model, and the history of its record.

import { showHistory } from "./history.js";
import { fetchJson, make, size } from "./parts.js";

const RELATIONS_SHOWN = 60;
const VERSIONS_SHOWN = 1000;
const DELETED = "The source deleted this record. Its earlier versions are below.";
const UNKNOWN = "Record not found.";
const UNMADE = "No work was made from this record yet.";

/**
 * Fetch a work and its record's versions, and show them in `element` if `isWanted()` still returns true. If there is no
 * work, or after an error, show a message instead of the work. A click on a related name calls `search(name)`.
 */
export async function showWork(element, base, asked, search, isWanted) {
  try {
    const versions = await fetchVersions(base, asked);
    const { work, reason } = await fetchWork(base, asked, versions[0].deleted);
    if (!isWanted()) return;
    document.title = `${work?.title ?? asked.id} · Catalogue`;
    element.replaceChildren(...(work ? described(work, search) : missing(asked.id, reason)));
    showHistory(element, base, asked, versions);
    element.scrollTop = 0;
  } catch (error) {
    if (isWanted()) element.replaceChildren(...missing(asked.id, error.status === 404 ? UNKNOWN : error.message));
  }
}

/** Fetch the versions of a record in pages, newest first: all versions, or at least the newest `VERSIONS_SHOWN`. */
async function fetchVersions(base, asked) {
  const versions = [];
  let before;
  do {
    const page = await fetchJson(`${base}/versions`, { ...asked, before, limit: VERSIONS_SHOWN });
    versions.push(...page.versions);
    before = page.next ?? undefined;
  } while (before !== undefined && versions.length < VERSIONS_SHOWN);
  return versions;
}

/**
 * Fetch the work of a record. Return the work, or the reason why the page cannot show it.
 * @returns {Promise<{ work?: any, reason?: string }>}
 */
async function fetchWork(base, asked, isDeleted) {
  if (isDeleted) return { reason: DELETED };
  try {
    return { work: await fetchJson(`${base}/work`, asked) };
  } catch (error) {
    return { reason: error.status === 404 ? UNMADE : error.message };
  }
}

function missing(id, reason) {
  return [make("h2", { dir: "auto" }, id), make("p", { class: "lead" }, reason)];
}

function described(work, search) {
  const facts = [
    ["Source", `${work.source} · ${work.id}`],
    ["People", tags((work.creators ?? []).map(({ name, role }) => (role ? `${name}, ${role}` : name)))],
    ["Dates", (work.dates ?? []).map(({ value, kind }) => (kind ? `${value} (${kind})` : value)).join(", ")],
    ["Identifiers", identifiers(work.identifiers ?? [])],
    ["Subjects", tags(work.subjects ?? [])],
    ["Language", work.language ?? ""],
    ["Size", work.size === undefined ? "" : size(work.size)],
    ["Elsewhere", elsewhere(work.url ?? "")],
    ...related(work.relations ?? [], search),
  ];
  const rows = facts.filter(([, value]) => value !== "");
  return [
    make("p", { class: "minor" }, work.kind),
    make("h2", { dir: "auto" }, work.title),
    work.description ? make("p", { class: "lead", dir: "auto" }, work.description) : "",
    make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
  ];
}

function elsewhere(url) {
  if (!/^https?:/.test(url)) return "";
  return make("a", { class: "out", href: url, rel: "noreferrer noopener" }, url);
}

function identifiers(known) {
  if (!known.length) return "";
  const line = ({ scheme, value }) => make("li", {}, make("small", {}, scheme), " ", value);
  return make("ul", {}, ...known.map(line));
}

function related(relations, search) {
  const kinds = new Map();
  for (const { kind, target } of relations) kinds.set(kind, [...(kinds.get(kind) ?? []), target]);
  return [...kinds].map(([kind, names]) => {
    const more = names.length - RELATIONS_SHOWN;
    const shown = names.slice(0, RELATIONS_SHOWN).map((name) => {
      const title = `Search for ${name}`;
      return make("button", { type: "button", title, onclick: () => search(name) }, name);
    });
    const rest = more > 0 ? [make("span", {}, `and ${more.toLocaleString("en")} more`)] : [];
    return [kind.replaceAll("-", " "), make("div", { class: "tags" }, ...shown, ...rest)];
  });
}

function tags(names) {
  return names.length ? make("div", { class: "tags" }, ...names.map((name) => make("span", {}, name))) : "";
}
