"""The load: raw sockets on one event loop, in a process that imports nothing of what it measures.

Standard input holds one line of JSON, `{"port": <port>, "core": <core or null>, "at_once": <bool>, "requests": [...]}`;
a request is the text of a whole HTTP request. They are sent at once when all connections are open, or each when the one
before has its first frame. A line `open` is printed when each has its first frame, a line of JSON with what was seen
when each has its last. The end of standard input makes an end of it before that.
"""

import asyncio
import json
import os
import re
import sys
import time

DELTA = re.compile(rb'"delta":"(\d+\.\d{6}) "')
FRAME = b"data: {"
PATIENCE_SECONDS = 300
LAST_FRAMES = (b'data: {"type":"RUN_FINISHED"', b'data: {"type":"RUN_ERROR"')


class Stream(asyncio.Protocol):
    """One request and what came back: instants of the monotonic clock, and the age of each delta, in seconds."""

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.opened = loop.create_future()
        self.ended = loop.create_future()
        self.sent = self.first = self.last = 0.0
        self.events = self.bytes = 0
        self.ages: list[float] = []
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        self.sent = time.monotonic()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.bytes += len(data)
        data = self._rest + data
        whole = data.rfind(b"\n\n") + 2
        if whole < 2:
            self._rest = data
            return
        self._rest = data[whole:]
        data = data[:whole]
        self.events += data.count(FRAME)
        self.ages += [now - float(said) for said in DELTA.findall(data)]
        if self.events and not self.opened.done():
            self.first = now
            self.opened.set_result(None)
        if any(frame in data for frame in LAST_FRAMES):
            self.last = now
            if LAST_FRAMES[0] not in data:
                self.fail(data)
            elif not self.ended.done():
                self.ended.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.last:
            self.fail(self._rest)

    @staticmethod
    def fail(answer: bytes) -> None:
        print(f"a stream did not finish: {answer[-2000:].decode()}", file=sys.stderr, flush=True)
        os._exit(1)

    def seen(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("sent", "first", "last", "events", "bytes", "ages")}


async def load(port: int, requests: list[str], *, at_once: bool) -> None:
    loop = asyncio.get_running_loop()
    streams = [Stream(request.encode()) for request in requests]
    for stream in streams:
        await loop.create_connection(lambda stream=stream: stream, "127.0.0.1", port)
    began, busy = time.monotonic(), time.process_time()
    for stream in streams:
        stream.send()
        if not at_once:
            await stream.opened
    await asyncio.gather(*(stream.opened for stream in streams))
    print("open", flush=True)
    await asyncio.gather(*(stream.ended for stream in streams))
    load = (time.process_time() - busy) / (time.monotonic() - began)
    print(json.dumps({"load": load, "streams": [stream.seen() for stream in streams]}), flush=True)


def leave_at_end_of_input() -> None:
    if not sys.stdin.readline():
        os._exit(0)


async def main() -> None:
    task = json.loads(sys.stdin.readline())
    if task["core"] is not None:
        os.sched_setaffinity(0, [task["core"]])
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, leave_at_end_of_input)
    loop.call_later(PATIENCE_SECONDS, Stream.fail, b"it took too long")
    await load(task["port"], task["requests"], at_once=task["at_once"])


if __name__ == "__main__":
    asyncio.run(main())
