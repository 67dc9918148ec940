"""Run the stock @ag-ui/client in Node, through node/run_agent.mjs. A test that does carries the mark `node`."""

import fcntl
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).parent / "node"
CLIENT_VERSIONS = ("1.0.0", "0.0.59")


def install_clients() -> None:
    """Install the clients that package-lock.json names, once; skip the test where the registry cannot be reached."""
    wanted = NODE / "package-lock.json"
    installed = NODE / "node_modules" / ".package-lock.json"
    with wanted.open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if installed.exists() and installed.stat().st_mtime >= wanted.stat().st_mtime:
            return
        install = subprocess.run(["npm", "ci"], cwd=NODE, capture_output=True, text=True, check=False)
        if install.returncode:
            pytest.skip(f"npm ci in tests/node failed: {install.stderr}")
        installed.touch()


class RunningClient:
    """A stock client at work in a process of its own."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.timeout = float(options["timeoutSeconds"])
        with tempfile.TemporaryFile("w+") as stdin:
            json.dump(options, stdin)
            stdin.seek(0)
            self.process = subprocess.Popen(
                ["node", "run_agent.mjs"],
                cwd=NODE,
                text=True,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def result(self) -> dict[str, Any]:
        """Wait for the client and return what it saw.

        Keys: `ok` (every run ended with RUN_FINISHED and nothing was raised), `error` (the first thing the client
        raised: `source` run, unhandledRejection, uncaughtException or timeout, `name`, `message`, `code`, `status`,
        `payload`), `messages`, `state`, `events`, `warnings`, and `results`, one per run: `runId`, `terminal` (type of
        the terminal event, None where the stream ended without), `error`, `result`, `newMessages`, `events`.
        A RUN_ERROR is an event, not an error of the client.
        """
        try:
            stdout, stderr = self.process.communicate(timeout=self.timeout + 15)
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise
        if self.process.returncode or not stdout:
            raise AssertionError(f"run_agent.mjs exited with {self.process.returncode}:\n{stderr}")
        answer: dict[str, Any] = json.loads(stdout)
        return answer


def start_agent(
    url: str,
    *,
    messages: Sequence[str | Mapping[str, Any]] = (),
    runs: Sequence[Mapping[str, Any]] = ({},),
    headers: Mapping[str, str] | None = None,
    thread_id: str = "thread-1",
    client_version: str = "1.0.0",
    timeout: float = 60,
    **options: Any,
) -> RunningClient:
    """Start HttpAgent on `url` and return at once.

    A message is an AG-UI message or the text of a user message. `runs` are successive runs of one agent object, each
    with the keys `messages` (added before it), `runId`, `tools`, `context`, `forwardedProps`, `resume`, `abortOn` (an
    event type at whose first sight the stop button is pressed) and `keep` (how many of the messages before it the user
    leaves). The same keys, and `state`, as keyword arguments belong to the first run. `timeout` is in seconds and
    covers all runs.

    `resumable` holds options of resumable-fetch.js, through which the agent then fetches, byte by byte.
    """
    install_clients()
    return RunningClient(
        {
            "url": url,
            "headers": dict(headers or {}),
            "threadId": thread_id,
            "messages": list(messages),
            "runs": list(runs),
            "clientVersion": client_version,
            "timeoutSeconds": timeout,
            **options,
        }
    )


def run_agent(url: str, **options: Any) -> dict[str, Any]:
    """Run HttpAgent on `url` to its end, with the arguments of `start_agent` and the answer of `RunningClient`."""
    return start_agent(url, **options).result()


def run_script(name: str, job: Mapping[str, Any]) -> Any:
    """Have a script of node/ do a job; return its answer. The script documents both."""
    install_clients()
    done = subprocess.run(
        ["node", name], cwd=NODE, input=json.dumps(job), capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode or not done.stdout:
        raise AssertionError(f"{name} exited with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)
