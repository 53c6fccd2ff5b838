// Stories of Replicache's own client. `node stories.mjs` lists the stories. `node stories.mjs URL STORY` runs one story
// against a new, empty document.
import assert from 'node:assert/strict';
import {isDeepStrictEqual} from 'node:util';
import {
  content,
  control,
  cut,
  isBrought,
  isSettled,
  isStored,
  listen,
  mutators,
  open,
  requests,
  settles,
  until,
} from './client.mjs';

const stories = {
  async twoClientsAgree(base) {
    const [ada, bob] = [open(base, 'ada'), open(base, 'bob')];
    await ada.mutate.put({key: 'name', value: {title: 'Plan', parts: [1.5, null, true, 'é']}});
    await settles(ada, {name: {title: 'Plan', parts: [1.5, null, true, 'é']}});
    await settles(bob, {name: {title: 'Plan', parts: [1.5, null, true, 'é']}});
    await bob.mutate.del({key: 'name'});
    await settles(bob, {});
    await settles(ada, {});
  },

  async aPokeMakesAClientPullNewChanges(base) {
    const [ada, bob] = [open(base, 'ada'), open(base, 'bob')];
    await settles(bob, {});
    await listen(base, bob);
    await listen(base, ada);
    await ada.mutate.inc({key: 'n'});
    await isBrought(bob, {n: 1});
    await isBrought(ada, {n: 1});
  },

  async offlineEditsAreRebased(base) {
    const [ada, bob] = [open(base, 'ada'), open(base, 'bob')];
    await ada.mutate.put({key: 'n', value: 10});
    await settles(ada, {n: 10});
    await settles(bob, {n: 10});
    cut('ada', 'down');
    await ada.mutate.inc({key: 'n'});
    await ada.mutate.inc({key: 'n', by: 2});
    assert.deepEqual(await content(ada), {n: 13});
    await bob.mutate.inc({key: 'n', by: 100});
    await settles(bob, {n: 110});
    cut('ada', 'up');
    await settles(ada, {n: 113});
    await settles(bob, {n: 113});
  },

  async rejectedChangesAreUndone(base) {
    const ada = open(base, 'ada');
    await ada.mutate.onlyHere({key: 'x', value: 1});
    await ada.mutate.put({key: 'y', value: 'text'});
    await ada.mutate.inc({key: 'y'});
    await ada.mutate.put({key: 'z', value: 3});
    assert.equal((await content(ada)).x, 1);
    await settles(ada, {y: 'text', z: 3});
    assert.ok(requests.filter(request => request.call === 'push').every(request => request.status === 200));
  },

  async mutationsWithALostAnswerAreAppliedOnce(base) {
    const ada = open(base, 'ada');
    await settles(ada, {});
    cut('ada', 'deaf');
    await ada.mutate.inc({key: 'n'});
    await ada.mutate.inc({key: 'n'});
    await until(() => requests.filter(request => request.call === 'push').length >= 3, 'the client pushed three times');
    cut('ada', 'up');
    await settles(ada, {n: 2});
  },

  async overAThousandOfflineMutationsAreAllApplied(base) {
    const ada = open(base, 'ada');
    await settles(ada, {});
    cut('ada', 'down');
    for (let count = 0; count < 1100; count++) {
      await ada.mutate.inc({key: 'n'});
    }
    cut('ada', 'up');
    await settles(ada, {n: 1100});
  },

  async manyClientsAgreeAfterFaults(base) {
    const names = ['ada', 'bob', 'cyd', 'dan'];
    const clients = names.map(name => open(base, name));
    let seed = 7;
    const draw = limit => (seed = (seed * 48271) % 2147483647) % limit;
    await clients[0].mutate.put({key: 'text', value: 'no number'});
    await settles(clients[0], {text: 'no number'});
    for (let turn = 0; turn < 120; turn++) {
      const client = clients[draw(4)];
      cut(client.name, ['up', 'down', 'deaf'][draw(3)]);
      await client.mutate.inc({key: 'n'});
      await client.mutate.put({key: `by/${client.name}`, value: turn});
      await client.mutate.inc({key: 'text'});
      if (draw(4) === 0) {
        await new Promise(resolve => setTimeout(resolve, draw(40)));
      }
    }
    names.forEach(name => cut(name, 'up'));
    await until(async () => {
      await Promise.all(clients.map(client => client.pull()));
      const pending = await Promise.all(clients.map(isSettled));
      const shown = await Promise.all(clients.map(content));
      return pending.every(Boolean) && shown.every(state => state.n === 120 && isDeepStrictEqual(state, shown[0]));
    }, 'all mutations were confirmed and all clients show the same state');
    assert.equal((await content(clients[0])).text, 'no number');
  },

  async tabsOfOneGroupAgree(base) {
    const tabs = [open(base, 'ada'), open(base, 'ada')];
    const groups = await Promise.all(tabs.map(tab => tab.clientGroupID));
    assert.equal(groups[0], groups[1]);
    await Promise.all(tabs.map(tab => tab.mutate.inc({key: 'n'})));
    await Promise.all(tabs.map(tab => tab.mutate.inc({key: 'n'})));
    for (const tab of tabs) {
      await settles(tab, {n: 4});
    }
  },

  async aReloadKeepsWhatIsPending(base) {
    const before = open(base, 'ada');
    await before.mutate.put({key: 'a', value: 1});
    await settles(before, {a: 1});
    cut('ada', 'down');
    await before.mutate.put({key: 'b', value: 2});
    await isStored(before, '"key":"b"');
    await before.close();
    cut('ada', 'up');
    const after = open(base, 'ada');
    assert.notEqual(after.clientID, before.clientID);
    await settles(after, {a: 1, b: 2});
    const bob = open(base, 'bob');
    await settles(bob, {a: 1, b: 2});
  },

  async aNewGroupContinuesWithTheCookieOfTheOldGroup(base) {
    const before = open(base, 'ada');
    await before.mutate.put({key: 'a', value: 1});
    await settles(before, {a: 1});
    await isStored(before, '"version":1');
    const group = await before.clientGroupID;
    await before.close();
    const after = open(base, 'ada', {mutators: {...mutators, another: () => undefined}});
    assert.notEqual(await after.clientGroupID, group);
    requests.length = 0;
    await after.mutate.put({key: 'b', value: 2});
    await settles(after, {a: 1, b: 2});
    const pulls = requests.filter(request => request.call === 'pull').map(request => request.body);
    assert.ok(pulls.some(pull => pull.cookie?.version === 1 && pull.clientGroupID !== group));
  },

  async mutationsOfAnOldGroupAreRecovered(base) {
    const before = open(base, 'ada');
    await before.mutate.put({key: 'a', value: 1});
    await settles(before, {a: 1});
    cut('ada', 'down');
    await before.mutate.put({key: 'b', value: 2});
    await isStored(before, '"key":"b"');
    const group = await before.clientGroupID;
    await before.close();
    cut('ada', 'up');
    requests.length = 0;
    const after = open(base, 'ada', {mutators: {...mutators, another: () => undefined}});
    await settles(after, {a: 1, b: 2});
    const pushes = requests.filter(request => request.call === 'push').map(request => request.body);
    assert.ok(pushes.some(push => push.clientGroupID === group && push.mutations[0].clientID === before.clientID));
    assert.notEqual(await after.clientGroupID, group);
  },

  async aClientOfACollectedGroupLosesItsStateAndStartsAgain(base) {
    const before = open(base, 'ada');
    await before.mutate.put({key: 'a', value: 1});
    await settles(before, {a: 1});
    await isStored(before, '"version":1');
    let isLost = false;
    before.onClientStateNotFound = () => (isLost = true);
    await control(base, '/control/collect', {clients: [before.clientID], groups: [await before.clientGroupID]});
    await before.mutate.put({key: 'lost', value: 1});
    await until(() => isLost, 'the client lost its state');
    await before.close();
    const after = open(base, 'ada');
    await after.mutate.put({key: 'b', value: 2});
    await settles(after, {a: 1, b: 2});
  },

  async aRecreatedDocumentReplacesTheClientState(base) {
    const ada = open(base, 'ada');
    for (let count = 0; count < 5; count++) {
      await ada.mutate.inc({key: 'n'});
      await settles(ada, {n: count + 1});
    }
    await control(base, '', undefined, 'DELETE');
    await control(base, '', undefined, 'PUT');
    let isLost = false;
    ada.onClientStateNotFound = () => (isLost = true);
    await ada.mutate.inc({key: 'n'});
    await until(async () => {
      await ada.pull();
      return isLost;
    }, 'the client lost its state');
    await ada.close();
    const again = open(base, 'ada');
    await again.mutate.put({key: 'b', value: 2});
    await settles(again, {b: 2});
  },
};

const [, , base, story] = process.argv;
if (story === undefined) {
  console.log(Object.keys(stories).join('\n'));
} else {
  await stories[story](base);
  process.exit(0);
}
