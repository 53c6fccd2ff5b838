// Helpers of the tests with the unmodified Replicache client: a client with a storage in memory, and a network that a
// test can cut.
import 'fake-indexeddb/auto';
import {isDeepStrictEqual} from 'node:util';
import {Replicache} from 'replicache';

const WAIT_MS = 60_000;
const realFetch = globalThis.fetch;

// The state of the network, by client name: "up", "down", or "deaf". With "deaf" the server gets requests, but the
// client gets no answers.
const lines = new Map();
export const requests = [];

globalThis.fetch = async request => {
  const {pathname, searchParams} = new URL(request.url);
  const name = searchParams.get('as');
  if (lines.get(name) === 'down') {
    throw new TypeError('the network is down');
  }
  const body = await request.clone().json();
  const answer = await realFetch(request);
  requests.push({name, call: pathname.split('/').pop(), status: answer.status, body});
  if (lines.get(name) === 'deaf') {
    throw new TypeError('the answer was lost');
  }
  return answer;
};

export const cut = (name, line) => lines.set(name, line);

// Mutators with the same rules as the server's built-in mutators, and one mutator that the server does not have.
export const mutators = {
  put: (tx, {key, value}) => tx.set(key, value),
  del: (tx, {key}) => tx.del(key),
  inc: async (tx, {key, by = 1}) => {
    const present = (await tx.get(key)) ?? 0;
    await tx.set(key, present + by);
  },
  onlyHere: (tx, {key, value}) => tx.set(key, value),
};

export function open(base, name, options = {}) {
  const client = new Replicache({
    name,
    pushURL: `${base}/replicache/push?as=${name}`,
    pullURL: `${base}/replicache/pull?as=${name}`,
    pullInterval: null,
    pushDelay: 1,
    requestOptions: {minDelayMs: 5, maxDelayMs: 50},
    logLevel: 'error',
    logSinks: [{log: () => undefined}],
    mutators,
    ...options,
  });
  client.onClientStateNotFound = () => undefined;
  return client;
}

export const content = client =>
  client.query(async tx => Object.fromEntries(await tx.scan().entries().toArray()));

export async function until(condition, what) {
  const started = Date.now();
  while (!(await condition())) {
    if (Date.now() - started > WAIT_MS) {
      throw new Error(`timed out: ${what}`);
    }
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

export const isSettled = async client => (await client.experimentalPendingMutations()).length === 0;

const settled = async (client, expected) =>
  isDeepStrictEqual(await content(client), expected) && (await isSettled(client));

// Pull, as after a poke, until a client shows `expected` and nothing is pending.
export const settles = (client, expected) =>
  until(async () => {
    await client.pull();
    return settled(client, expected);
  }, `${client.name} shows ${JSON.stringify(expected)}`);

// Wait until a client shows `expected` and nothing is pending. The test does not pull, so only pokes make the client
// pull.
export const isBrought = (client, expected) =>
  until(() => settled(client, expected), `${client.name} shows ${JSON.stringify(expected)} after a poke`);

// Wait until the client has written `text` to its storage. The client writes when it is idle. A reload reads only the
// storage.
export const isStored = (client, text) =>
  until(async () => (await storedText(client.idbName)).includes(text), `${client.name} has stored ${text}`);

const storedText = name =>
  new Promise((resolve, reject) => {
    const opening = indexedDB.open(name);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const chunks = opening.result.transaction('chunks').objectStore('chunks').getAll();
      chunks.onerror = () => reject(chunks.error);
      chunks.onsuccess = () => {
        opening.result.close();
        resolve(JSON.stringify(chunks.result));
      };
    };
  });

// Pull at every event of the server.
export async function listen(base, client) {
  const answer = await realFetch(`${base}/events`);
  if (!answer.ok) {
    throw new Error(`events: ${answer.status}`);
  }
  void (async () => {
    for await (const _ of answer.body) {
      void client.pull();
    }
  })();
}

export async function control(base, path, body, method = 'POST') {
  const answer = await realFetch(`${base}${path}`, {
    method,
    headers: {'content-type': 'application/json'},
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) {
    throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }
  return answer.status === 204 ? null : answer.json();
}
