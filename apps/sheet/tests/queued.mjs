// A user undoes a text, types another text before the server answers, and the page stores the queued text.
// `node queued.mjs ENGINE_FOLDER PAGE_FOLDER` prints the stored messages and the message that the model sends later.
import { made, named, queuedOf, runQueued, sheetId } from "./lines.mjs";

const { model, receive, sent } = made(named(), "mine");
const write = (row, content) => model.dispatch("UPDATE_CELL", { sheetId, col: 1, row, content });
write(1, "undone");
receive(sent[0]);
model.dispatch("REQUEST_UNDO");
write(2, "queued");
model.dispatch("REQUEST_UNDO");
const stored = queuedOf(model, 7);
const again = queuedOf(model, 8);
receive(sent[1]);
runQueued(model);
console.log(JSON.stringify({ stored, again, sent: sent[2] }));
process.exit(0);
