// A random session from a seed, run inside a page. Clients change one document, and some close and open again.
// Meanwhile `faulty` loses requests and answers, sends requests twice, and refuses requests. In the end all clients
// agree, and the server has applied each mutation once.

export async function session(seed) {
  const { connect } = await import("/web/client/stratalog.js");
  const document = `/v1/organisations/faults/documents/seed-${seed}-${crypto.randomUUID()}`;
  const chance = randomOf(Math.imul(seed, 2654435761));
  const pick = (items) => items[Math.floor(chance() * items.length)];
  const honest = window.fetch;
  let isHealed = false;

  // A linear congruential generator. One seed gives the same numbers in every browser.
  function randomOf(state) {
    return () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state / 2 ** 32;
    };
  }

  /** @param {Parameters<typeof fetch>} request */
  async function faulty(...request) {
    const kind = isHealed ? 1 : chance();
    if (kind < 0.12) throw new TypeError("the request was lost");
    if (kind < 0.17) return new Response("{}", { status: 503 });
    const answer = await honest(...request);
    if (kind < 0.29) throw new TypeError("the answer was lost");
    return kind < 0.37 ? honest(...request) : answer;
  }

  const open = (name) => connect(document, { name: `${seed} ${name}`, create: true, start: false });
  const acts = {
    inc: (client) => client.mutate("inc", { key: "count", by: 1 }),
    append: (client, name, turn) => client.mutate("append", { key: `turns/${name}`, item: turn }),
    put: (client, name, turn) => client.mutate("put", { key: "shared", value: { [name]: turn } }),
    patch: (client, name, turn) => client.mutate("patch", { key: "shared", merge: { [name]: turn, last: name } }),
    // The server rejects the append if another client has made `shared` an object meanwhile.
    quarrel: (client, name) =>
      client.get("shared") === null
        ? client.mutate("append", { key: "shared", item: name })
        : client.mutate("del", { key: "shared" }),
  };

  window.fetch = faulty;
  const names = ["a", "b", "c"].slice(0, 2 + Math.floor(chance() * 2));
  const clients = new Map();
  const appended = new Map(names.map((name) => [name, []]));
  const under = [];
  let counted = 0;
  for (const name of names) clients.set(name, await open(name));
  for (let turn = 0; turn < 60; turn++) {
    const name = pick(names);
    const kind = chance();
    if (kind < 0.08) {
      clients.get(name).close();
      clients.set(name, await open(name));
    } else if (kind < 0.4) {
      under.push(
        clients
          .get(name)
          .sync()
          .catch(() => {}),
      );
      if (chance() < 0.5) await under.at(-1);
    } else {
      const act = pick(Object.keys(acts));
      await acts[act](clients.get(name), name, turn);
      if (act === "append") appended.get(name).push(turn);
      if (act === "inc") counted += 1;
    }
  }
  await Promise.all(under);
  isHealed = true;
  for (let cycle = 0; cycle < 2; cycle++) for (const client of clients.values()) await client.sync();
  window.fetch = honest;

  const state = (await (await fetch(`${document}/state`)).json()).content;
  const text = (pairs) => JSON.stringify(pairs.map(([key, value]) => [key, sorted(value)]));
  const sorted = (value) =>
    value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value).sort() : value;
  const truth = text(Object.entries(state).sort());
  const faults = [];
  for (const [name, client] of clients) {
    if (client.pending().length) faults.push(`${name} still has ${client.pending().length} pending mutations`);
    if (text(client.scan()) !== truth) faults.push(`${name} shows ${text(client.scan())}, the server has ${truth}`);
    const turns = client.get(`turns/${name}`, []);
    const expected = String(appended.get(name));
    if (String(turns) !== expected) faults.push(`${name} appended ${expected}, the document has ${turns}`);
  }
  if ((state.count ?? 0) !== counted) faults.push(`counted ${counted} times, the document has ${state.count}`);
  const rejected = [...clients.values()].flatMap((client) => client.failures).length;
  for (const client of clients.values()) client.close();
  return { faults, rejected };
}
