// Feed frames to the stock HttpAgent and tell what it makes of them: one JSON object a line on stdin, one on stdout.
// A job is {clientVersion, messages, state, frames, every}; frames are the JSON texts of events. The answer is a list
// of {messages, state, error}, one for each number of frames from 1 where `every` is true, else one for all of them.
import { createInterface } from "node:readline";

const AGENTS = {
  "1.0.0": (await import("@ag-ui/client")).HttpAgent,
  "0.0.59": (await import("ag-ui-client-059")).HttpAgent,
};

console.log = console.info = console.debug = console.warn = console.error = () => {};

let failure = null;
for (const source of ["unhandledRejection", "uncaughtException"]) {
  process.on(source, (error) => {
    failure ??= String(error);
  });
}

async function project({ clientVersion, messages, state }, frames) {
  const body = frames.map((frame) => `data: ${frame}\n\n`).join("");
  const headers = { "Content-Type": "text/event-stream" };
  const agent = new AGENTS[clientVersion]({
    url: "http://stream.invalid/",
    threadId: "t1",
    initialMessages: messages,
    initialState: state,
    fetch: async () => new Response(body, { headers }),
  });
  failure = null;
  try {
    await agent.runAgent();
  } catch (error) {
    failure ??= String(error);
  }
  return { messages: agent.messages, state: agent.state, error: failure };
}

async function answer(job) {
  const lengths = job.every ? job.frames.map((_, index) => index + 1) : [job.frames.length];
  const answers = [];
  for (const length of lengths) answers.push(await project(job, job.frames.slice(0, length)));
  return JSON.stringify(answers);
}

try {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${await answer(JSON.parse(line))}\n`);
  }
} catch (error) {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
}
