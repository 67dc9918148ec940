"""Runs and what belongs to them, for the tests of the admin."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import (
    Interrupt,
    Run,
    RunFrames,
    Snapshot,
    StepEvent,
    Thread,
    ThreadMessage,
    ToolEffect,
)
from django_pydantic_agent.contrib.store.querysets import digests
from django_pydantic_agent.contrib.store.run_log import stretch_rows
from django_pydantic_agent.contrib.store.run_store import new_row
from django_pydantic_agent.ownership import Owner

NOON = datetime(2026, 3, 8, 12, tzinfo=UTC)


def page_of(model: Any, name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def client_of(name: str, *permissions: str) -> Client:
    """Return a browser of a new member of staff with these permissions for the store app, all of them by default."""
    user = get_user_model().objects.create_user(name, is_staff=True)
    granted = Permission.objects.filter(content_type__app_label=Run._meta.app_label)
    user.user_permissions.set(granted.filter(codename__in=permissions) if permissions else granted)
    client = Client()
    client.force_login(user)
    return client


def frames_of(text: str, *, deltas: int = 1) -> list[bytes]:
    """Return the log of a run that thinks, answers and calls a tool, each with `text`."""
    message = {"id": "u1", "role": "user", "content": text}
    events = [
        {"type": "RUN_STARTED", "threadId": text, "runId": text, "timestamp": 0, "input": {"messages": [message]}},
        {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": text},
        {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
        *[{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": text}] * deltas,
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "TOOL_CALL_START", "toolCallId": f"{text} started", "toolCallName": text},
        {"type": "TOOL_CALL_ARGS", "toolCallId": f"{text} started", "delta": text},
        {"type": "TOOL_CALL_END", "toolCallId": f"{text} started"},
        {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": f"{text} started", "content": text},
        {"type": "CUSTOM", "name": text, "value": text},
        {"type": "RUN_ERROR", "code": text, "message": text},
    ]
    return [json.dumps(event, separators=(",", ":")).encode() for event in events]


def write_log(run: Run, frames: list[bytes]) -> None:
    """Replace the log of a run."""
    run.frames.all().delete()
    columns = ("run_id", "first_seq", "last_seq", "piece", "is_compressed", "size", "data")
    rows = stretch_rows(run.pk, 1, frames, compress=True)
    RunFrames.objects.bulk_create(RunFrames(**dict(zip(columns, row, strict=True))) for row in rows)
    Run.objects.filter(pk=run.pk).update(first_seq=1, last_seq=len(frames))


def make_delegate(above: Run, name: str, **effect: Any) -> Run:
    """Write a delegate that ran inside another run, with a call that has only started."""
    delegate = new_row(
        Owner(above.owner), above.scope, run_id=name, parent_run_id=above.run_id, is_ledger_only=True, created_at=NOON
    )
    delegate.save()
    make_effect(delegate, name, **effect)
    return delegate


def make_effect(run: Run, call: str, **columns: Any) -> ToolEffect:
    about = {"tool_name": call, "status": "started", "started_at": NOON, **columns}
    return ToolEffect.objects.create(run=run, tool_call_id=call, call_digest=digest(call), **about)


def make_rows(number: int, text: str = "text") -> list[Run]:
    """Write runs with a thread, a log and all that the ledger may hold of them, all texts being `text`."""
    start = Run.objects.count()
    owner = Owner(f"user:{text}")
    runs = []
    for index in range(start, start + number):
        thread_id = f"{text} {index}"
        thread = Thread.objects.create(
            owner=owner.key, scope=text, thread_id=thread_id, owner_digest=digest(owner.key),
            partition_digest=digest(owner.key, text), **digests(owner, text, thread=thread_id), title=text,
            preview=text, state=b"{}", created_at=NOON, updated_at=NOON,
        )  # fmt: skip
        run = new_row(
            owner, text, run_id=f"{text} {index}", thread_id=thread_id, parent_run_id=text, server=text,
            status="finished", input=b"payload", preview=text, agent_name=text, metadata={text: text},
            error={"code": text}, usage={"input_tokens": 11, "output_tokens": 22}, in_thread=thread, turn=1,
            created_at=NOON, finished_at=NOON + timedelta(seconds=90),
        )  # fmt: skip
        run.save()
        runs.append(run)
        write_log(run, frames_of(text))
        ThreadMessage.objects.create(
            thread=thread, turn=1, run=run.pk, place=0, message_id=text, role="user", through_seq=1,
            body=json.dumps({"id": "u1", "role": "user", "content": text}).encode(),
        )  # fmt: skip
        StepEvent.objects.create(
            run=run, kind="run_started", step_index=0, timestamp=NOON, tool_name=text, tool_call_id=text, error=text,
            idempotency_key=text, metadata={text: text},
        )  # fmt: skip
        Snapshot.objects.create(
            run=run, state="complete", step_index=0, timestamp=NOON, history_writer=1, history_number=1,
            history_size=12_345, message_count=678, agent_name=text, idempotency_key=text,
        )  # fmt: skip
        Interrupt.objects.create(
            run=run, interrupt_id=text, interrupt_digest=digest(text), tool_call_id=text, tool_name=text,
            arguments=text, message=text, response_schema={text: text}, answer=text, decider=text, decision="denied",
        )  # fmt: skip
        for status in ("started", "completed"):
            make_effect(
                run, f"{text} {status}", tool_name=text, status=status, effect_summary=text, idempotency_key=text,
                arguments=text, result=text, verdict_note=text,
            )  # fmt: skip
    return runs
