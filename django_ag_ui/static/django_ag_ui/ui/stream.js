/** Reads AG-UI event streams, and comes back to them where they are cut. Needs no page and no other module. */

const FIRST_PAUSE_SECONDS = 0.5;
const LONGEST_PAUSE_SECONDS = 15;
const POSTS = 5;

const KINDS = {
  401: "forbidden",
  403: "forbidden",
  404: "missing",
  409: "conflict",
  412: "conflict",
  429: "throttled",
};

/** Why a request or a run came to nothing: `detail` is the server's own sentence. */
export class Failure extends Error {
  constructor(kind, { detail = "", code = "", status = 0, retryAfter = 0, body = {} } = {}) {
    super(`${kind} ${detail}`);
    Object.assign(this, { kind, detail, code, status, retryAfter, body });
  }

  /** Return the failure that a response other than 2xx tells of. */
  static async of(response) {
    const { status, headers } = response;
    const body = await response.json().catch(() => ({}));
    return new Failure(KINDS[status] ?? (status >= 500 ? "unavailable" : "refused"), {
      detail: body.error,
      code: body.code,
      status,
      retryAfter: Number(headers.get("Retry-After")) || 0,
      body,
    });
  }

  /** Whether it may succeed later. */
  get passes() {
    return this.kind === "throttled" || this.kind === "unavailable";
  }
}

/** Splits text into the frames of an event stream, wherever its pieces end. */
export class FrameParser {
  #rest = "";

  /** Yield `{ id, data }` for each frame that `text` completes. */
  *push(text) {
    const frames = (this.#rest + text).split(/\r\n\r\n|\n\n|\r\r/);
    this.#rest = frames.pop();
    for (const frame of frames) {
      const found = { data: [], id: [] };
      for (const line of frame.split(/\r\n|\r|\n/)) {
        const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
        found[field]?.push(value);
      }
      if (found.data.length) yield { id: found.id.at(-1), data: found.data.join("\n") };
    }
  }
}

/** Yield `{ id, raw, event }` for each frame of a response's body; `onBytes` hears that something comes. */
export async function* readEvents(body, onBytes = () => {}) {
  const parser = new FrameParser();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      for (const { id, data } of parser.push(value)) {
        yield { id, raw: data, event: JSON.parse(data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Yield `{ run, seq, raw, event }` of a run, or with `endless` of all runs of a thread, and come back by cursor where
 * it is cut. A preamble has no seq. Throws a Failure where coming back is of no use. `onStatus` is told
 * `{ phase, attempt, failure }`.
 */
export async function* follow(
  url,
  { endless = false, headers, signal, silenceSeconds = 45, onStatus = () => {} } = {},
) {
  let seen = new Map();
  let cursor;
  let attempt = 0;
  let ended = false;
  let missed = false;
  for (;;) {
    const line = openLine(signal, silenceSeconds);
    let failure;
    try {
      const response = await fetch(url, {
        headers: {
          Accept: "text/event-stream",
          "X-AGUI-Resume": "1",
          ...headers,
          ...(cursor && { "Last-Event-ID": cursor }),
        },
        cache: "no-store",
        signal: line.signal,
      });
      if (response.status === 204) return;
      if (!response.ok) throw await Failure.of(response);
      if (!cursor) seen = new Map();
      onStatus({ phase: missed ? "resumed" : "open" });
      missed = false;
      for await (const frame of readEvents(response.body, line.alive)) {
        attempt = 0;
        // An error outside the log ends the stream, not the run.
        if (frame.id === undefined && frame.event.type === "RUN_ERROR") {
          if (frame.event.code === "detached") break;
          throw new Failure("forbidden", { detail: frame.event.message, code: frame.event.code });
        }
        const { run, seq } = place(frame.id);
        if (seq <= seen.get(run)) continue;
        if (run !== undefined) {
          seen.set(run, seq);
          cursor = frame.id;
        }
        ended = isTerminal(frame.event);
        yield { run, seq, ...frame };
        if (ended && !endless) return;
      }
      if (ended) attempt = 0;
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof Failure) {
        if (cursor && (error.status === 410 || error.code === "invalid_cursor")) {
          cursor = undefined;
          continue;
        }
        if (!error.passes) throw error;
        failure = error;
      }
    } finally {
      line.close();
    }
    if (signal?.aborted) return;
    // Nobody misses a stream that ends between two runs.
    missed = attempt > 0 || !ended;
    if (!attempt && missed) onStatus({ phase: "dropped" });
    attempt += 1;
    await pause(failure?.retryAfter || pauseSeconds(attempt), signal);
    if (missed) onStatus({ phase: "reconnecting", attempt, failure });
  }
}

/** Post a RunAgentInput (text), again if the answer is lost; return the id of the run taken. Throws a Failure. */
export async function start(url, body, { headers, signal } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    let kind = "unreachable";
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { Accept: "text/event-stream", "Content-Type": "application/json", ...headers },
        body,
        signal,
      });
      kind = "cut";
      if (!response.ok) throw await Failure.of(response);
      for await (const frame of readEvents(response.body)) {
        if (frame.id !== undefined) return place(frame.id).run;
        if (frame.event.type === "RUN_ERROR" && frame.event.code !== "detached") {
          throw new Failure("run_error", { detail: frame.event.message, code: frame.event.code });
        }
      }
    } catch (error) {
      if (error instanceof Failure || signal?.aborted) throw error;
    }
    if (attempt === POSTS) throw new Failure(kind);
    await pause(pauseSeconds(attempt), signal);
  }
}

/** Return an id as a segment of a URL's path. */
export function encodeId(id) {
  if (/^(?!\.{1,2}$)[A-Za-z0-9._:@-]+$/.test(id)) return id;
  const bytes = String.fromCharCode(...new TextEncoder().encode(id));
  return `~${btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

export function isTerminal(event) {
  return ["RUN_FINISHED", "RUN_ERROR"].includes(event.type);
}

function place(id) {
  if (id === undefined) return {};
  const colon = id.lastIndexOf(":");
  return { run: decodeURIComponent(id.slice(0, colon)), seq: Number(id.slice(colon + 1)) };
}

function pauseSeconds(attempt) {
  return Math.min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
}

/** Wait, at most until the network is there again. */
export async function pause(seconds, signal) {
  const over = new AbortController();
  let timer;
  await new Promise((resolve) => {
    timer = setTimeout(resolve, seconds * 1000);
    globalThis.addEventListener?.("online", resolve, over);
    signal?.addEventListener("abort", resolve, over);
  });
  clearTimeout(timer);
  over.abort();
}

/** Give up a connection when its reader leaves, the network goes, or nothing comes for too long. */
function openLine(leaving, silenceSeconds) {
  const line = new AbortController();
  const close = () => {
    clearTimeout(timer);
    line.abort();
  };
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(close, silenceSeconds * 1000);
  };
  let timer;
  globalThis.addEventListener?.("offline", close, line);
  alive();
  return { signal: AbortSignal.any([line.signal, leaving].filter(Boolean)), alive, close };
}
