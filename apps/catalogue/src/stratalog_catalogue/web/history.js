// The history of a work's record: its versions, and the difference between any two of them.

import { canLink, fetchJson, make, moment, size } from "./parts.js";

const FIELD = /^.([\w-]+):/;

/** Add the versions to `element`, newest first, and the changes of the newest version. */
export function showHistory(element, base, asked, versions) {
  const shown = make("div", { class: "difference", "aria-live": "polite" });
  const earlier = make("select", { "aria-label": "The version to compare with" });
  const raw = make("a", { class: "out", download: asked.id.replaceAll("/", "-") }, "The record as it came");
  const buttons = versions.map((version) => make("button", { type: "button" }, ...words(version)));
  let later = versions[0];

  async function compare() {
    raw.href = `${base}/record?${new URLSearchParams({ ...asked, version: later.version })}`;
    raw.hidden = later.deleted || !canLink();
    const query = { ...asked, before: earlier.value, after: later.version };
    const comparison = await difference(base, query);
    if (query.before === earlier.value && query.after === later.version) shown.replaceChildren(comparison);
  }

  function choose(index) {
    later = versions[index];
    for (const [at, button] of buttons.entries()) button.setAttribute("aria-pressed", String(at === index));
    const others = versions.filter(({ version }) => version !== later.version);
    const options = others.map(({ version }) => make("option", { value: version }, `version ${version}`));
    earlier.replaceChildren(...options, make("option", { value: 0 }, "an empty record"));
    earlier.value = String(versions[index + 1]?.version ?? 0);
    compare();
  }

  for (const [index, button] of buttons.entries()) button.addEventListener("click", () => choose(index));
  earlier.addEventListener("change", compare);
  const title = versions.length === 1 ? "One version" : `${versions.length.toLocaleString("en")} versions`;
  element.append(
    make("h3", {}, title),
    make("ol", { class: "versions" }, ...buttons.map((button) => make("li", {}, button))),
    make("p", { class: "compared" }, make("label", {}, "Compared with ", earlier), raw),
    shown,
  );
  choose(0);
}

function words({ version, stored_ms, source_time_ms, deleted, size: bytes }) {
  const state = deleted ? make("span", { class: "gone" }, "deleted") : make("span", { class: "minor" }, size(bytes));
  return [make("i", {}, `${version}`), make("span", {}, moment(source_time_ms ?? stored_ms)), state];
}

async function difference(base, query) {
  try {
    const { changes = [], lines = [] } = await fetchJson(`${base}/diff`, query);
    const all = [...changes.flatMap(change), ...lines.slice(lines[0]?.startsWith("---") ? 2 : 0)];
    const pairs = paired(all);
    const rows = all.map((text, index) => row(text, all[pairs.get(index)]));
    return make("pre", {}, ...(rows.length ? rows : ["The content of both versions is the same."]));
  } catch (error) {
    return make("p", { class: "minor" }, error.message);
  }
}

function change({ path, before, after }) {
  const side = (sign, value) => (value === undefined ? [] : [`${sign}${JSON.stringify(value)}`]);
  return [`@@ ${path || "the whole record"}`, ...side("-", before), ...side("+", after)];
}

/** Pair each added line with the removed line of the same field. The map links the indexes of each pair. */
function paired(all) {
  const pairs = new Map();
  let went = new Map();
  for (const [index, text] of all.entries()) {
    const name = text.match(FIELD)?.[1];
    if (text[0] === "@") went = new Map();
    else if (name && text[0] === "-") went.set(name, index);
    else if (name && text[0] === "+" && went.has(name)) {
      pairs.set(index, went.get(name)).set(went.get(name), index);
      went.delete(name);
    }
  }
  return pairs;
}

/** Make a line of the difference. Words that the paired line `other` does not have are highlighted. */
function row(text, other) {
  const kind = { "+": "came", "-": "went", "@": "where" }[text[0]];
  if (other === undefined) return make("span", kind ? { class: kind } : {}, text);
  const known = new Set(other.slice(1).split(/[\s,]+/));
  const parts = text.slice(1).split(/([\s,]+)/);
  const shown = parts.map((part) => (/^[\s,]*$/.test(part) || known.has(part) ? part : make("mark", {}, part)));
  return make("span", { class: kind }, text[0], ...shown);
}
