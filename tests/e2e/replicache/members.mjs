// The unmodified Replicache client and the browser client, both in Node, for the sessions of tests/branches. In such a
// session the server loses history, or its store becomes two copies. Both clients store their data in `fake-indexeddb`.
// This file implements `navigator.locks` for the browser client.
import 'fake-indexeddb/auto';
import {Replicache} from 'replicache';
import {BUILT_IN_MUTATORS, connect} from '../../../src/stratalog/web/client/stratalog.js';
import {answerTasks} from '../../branches/members.mjs';

const lines = new Map();
const held = new Set();
const realNow = performance.now.bind(performance);
let passedMs = 0;
performance.now = () => realNow() + passedMs;

Object.defineProperty(globalThis, 'navigator', {
  value: {
    locks: {
      async request(name, _, task) {
        if (held.has(name)) {
          return task(null);
        }
        held.add(name);
        try {
          return await task({name});
        } finally {
          held.delete(name);
        }
      },
    },
  },
});

// The browser client calls `removeEventListener` when it closes. Node does not have this function. Here the function
// has nothing to do, since these clients do not start and add no listener.
globalThis.removeEventListener = () => undefined;

// A request of Replicache has the member's name in its query. A request of the browser client has the name as its
// token.
globalThis.fetch = async (input, options) => {
  const request = new Request(input, options);
  const {pathname, searchParams} = new URL(request.url);
  const member = searchParams.get('as') ?? request.headers.get('authorization').replace('Bearer ', '');
  const {method} = request;
  const headers = {'content-type': 'application/json'};
  const {status, text} = await lines.get(member).send(pathname, {method, headers, body: await request.text()});
  return new Response(text, {status});
};

const rules = {
  put: (tx, {key, value}) => tx.set(key, value),
  append: async (tx, {key, item}) => tx.set(key, [...((await tx.get(key)) ?? []), item]),
  onlyHere: (tx, {key, item}) => tx.set(key, item),
};

function openReplicache({member, group, path}, line) {
  const client = new Replicache({
    name: group,
    pushURL: `http://${group}.test${path}/replicache/push?as=${member}`,
    pullURL: `http://${group}.test${path}/replicache/pull?as=${member}`,
    pullInterval: null,
    pushDelay: 1,
    requestOptions: {minDelayMs: 1, maxDelayMs: 20},
    logLevel: 'error',
    logSinks: [{log: () => undefined}],
    mutators: rules,
  });
  client.onClientStateNotFound = () => line.problems.push('the client lost its state');
  return {
    async change(name, args) {
      await client.mutate[name](args);
      return true;
    },
    async sync() {
      await client.push({now: true});
      await client.pull({now: true});
    },
    async report() {
      const shown = await client.query(async tx => Object.fromEntries(await tx.scan().entries().toArray()));
      const pending = await client.experimentalPendingMutations();
      return {shown, pending: pending.map(({args}) => args), failures: null};
    },
    restart: () => undefined,
    passTime: () => undefined,
    close: () => client.close(),
  };
}

async function openBrowserClient({member, group, path}) {
  const mutators = {...BUILT_IN_MUTATORS, onlyHere: (draft, {key, item}) => draft.put(key, item)};
  const open = () => connect(`http://${group}.test${path}`, {token: member, mutators, start: false});
  let client = await open();
  return {
    change: (name, args) =>
      client.mutate(name, args).then(
        () => true,
        () => false,
      ),
    sync: () => client.sync(),
    report() {
      const failures = client.failures.map(({status, args}) => ({status, args}));
      return {shown: Object.fromEntries(client.scan()), pending: client.pending().map(({args}) => args), failures};
    },
    async restart() {
      client.close();
      // The closed client releases its tab lease a moment later.
      await new Promise(resolve => setTimeout(resolve));
      client = await open();
    },
    passTime: seconds => void (passedMs += 1000 * seconds),
    close: () => client.close(),
  };
}

await answerTasks((task, line) => {
  lines.set(task.member, line);
  return task.kind === 'replicache' ? openReplicache(task, line) : openBrowserClient(task);
});
process.exit(0);
