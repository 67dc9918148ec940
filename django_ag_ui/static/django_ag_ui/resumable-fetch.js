// A fetch that goes on with the stream of a run where it was cut: new HttpAgent({ url, fetch: resumableFetch() }).
import { pause } from "./ui/stream.js";

async function* framesOf({ body }) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const frames = (rest + read.value).split("\n\n");
      rest = frames.pop();
      yield* frames;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function fieldOf(frame, name) {
  const line = frame.split("\n").find((line) => line.startsWith(name));
  return line?.slice(name.length);
}

// Yield the frames of a run to its last event, those behind `id` from the response to `ask(id)`.
async function* resumed(response, { ask, signal, tries, delay, thread }) {
  let lastId;
  for (let failures = 0; failures <= tries; failures += 1) {
    if (failures) await pause(Math.min(delay * 2 ** (failures - 1), 5000) / 1000, signal);
    // What has no id cannot be asked for again: it waits for one that has.
    let held = "";
    try {
      for await (const frame of framesOf(failures ? await ask(lastId) : response)) {
        const id = fieldOf(frame, "id: ");
        const { type, code, metadata } = JSON.parse(fieldOf(frame, "data: ") ?? "{}");
        if (code === "detached" && !id) break;
        thread.isShown ||= type === "MESSAGES_SNAPSHOT";
        thread.revision = metadata?.django_ag_ui?.revision ?? thread.revision;
        held += `${frame}\n\n`;
        const isLast = type === "RUN_FINISHED" || type === "RUN_ERROR";
        if (id || isLast) yield held;
        if (isLast) return;
        if (id) [held, lastId, failures] = ["", id, 0];
      }
    } catch (error) {
      if (signal.aborted || error.isFinal) throw error;
    }
  }
  throw new Error(`The stream was cut, and ${tries} requests in a row brought nothing new.`);
}

// `tries` requests in a row may bring nothing new; the first comes after `delay` milliseconds, the next ones later.
export function resumableFetch({ fetch = globalThis.fetch, tries = 8, delay = 250 } = {}) {
  const threads = new Map();
  return async (url, init) => {
    const input = JSON.parse(init.body);
    const thread = threads.get(input.threadId) ?? { isShown: false };
    threads.set(input.threadId, thread);
    // Only who was shown the thread can mean what it leaves out of it.
    if (thread.isShown) input.forwardedProps = { baseRevision: thread.revision, ...input.forwardedProps };
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, init.signal ?? stop.signal]);
    const request = { ...init, body: JSON.stringify(input), signal };

    async function ask(lastId) {
      const headers = new Headers(init.headers);
      if (lastId) headers.set("Last-Event-ID", lastId);
      const response = await fetch(url, { ...request, headers });
      if (response.ok) return response;
      const error = new Error(`The stream cannot be resumed: ${response.status}`);
      error.isFinal = response.status < 500 && response.status !== 429;
      throw error;
    }

    const response = await fetch(url, request);
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
    const frames = resumed(response, { ask, signal, tries, delay, thread });
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await frames.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      cancel: () => stop.abort(),
    });
    return new Response(body, response);
  };
}
