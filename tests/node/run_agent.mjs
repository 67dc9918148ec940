// Drive the stock AG-UI HttpAgent: one JSON object on stdin, one on stdout; tests/stock_client.py documents both.
import { randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";
import { resumableFetch } from "../../django_ag_ui/static/django_ag_ui/resumable-fetch.js";
import { fetchByBytes } from "./cutting.mjs";

const PACKAGES = { "1.0.0": "@ag-ui/client", "0.0.59": "ag-ui-client-059" };
const PER_RUN = ["runId", "tools", "context", "forwardedProps", "resume"];
const SETTLE_MS = 1000;

const output = { ok: false, error: null, messages: [], state: null, events: [], results: [], warnings: [] };
let agent;

function describe(error, source) {
  const cause = error?.cause;
  return {
    source,
    name: error?.name ?? typeof error,
    message: error?.message ?? String(error),
    code: error?.code ?? cause?.code,
    status: error?.status,
    payload: error?.payload,
    cause: cause === undefined ? undefined : (cause?.message ?? String(cause)),
  };
}

function fail(error, source) {
  output.error ??= describe(error, source);
}

function finish() {
  output.messages = agent?.messages ?? [];
  output.state = agent?.state ?? null;
  output.ok = output.error === null && output.results.every((result) => result.terminal === "RUN_FINISHED");
  process.stdout.write(JSON.stringify(output), () => process.exit(0));
}

function asMessage(message) {
  return typeof message === "string" ? { id: randomUUID(), role: "user", content: message } : message;
}

async function run(options) {
  const result = { runId: options.runId, terminal: null, error: null, result: undefined, newMessages: [], events: [] };
  output.results.push(result);
  if (options.keep !== undefined) agent.setMessages(agent.messages.slice(0, options.keep));
  agent.addMessages((options.messages ?? []).map(asMessage));
  const subscriber = {
    onRunInitialized({ input }) {
      result.runId = input.runId;
    },
    onEvent({ event }) {
      const seen = JSON.parse(JSON.stringify(event));
      result.events.push(seen);
      output.events.push(seen);
      if (seen.type === "RUN_FINISHED" || seen.type === "RUN_ERROR") result.terminal = seen.type;
      if (seen.type === options.abortOn) agent.abortRun();
    },
  };
  const parameters = Object.fromEntries(
    PER_RUN.filter((key) => options[key] !== undefined).map((key) => [key, options[key]]),
  );
  try {
    Object.assign(result, await agent.runAgent(parameters, subscriber));
  } catch (error) {
    result.error = describe(error, "run");
    fail(error, "run");
  }
}

// Only the answer may reach stdout; what the client warns about is part of it.
console.log = console.info = console.debug = console.error;
console.warn = (...parts) => output.warnings.push(parts.map(String).join(" "));

for (const source of ["unhandledRejection", "uncaughtException"]) {
  process.on(source, (error) => {
    fail(error, source);
    setTimeout(finish, SETTLE_MS);
  });
}

const input = JSON.parse(await text(process.stdin));
const {
  clientVersion = "1.0.0",
  timeoutSeconds = 60,
  runs = [{}],
  url,
  headers,
  threadId,
  messages,
  state,
  resumable,
} = input;
if (!(clientVersion in PACKAGES)) throw new Error(`clientVersion must be one of ${Object.keys(PACKAGES).join(", ")}`);

setTimeout(() => {
  fail(new Error(`not finished after ${timeoutSeconds} s`), "timeout");
  finish();
}, timeoutSeconds * 1000);

const { HttpAgent } = await import(PACKAGES[clientVersion]);
agent = new HttpAgent({
  url,
  headers,
  threadId,
  initialMessages: (messages ?? []).map(asMessage),
  initialState: state,
  fetch: resumable && resumableFetch({ ...resumable, fetch: fetchByBytes }),
});
for (const [index, options] of runs.entries()) {
  const shared =
    index === 0 ? input : { tools: input.tools, context: input.context, forwardedProps: input.forwardedProps };
  await run({ ...shared, messages: [], ...options });
}
// A socket error can also surface as an unhandled rejection a turn after the run has settled.
setImmediate(() => setImmediate(finish));
