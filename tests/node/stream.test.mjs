/** Tests of the stream reader, against a server of this process whose every byte is written here. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Failure, follow, readEvents, start } from "../../django_ag_ui/static/django_ag_ui/ui/stream.js";

const STREAM = [
  ": opened\n\n",
  'id: r%3A1:1\ndata: {"type":"RUN_STARTED"}\n\n',
  'id: r%3A1:2\r\ndata: {"type":"TEXT_MESSAGE_CONTENT","delta":"Grüße 🌲, a: b"}\r\n\r\n',
  ": keep-alive\r\n\r\n",
  'data:{"type":"CUSTOM",\ndata: "name":"n"}\n\n',
  'event: other\nid: r%3A1:3\rdata: {"type":"RUN_FINISHED"}\r\r',
  'id: r%3A1:4\ndata: {"type":"NEVER_COMPLETED"}\n',
].join("");

const EXPECTED = [
  ["r%3A1:1", { type: "RUN_STARTED" }],
  ["r%3A1:2", { type: "TEXT_MESSAGE_CONTENT", delta: "Grüße 🌲, a: b" }],
  [undefined, { type: "CUSTOM", name: "n" }],
  ["r%3A1:3", { type: "RUN_FINISHED" }],
];

function body(chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

async function read(chunks) {
  const found = [];
  for await (const { id, event } of readEvents(body(chunks))) found.push([id, event]);
  return found;
}

test("C42 frames are the same wherever the bytes are split", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  for (let split = 0; split <= bytes.length; split += 1) {
    assert.deepEqual(await read([bytes.slice(0, split), bytes.slice(split)]), EXPECTED, `split at ${split}`);
  }
  const single = Array.from(bytes, (_, index) => bytes.slice(index, index + 1));
  assert.deepEqual(await read(single), EXPECTED);
});

/** Serve the answers one after the other, each a function of `(request, response)`; give their requests and a URL. */
async function serve(answers, use) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let posted = "";
    for await (const piece of request) posted += piece;
    requests.push({ method: request.method, headers: request.headers, posted });
    answers[Math.min(requests.length, answers.length) - 1](response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${server.address().port}/`, requests);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const frame = (id, event) => `${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(event)}\n\n`;
const started = frame("r:1", { type: "RUN_STARTED" });
const said = (seq) => frame(`r:${seq}`, { type: "TEXT_MESSAGE_CONTENT", delta: String(seq) });
const finished = (seq) => frame(`r:${seq}`, { type: "RUN_FINISHED" });

const sends =
  (...frames) =>
  (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(frames.join(""));
  };
const breaksAfter =
  (...frames) =>
  (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(frames.join(""), () => response.destroy());
  };
const refuses =
  (status, answer = {}, headers = {}) =>
  (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(answer));
  };

async function followed(url, options) {
  const seqs = [];
  const phases = [];
  const onStatus = ({ phase, attempt }) => phases.push(attempt ? `${phase} ${attempt}` : phase);
  for await (const { seq } of follow(url, { ...options, onStatus })) seqs.push(seq);
  return { seqs, phases };
}

test("a stream that ends without a terminal event is followed from its cursor, and nothing comes twice", () =>
  serve(
    [sends(started, said(2)), breaksAfter(said(2), said(3), "id: r:4\nda"), sends(said(4), finished(5))],
    async (url, requests) => {
      const { seqs, phases } = await followed(url);
      assert.deepEqual(seqs, [1, 2, 3, 4, 5]);
      assert.deepEqual(
        requests.map(({ headers }) => headers["last-event-id"]),
        [undefined, "r:2", "r:3"],
      );
      assert.deepEqual(phases, [
        "open",
        "dropped",
        "reconnecting 1",
        "resumed",
        "dropped",
        "reconnecting 1",
        "resumed",
      ]);
    },
  ));

test("a detached stream and a server that is down for a while are come back to", () => {
  const detached = frame(undefined, { type: "RUN_ERROR", code: "detached", message: "" });
  const busy = refuses(503, { error: "ending", code: "shutting_down" }, { "Retry-After": "0.1" });
  return serve([sends(started, detached), busy, sends(finished(2))], async (url) => {
    const { seqs, phases } = await followed(url);
    assert.deepEqual(seqs, [1, 2]);
    assert.deepEqual(phases, ["open", "dropped", "reconnecting 1", "reconnecting 2", "resumed"]);
  });
});

test("a log that does not reach back to the cursor is shown anew", () => {
  const preamble = frame(undefined, { type: "RUN_STARTED" });
  const answers = [
    sends(started, said(2)),
    refuses(410, { code: "cursor_expired" }),
    sends(preamble, said(9), finished(10)),
  ];
  return serve(answers, async (url, requests) => {
    assert.deepEqual((await followed(url)).seqs, [1, 2, undefined, 9, 10]);
    assert.equal(requests[2].headers["last-event-id"], undefined);
  });
});

test("a thread is followed from run to run, and a quiet stream that ends between them is not told", () => {
  const next = frame("s:1", { type: "RUN_STARTED" }) + frame("s:2", { type: "RUN_FINISHED" });
  return serve([sends(started, finished(2)), sends(next), refuses(404)], async (url) => {
    const seen = [];
    const phases = [];
    const onStatus = ({ phase }) => phases.push(phase);
    const reading = async () => {
      for await (const { run, seq } of follow(url, { endless: true, onStatus })) seen.push(`${run}${seq}`);
    };
    await assert.rejects(reading, { kind: "missing" });
    assert.deepEqual(seen, ["r1", "r2", "s1", "s2"]);
    assert.deepEqual(phases, ["open", "open"]);
  });
});

test("a thread whose quiet streams are ended again and again is not waited for longer each time", () => {
  const quiet = sends(": quiet\n\n");
  const next = frame("s:1", { type: "RUN_STARTED" });
  return serve([sends(started, finished(2)), quiet, quiet, quiet, quiet, sends(next), refuses(404)], async (url) => {
    const attempts = [];
    const onStatus = ({ attempt = 0 }) => attempts.push(attempt);
    const reading = async () => {
      for await (const { run } of follow(url, { endless: true, onStatus })) if (run === "s") break;
    };
    await reading();
    assert.deepEqual(attempts, Array(6).fill(0));
  });
});

test("a silent line is given up, and a reader that leaves ends it", () =>
  serve([(response) => response.writeHead(200).write(started), sends(finished(2))], async (url) => {
    assert.deepEqual((await followed(url, { silenceSeconds: 0.1 })).seqs, [1, 2]);
    const leaving = new AbortController();
    for await (const _ of follow(url, { signal: leaving.signal })) leaving.abort();
  }));

test("C42 each failure of a post has its own kind and words, and is none of success", async () => {
  const reused = frame(undefined, { type: "RUN_ERROR", code: "run_id_reused", message: "single-shot" });
  const cases = {
    conflict: [refuses(409, { error: "resuming that run would overwrite this thread", run_id: "a", thread_id: "b" })],
    missing: [refuses(404, { error: "there is no such run", code: "not_found" })],
    forbidden: [refuses(403, { error: "CSRF", code: "csrf_failed" })],
    throttled: [refuses(429, { error: "slow down" }, { "Retry-After": "7" })],
    unavailable: [refuses(503, { error: "away" }, { "Retry-After": "1" })],
    refused: [refuses(422, { error: "nothing to run", code: "nothing_to_run" })],
    run_error: [sends(frame(undefined, { type: "RUN_STARTED" }), reused)],
  };
  const words = new Set();
  for (const [kind, answers] of Object.entries(cases)) {
    const failure = await serve(answers, (url) => start(url, "{}").catch((error) => error));
    assert.ok(failure instanceof Failure, kind);
    assert.equal(failure.kind, kind);
    assert.ok(failure.message.startsWith(kind) && failure.detail, kind);
    words.add(failure.message);
  }
  assert.equal(words.size, Object.keys(cases).length);
});

test("a post whose answer is lost is sent again as it was, and tells which run has taken it", () =>
  serve([breaksAfter("id: r"), sends(started)], async (url, requests) => {
    assert.equal(await start(url, '{"runId":"r"}', { headers: { "X-CSRFToken": "t" } }), "r");
    assert.deepEqual(
      requests.map(({ method, posted, headers }) => [method, posted, headers["x-csrftoken"]]),
      Array(2).fill(["POST", '{"runId":"r"}', "t"]),
    );
  }));
