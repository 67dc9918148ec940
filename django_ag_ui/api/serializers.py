"""Runs and threads as answers show them, and what a request changes of a thread."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django_ag_ui.api.exceptions import Unprocessable
from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.conf import suggestion
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.stores.approvals import unexpired
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.conversations import StoredThread, ThreadRow
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS, StoredEffect, Verdict


def run_row(run: StoredRun, *, mount: str, with_steps: bool, title: str | None) -> dict[str, Any]:
    """Return a row of `runs/`.

    `mount` is the path of the mount, `with_steps` says that it has a step store, `title` is that of the run's thread.
    """
    segment = encode_id(run.run_id)
    url = f"{mount}runs/{segment}/"
    links = {"self": url, "events": f"{url}events/", "cancel": f"{url}cancel/"}
    if with_steps and run.unresolved_effects:
        links["effects"] = f"{url}effects/"
    if with_steps and run.continuable:
        links |= {"resume": f"{mount}resume/{segment}/", "fork": f"{mount}fork/{segment}/"}
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "parent_run_id": run.parent_run_id,
        "started_at": timestamp(run.started_at),
        "continuable": run.continuable,
        "preview": run.preview,
        "status": str(run.status),
        "finished_at": timestamp(run.finished_at),
        "title": title or None,
        "last_seq": run.last_seq,
        "unresolved_effects": run.unresolved_effects,
        "parent_unresolved_effects": run.parent_unresolved_effects,
        "pending_interrupts": run.pending_interrupts,
        "links": links,
    }


def run_detail(run: StoredRun, *, mount: str, with_steps: bool, title: str | None) -> dict[str, Any]:
    """Return the row with what only one run's own page shows."""
    return run_row(run, mount=mount, with_steps=with_steps, title=title) | {
        "applied_seq": run.last_seq,
        "durable_seq": run.last_seq,
        "attempt": run.attempt,
        "error": run.error,
        "interrupts": run.interrupts,
    }


def thread_row(thread: ThreadRow) -> dict[str, Any]:
    """Return a row of `threads/`; a thread without a title goes by its first user message."""
    return {
        "thread_id": thread.thread_id,
        "title": thread.title or thread.preview or "",
        "updated_at": timestamp(thread.updated_at),
        "preview": thread.preview,
        "revision": thread.revision,
        "turns": thread.turns,
        "archived": thread.archived,
        "active_run": thread.active_run,
    }


def thread_detail(thread: StoredThread, *, with_superseded: bool) -> dict[str, Any]:
    """Return a thread with its messages and, where they were asked for, those that later runs have replaced."""
    from django_pydantic_agent.log.preview import preview

    active = thread.active_run
    detail = {
        "thread_id": thread.thread_id,
        "title": thread.title or preview(thread.messages) or "",
        "revision": thread.revision,
        "messages": thread.messages,
        "state": {} if thread.state is None else thread.state,
        "active_run": active and {"run_id": active.run_id, "applied_seq": active.applied_seq},
        "interrupts": unexpired(thread.interrupts),
    }
    if with_superseded:
        detail["superseded"] = [
            {"replaced_by": replaced.replaced_by, "messages": replaced.messages} for replaced in thread.superseded
        ]
    return detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChanges:
    """What a PATCH changes; None stays as it is."""

    title: str | None = None
    archived: bool | None = None


def effect_row(effect: StoredEffect, *, event_ids: Mapping[str, str]) -> dict[str, Any]:
    """Return a tool call of the ledger. Who gave a verdict is not told, nor the text of an exception.

    `event_ids` are what `event_call_ids` returns.
    """
    return {
        "tool_call_id": effect.tool_call_id,
        "event_tool_call_id": event_ids.get(effect.tool_call_id),
        "tool_name": effect.tool_name,
        "run_id": effect.run_id,
        "status": effect.status,
        "reason": effect.reason or None,
        "unresolved": effect.is_unresolved,
        "started_at": timestamp(effect.started_at),
        "ended_at": timestamp(effect.ended_at),
        "summary": None if effect.status == "failed" else effect.effect_summary,
        "arguments": effect.arguments or None,
        "result": effect.result or None,
        "verdict": effect.verdict or None,
        "verdict_at": timestamp(effect.verdict_at),
        "note": effect.verdict_note or None,
    }


@dataclass(frozen=True, slots=True)
class PostedVerdict:
    verdict: Verdict
    note: str


def posted_verdict(body: bytes) -> PostedVerdict:
    """Return the verdict in a body. Raises `InvalidInput`, and `Unprocessable` where it is none that can be given."""
    data = _json_object(body)
    verdict, note = data.get("verdict"), data.get("note", "")
    if verdict not in Verdict.values:
        raise Unprocessable(f"verdict must be one of {', '.join(Verdict.values)}", code="invalid_verdict")
    if not isinstance(note, str) or len(note) > MAX_NOTE_CHARACTERS:
        raise Unprocessable(f"note must be a text of at most {MAX_NOTE_CHARACTERS} characters", code="invalid_note")
    return PostedVerdict(Verdict(verdict), note)


_CHANGEABLE = {"title": str, "archived": bool}


def thread_changes(body: bytes) -> ThreadChanges:
    """Return the changes that a JSON merge patch asks for. Raises `InvalidInput`."""
    changes = _json_object(body)
    for key, value in changes.items():
        if key not in _CHANGEABLE:
            raise InvalidInput(f"a thread has no {key[:100]!r} that can be changed{suggestion(key[:100], _CHANGEABLE)}")
        if not isinstance(value, _CHANGEABLE[key]):
            raise InvalidInput(f"{key} must be a {'string' if key == 'title' else 'boolean'}")
    if "title" in changes and not changes["title"].strip():
        raise InvalidInput("title must not be empty")
    return ThreadChanges(**changes)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the body is not valid JSON") from error
    if not isinstance(data, dict):
        raise InvalidInput("the body must be a JSON object")
    return data


def timestamp(moment: datetime | None) -> str | None:
    """Return a moment in UTC to the second, such as `2026-07-27T12:00:00+00:00`."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
