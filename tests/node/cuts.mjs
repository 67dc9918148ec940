// Cut the streams of real runs behind and inside each of their frames, come back in every way, and tell where the stock
// HttpAgent ends with something else than an uncut stream gives it. One job on stdin, one answer on stdout, in JSON.
//
// A job is {url, headers, clientVersion, message, cancelOn}: `message` is what the user says, "{run}" in it the id of the
// run; with `cancelOn` the run is cancelled when an event of this type was seen, by the client or after its cut. The
// answer is {runs, frames, uncut, differences}: the ids of all runs, how many frames one has, what an uncut client holds
// of the last one, and which way back from where did not lead there.
import { randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import { resumableFetch } from "../../django_ag_ui/static/django_ag_ui/resumable-fetch.js";
import { broken, cuttingFetch, framesOf, streamOf } from "./cutting.mjs";

const PACKAGES = { "1.0.0": "@ag-ui/client", "0.0.59": "ag-ui-client-059" };

const job = JSON.parse(await text(process.stdin));
const { HttpAgent } = await import(PACKAGES[job.clientVersion]);
const protocol = job.clientVersion === "1.0.0" ? "protocol=1.0" : "";

// A client whose stream breaks complains, now and then into the void.
console.log = console.info = console.debug = console.warn = console.error = () => {};
for (const source of ["unhandledRejection", "uncaughtException"]) process.on(source, () => {});

async function all(frames) {
  const found = [];
  for await (const frame of frames) found.push(frame);
  return found;
}

// Run the agent on what `fetch` answers; return what it holds then.
async function shown(agent, runId, fetch) {
  agent.fetch = fetch;
  let error = null;
  await agent.runAgent({ runId }).catch((thrown) => {
    error = String(thrown);
  });
  return structuredClone({ messages: agent.messages, state: agent.state, error });
}

async function cutRun(place) {
  const runId = randomUUID();
  const threadId = randomUUID();
  const message = { id: randomUUID(), role: "user", content: job.message.replaceAll("{run}", runId) };
  const seen = [];
  const ways = {};
  let isCancelled = false;

  const agent = () => new HttpAgent({ url: job.url, headers: job.headers, threadId, initialMessages: [message] });
  const events = (query, headers) =>
    fetch(`${job.url}runs/${runId}/events/?${protocol}&${query}`, { headers: { ...job.headers, ...headers } });

  function cancel() {
    if (isCancelled) return;
    isCancelled = true;
    fetch(`${job.url}runs/${runId}/cancel/`, { method: "POST", headers: job.headers });
  }

  // Show a client what came before the cut and what `answer` brings, as one stream.
  async function continued(answer) {
    const rest = await all(framesOf(await answer));
    return shown(agent(), runId, async () => streamOf([...seen.slice(0, place.whole), ...rest]));
  }

  // Show a client the stream to the cut, and then, as another run of it, what `fetch` answers.
  async function again(fetch) {
    const cut = agent();
    await shown(cut, runId, async () => streamOf(broken(seen, place)));
    return shown(cut, runId, fetch);
  }

  function comeBack(post) {
    const lastId = place.whole ? { "Last-Event-ID": seen[place.whole - 1].match(/^id: (.*)$/m)[1] } : {};
    ways["GET with Last-Event-ID"] = continued(events("", lastId));
    ways["GET with ?after="] = continued(events(`after=${place.whole}`));
    ways["POST with Last-Event-ID"] = continued(
      fetch(job.url, { ...post, signal: undefined, headers: { ...job.headers, ...post.headers, ...lastId } }),
    );
    ways["POST again"] = again((url) => fetch(url, { ...post, signal: undefined }));
    ways.connect = again((url, init) => fetch(`${url}threads/${threadId}/connect/`, init));
    if (job.cancelOn) cancelOnceShown();
  }

  function cancelAt(frame) {
    if (job.cancelOn && frame.includes(`"type":"${job.cancelOn}"`)) cancel();
  }

  async function cancelOnceShown() {
    for await (const frame of framesOf(await events(""))) cancelAt(frame);
  }

  function see(frame) {
    seen.push(frame);
    cancelAt(frame);
  }

  const first = cuttingFetch([place], { onFrame: see, onCut: comeBack });
  const resumed = await shown(agent(), runId, resumableFetch({ fetch: first, delay: 1 }));
  const log = await all(framesOf(await events("")));
  const uncut = await shown(agent(), runId, async () => streamOf(log));
  const differences = [];
  for (const [way, result] of Object.entries({ "resumable-fetch.js": resumed, ...ways })) {
    const got = await result;
    if (!isDeepStrictEqual(got, uncut)) differences.push({ ...place, way, got, uncut });
  }
  return { runId, frames: log.length, uncut, differences };
}

const results = [];
for (let whole = 0; whole <= (results[0]?.frames ?? 0); whole += 1) {
  const places = [
    { whole, inside: false },
    { whole, inside: true },
  ];
  results.push(...(await Promise.all(places.map(cutRun))));
}
const answer = {
  runs: results.map(({ runId }) => runId),
  frames: [...new Set(results.map(({ frames }) => frames))],
  uncut: results.at(-1).uncut,
  differences: results.flatMap(({ differences }) => differences),
};
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
