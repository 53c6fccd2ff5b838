// Code that the Node processes share. Each process drives clients: it reads tasks from stdin, and writes answers to
// stdout. Each task and each answer is one line of JSON.

import process from "node:process";
import { createInterface } from "node:readline";

const realFetch = globalThis.fetch;
const REFUSAL = "ClientState" + "NotFound";

/** A client's line to its server. Each word of `faults` is the fault of one request: loss, repetition or delay. */
export class Line {
  isOpen = false;
  faults = [];
  /** Violations by the server: a lower mutation number than before, or an answer that the client's state is missing. */
  problems = [];
  #late = [];
  #numbers = new Map();
  #underWay = 0;

  constructor(base) {
    this.base = base;
  }

  /** Return the answer to a request for a path of the server. Throws if the client gets no answer. */
  async send(path, request) {
    this.#underWay += 1;
    try {
      return await this.#send(path, request);
    } finally {
      this.#underWay -= 1;
    }
  }

  async #send(path, { method, headers, body }) {
    const url = this.base + path;
    const ask = async () => {
      const answer = await realFetch(url, { method, headers, body });
      return { status: answer.status, text: await answer.text() };
    };
    const fault = this.isOpen ? this.faults.shift() : "unreached";
    if (fault === "unreached" || fault === "lost-request") throw new TypeError("the request was lost");
    if (fault === "late") {
      this.#late.push(ask);
      throw new TypeError("the request is on its way");
    }
    let answer = await ask();
    if (fault === "twice") answer = await ask();
    if (fault === "lost-answer") throw new TypeError("the answer was lost");
    this.#check(path, answer);
    return answer;
  }

  /** Open the line for a task, with faults. Return whether the task succeeded. */
  async during(faults, task) {
    this.faults = [...faults];
    this.isOpen = true;
    try {
      await task();
      return true;
    } catch {
      return false;
    } finally {
      this.isOpen = false;
      this.faults = [];
      // A client may send more requests than its promise awaits. Wait, so that no request runs during a later task.
      while (this.#underWay) await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  /** The newest mutation number of each client in any answer, including the clients of other tabs. */
  get numbers() {
    return Object.fromEntries(this.#numbers);
  }

  async deliverLate() {
    for (const ask of this.#late.splice(0)) await ask().catch(() => {});
  }

  #check(path, { status, text }) {
    if (!/\/pull(\?|$)/.test(path) || status !== 200) return;
    const { error, last, lastMutationIDChanges } = JSON.parse(text);
    if (error === REFUSAL) this.problems.push("the server has no state of the client");
    for (const [client, number] of Object.entries(last ?? lastMutationIDChanges ?? {})) {
      const before = this.#numbers.get(client) ?? 0;
      if (number < before) this.problems.push(`the number of ${client} fell from ${before} to ${number}`);
      this.#numbers.set(client, number);
    }
  }
}

/** Answer tasks until the input ends. `open(task, line)` returns a client. The client or its line runs later tasks. */
export async function answerTasks(open) {
  const members = new Map();
  const tasks = {
    open: async (task) => {
      const line = new Line(task.base);
      members.set(task.member, { line, client: await open(task, line) });
    },
    change: ({ client }, { mutation, args }) => client.change(mutation, args),
    sync: ({ client, line }, { faults }) => line.during(faults, () => client.sync()),
    deliverLate: ({ line }) => line.deliverLate(),
    move: ({ line }, { base }) => void (line.base = base),
    restart: ({ client }) => client.restart(),
    passTime: ({ client }, { seconds }) => client.passTime(seconds),
    report: async ({ client, line }) => ({ ...(await client.report()), faults: line.problems, numbers: line.numbers }),
    close: async ({ client }, { member }) => {
      members.delete(member);
      await client.close();
    },
  };
  for await (const text of createInterface({ input: process.stdin })) {
    const { task, ...more } = JSON.parse(text);
    let answer;
    try {
      const result = task === "open" ? await tasks.open(more) : await tasks[task](members.get(more.member), more);
      answer = { result: result ?? null };
    } catch (error) {
      answer = { error: error.stack ?? String(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}
