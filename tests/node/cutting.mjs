// Streams of frames that break off at a chosen place.

const STREAM = { headers: { "Content-Type": "text/event-stream" } };

// Yield the whole frames of a response as they arrive, each with its empty line.
export async function* framesOf(response) {
  if (response.body === null) return;
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) yield `${frame}\n\n`;
  }
}

// Return a response that streams these texts.
export function streamOf(texts) {
  async function* encoded() {
    for await (const text of texts) yield Buffer.from(text);
  }
  return new Response(ReadableStream.from(encoded()), STREAM);
}

// Yield `whole` frames and, with `inside`, half of the next one, and then break as a connection does.
export async function* broken(frames, { whole, inside = false }) {
  const end = whole + Number(inside);
  let passed = 0;
  if (end > 0) {
    for await (const frame of frames) {
      yield passed < whole ? frame : frame.slice(0, frame.length / 2);
      passed += 1;
      if (passed === end) break;
    }
  }
  if (passed === end) throw new TypeError("terminated");
}

// Return a fetch whose first connections break, each at its place. It tells `onFrame` of each frame that arrives at
// them, and `onCut` of the request of each that has broken.
export function cuttingFetch(places, { onFrame = () => {}, onCut = () => {} } = {}) {
  const left = [...places];
  return async (url, init) => {
    const place = left.shift();
    if (!place) return fetch(url, init);
    const connection = new AbortController();
    const signal = AbortSignal.any([connection.signal, init.signal ?? connection.signal]);
    const response = await fetch(url, { ...init, signal });

    async function* observed() {
      for await (const frame of framesOf(response)) {
        onFrame(frame);
        yield frame;
      }
    }

    async function* cut() {
      try {
        yield* broken(observed(), place);
      } finally {
        connection.abort();
        onCut(init);
      }
    }
    return response.ok ? streamOf(cut()) : response;
  };
}

// Fetch, and have the body arrive byte by byte.
export async function fetchByBytes(url, init) {
  const response = await fetch(url, init);
  async function* bytes() {
    for await (const chunk of response.body) yield* Array.from(chunk, (byte) => Uint8Array.of(byte));
  }
  return new Response(ReadableStream.from(bytes()), response);
}
