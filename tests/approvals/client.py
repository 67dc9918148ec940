"""A client that is asked and answers."""

from typing import Any

from tests.api.posting import error
from tests.api.tabs import Tab
from tests.approvals.agent import DONE


def approve(interrupt: Any, **payload: Any) -> dict[str, Any]:
    return decide(interrupt, {"approved": True, **payload})


def deny(interrupt: Any, **payload: Any) -> dict[str, Any]:
    return decide(interrupt, {"approved": False, **payload})


def decide(interrupt: Any, payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancel(interrupt: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


class Asker(Tab):
    """A tab whose runs ask for approval."""

    def ask(self, text: str, **fields: Any) -> list[dict[str, Any]]:
        """Say something and return what the run then asks."""
        found = self.say(text, **fields)
        interrupts: list[dict[str, Any]] = found[-1]["outcome"]["interrupts"]
        return interrupts

    def answer(self, *entries: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        """Answer and take in what comes of it."""
        return self.take(self.send(resume=list(entries), **fields))

    def refused(self, *entries: Any, **fields: Any) -> tuple[int, str, list[str]]:
        """Answer, see that it is refused and that no tool has run; return status, code and what is missing."""
        before = list(DONE)
        response = self.send(resume=list(entries), **fields)
        assert before == DONE
        body = response.json()
        missing = body.pop("missing", [])
        return response.status_code, body["code"], missing

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.mount}runs/{run_id}/").json()
        return found

    def url_of(self, verb: str, run_id: str) -> str:
        return f"{self.mount}{verb}/{run_id}/"


__all__ = ["Asker", "approve", "cancel", "decide", "deny", "error"]
