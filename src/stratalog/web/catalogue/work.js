// One work: what the shared model says of it, its record's versions, and the difference between any two.

import { ask, make, moment, size } from "./parts.js";

const RELATIONS_SHOWN = 60;

/** Show a work in `place`. What is not there is said in words. */
export async function showWork(place, base, source, id) {
  const asked = { source, id };
  try {
    const versions = await ask(`${base}/versions`, asked);
    const work = versions[0].deleted ? null : await ask(`${base}/work`, asked).catch(() => null);
    place.replaceChildren(...(work ? described(work) : [make("h2", {}, id), make("p", { class: "quiet" }, versions[0].deleted ? "Its source deleted this record. What it was stays below." : "No work was made of this record yet.")]), ...past(base, asked, versions));
    place.scrollTop = 0;
  } catch (error) {
    place.replaceChildren(make("p", { class: "quiet" }, error.message));
  }
}

function described(work) {
  const people = (work.creators ?? []).map(({ name, role }) => make("span", {}, role ? `${name}, ${role}` : name));
  const facts = [
    ["Source", `${work.source} · ${work.id}`],
    ["People", people.length ? make("div", { class: "tags" }, ...people) : ""],
    ["Dates", (work.dates ?? []).map(({ value, kind }) => (kind ? `${value} (${kind})` : value)).join(", ")],
    ["Identifiers", (work.identifiers ?? []).map(({ scheme, value }) => `${scheme} ${value}`).join(" · ")],
    ["Subjects", tags(work.subjects ?? [])],
    ["Language", work.language ?? ""],
    ["Size", work.size === undefined ? "" : size(work.size)],
    ["Elsewhere", /^https?:/.test(work.url ?? "") ? make("a", { class: "out", href: work.url, rel: "noreferrer noopener" }, work.url) : ""],
    ...related(work.relations ?? []),
  ];
  const rows = facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  return [
    make("p", { class: "quiet" }, work.kind),
    make("h2", {}, work.title),
    work.description ? make("p", { class: "lead" }, work.description) : "",
    make("dl", {}, ...rows),
  ];
}

function related(relations) {
  const kinds = Map.groupBy ? Map.groupBy(relations, ({ kind }) => kind) : new Map([["related", relations]]);
  return [...kinds].map(([kind, found]) => {
    const more = found.length - RELATIONS_SHOWN;
    const names = found.slice(0, RELATIONS_SHOWN).map(({ target }) => target);
    return [kind, found.length ? tags(more > 0 ? [...names, `and ${more} more`] : names) : ""];
  });
}

function tags(names) {
  return names.length ? make("div", { class: "tags" }, ...names.map((name) => make("span", {}, name))) : "";
}

/** The versions; a click shows what that one changed, a click with Shift what changed since. */
function past(base, asked, versions) {
  const shown = make("div");
  const buttons = versions.map((version) => {
    const words = [make("i", {}, `${version.version}`), make("span", {}, moment(version.source_time_ms ?? version.stored_ms)), version.deleted ? make("span", { class: "gone" }, "deleted") : make("span", { class: "quiet" }, size(version.size))];
    const compare = async ({ shiftKey }) => {
      const [before, after] = shiftKey ? [version.version, versions[0].version] : [version.version - 1, version.version];
      for (const one of buttons) one.setAttribute("aria-pressed", one === button);
      shown.replaceChildren(await difference(base, { ...asked, before, after }));
    };
    const button = make("button", { type: "button", "aria-pressed": "false", onclick: compare }, ...words);
    return button;
  });
  if (buttons.length) queueMicrotask(() => buttons[0].click());
  const list = make("ol", { class: "versions" }, ...buttons.map((button) => make("li", {}, button)));
  const title = versions.length === 1 ? "One version" : `${versions.length.toLocaleString("en")} versions`;
  return [make("h3", {}, title), list, make("p", { class: "quiet" }, "A click shows what a version changed; with Shift, what changed since."), shown];
}

async function difference(base, query) {
  try {
    const { changes = [], lines = [] } = await ask(`${base}/diff`, query);
    const said = changes.flatMap(({ path, before, after }) => [`@@ ${path || "the whole"}`, ...(before === undefined ? [] : [`-${JSON.stringify(before)}`]), ...(after === undefined ? [] : [`+${JSON.stringify(after)}`])]);
    const all = [...said, ...lines.slice(lines[0]?.startsWith("---") ? 2 : 0)];
    return make("pre", { "aria-label": "What changed" }, ...(all.length ? all.map(row) : ["Nothing changed but the source's time."]));
  } catch (error) {
    return make("p", { class: "quiet" }, error.message);
  }
}

function row(text) {
  const kind = { "+": "came", "-": "went", "@": "where" }[text[0]];
  return make("span", kind ? { class: kind } : {}, text);
}
