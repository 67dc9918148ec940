// Break a stream that resumable-fetch.js waits to go on with, and stop reading it: {url, headers, body, way} on stdin,
// where `way` is "signal" or "reader", {ended} on stdout, in JSON: how the reading ended.
import { text } from "node:stream/consumers";
import { resumableFetch } from "../../django_ag_ui/static/django_ag_ui/resumable-fetch.js";
import { cuttingFetch } from "./cutting.mjs";

const WAIT = 1234;

const { url, headers, body, way } = JSON.parse(await text(process.stdin));
const stopping = new AbortController();

// The wait for the next try begins with its timer, which never fires.
const { setTimeout } = globalThis;
globalThis.setTimeout = (callback, milliseconds, ...rest) => {
  if (milliseconds !== WAIT) return setTimeout(callback, milliseconds, ...rest);
  setImmediate(() => (way === "signal" ? stopping.abort() : reader.cancel()));
};

const fetch = resumableFetch({ fetch: cuttingFetch([{ whole: 2 }]), delay: WAIT });
const init = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, signal: stopping.signal };
const reader = (await fetch(url, { ...init, body: JSON.stringify(body) })).body.getReader();
let ended = "done";
try {
  while (!(await reader.read()).done);
} catch (error) {
  ended = error.name;
}
process.stdout.write(JSON.stringify({ ended }), () => process.exit(0));
