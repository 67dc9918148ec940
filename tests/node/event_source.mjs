// Follow a run by EventSource to its end: {url, headers, cut} on stdin, {events, requests} on stdout, in JSON.
//
// The first connection breaks at `cut`. A request is {lastEventId, status}. The answer comes once the EventSource has
// closed itself.
import { text } from "node:stream/consumers";
import { EventSource } from "eventsource";
import { cuttingFetch } from "./cutting.mjs";

const { url, headers, cut } = JSON.parse(await text(process.stdin));
const requests = [];
const events = [];
const cutting = cuttingFetch([cut]);

const source = new EventSource(url, {
  fetch: async (url, init) => {
    const response = await cutting(url, { ...init, headers: { ...init.headers, ...headers } });
    requests.push({ lastEventId: init.headers["Last-Event-ID"] ?? null, status: response.status });
    return response;
  },
});
// Its own timer does not keep the process.
setInterval(() => {}, 1000);
source.onmessage = ({ data, lastEventId }) => events.push({ id: lastEventId, event: JSON.parse(data) });
source.onerror = () => {
  if (source.readyState !== EventSource.CLOSED) return;
  process.stdout.write(JSON.stringify({ events, requests }), () => process.exit(0));
};
