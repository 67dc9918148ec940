// Have TanStack's ChatClient talk to a server: one job on stdin, one answer on stdout, in JSON.
//
// A job is {url, headers, threadId, acts, cuts}: acts are {send: text}, {reload: true}, and {edit: text}, which changes
// the last user message and asks for an answer to it; `cuts` are the places at which the first connections break. The
// answer is {messages, error, posts, ids}: what each post says and behind which id, and the ids of the frames of those
// that broke, in the order in which they came.
import { text } from "node:stream/consumers";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { cuttingFetch } from "./cutting.mjs";

const { url, headers, threadId, acts, cuts = [] } = JSON.parse(await text(process.stdin));
const posts = [];
const ids = [];

const cutting = cuttingFetch(cuts, { onFrame: (frame) => ids.push(frame.match(/^id: (.*)$/m)[1]) });

async function fetchClient(url, init) {
  posts.push({ body: init.body, lastEventId: new Headers(init.headers).get("Last-Event-ID") });
  return cutting(url, init);
}

const connection = fetchServerSentEvents(url, { headers, fetchClient, reconnect: { delayMs: 1 } });
const chat = new ChatClient({ connection, threadId });

async function edit(content) {
  const messages = chat.getMessages();
  const last = messages.findLastIndex((message) => message.role === "user");
  const edited = { ...messages[last], parts: [{ type: "text", content }] };
  chat.setMessagesManually([...messages.slice(0, last), edited]);
  await chat.reload();
}

for (const act of acts) {
  if (act.send) await chat.sendMessage(act.send);
  else if (act.edit) await edit(act.edit);
  else await chat.reload();
}
const answer = { messages: chat.getMessages(), error: chat.getError()?.message ?? null, posts, ids };
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
