"""What is kept of a plan with its run, and the plan made of it again in another process."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import router
from pydantic_core import from_json

from django_pydantic_agent.exceptions import ThreadNotFound
from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.policy.failure import UNKNOWN_OWNER, UNKNOWN_SERVER, UNKNOWN_SOURCE, UNKNOWN_THREAD, Failure
from django_pydantic_agent.runs.plan import Mount, RunPlan, ThreadPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunStore
from django_pydantic_agent.stores.conversations import TurnStart
from django_pydantic_agent.stores.leases import Orphan


class CannotRebuild(Exception):
    """The run cannot be executed from what is kept of it; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def kept_request(plan: RunPlan) -> dict[str, Any]:
    """Return what another process needs besides the run's row and input, as JSON."""
    request, thread = plan.request, plan.thread
    return {
        "method": request.method,
        "path": request.path,
        "headers": dict(request.headers),
        "context": wire_form(request.request_context),
        "thread": None
        if thread is None
        else {
            "revision": thread.start.revision,
            "goes_on": thread.goes_on,
            "regenerates": thread.regenerates,
            "catches_up": thread.catches_up,
            "knows_newest": thread.knows_newest,
        },
    }


def rebuilt_plan(orphan: Orphan, mount: Mount, store: RunStore) -> RunPlan:
    """Return the plan of a run that was taken over; its request's body is the accepted input.

    Raises `CannotRebuild` where what it refers to is gone.
    """
    from django_pydantic_agent.log.accept import parse_input

    run, kept = orphan.run, orphan.request
    if kept is None or run.owner is None:
        raise CannotRebuild(UNKNOWN_SERVER)
    source = None
    if run.parent_run_id is not None:
        source = None if orphan.parent is None else store.by_key(orphan.parent, owner=run.owner)
        if source is None:
            raise CannotRebuild(UNKNOWN_SOURCE)
    body = store.input(run.key)
    return RunPlan(
        config=mount.config,
        request=RunRequest(
            user=_user(run.owner),
            owner=run.owner,
            run_id=run.run_id,
            thread_id=run.thread_id,
            method=kept["method"],
            path=kept["path"],
            headers=kept["headers"],
            body=body,
            request_context=kept["context"],
        ),
        run_input=parse_input(body),
        store=store,
        digest=run.digest,
        scope=run.scope,
        source=source,
        thread=None if kept["thread"] is None else _thread_plan(orphan, mount, store, kept["thread"]),
        orphan=orphan if run.status is RunStatus.RUNNING else None,
    )


def accepted_messages(run: int, store: RunStore) -> list[dict[str, Any]]:
    """Return the messages that a run was accepted with, as its first frame repeats them."""
    (first,) = store.read_frames(run, after=0, max_bytes=1)
    messages: list[dict[str, Any]] = from_json(first).get("input", {}).get("messages", [])
    return messages


def _thread_plan(orphan: Orphan, mount: Mount, store: RunStore, kept: dict[str, Any]) -> ThreadPlan:
    run = orphan.run
    if mount.conversation is None or run.owner is None:
        raise CannotRebuild(UNKNOWN_SERVER)
    try:
        mount.conversation.ground(run=run.key)
    except ThreadNotFound:
        raise CannotRebuild(UNKNOWN_THREAD) from None
    decided = dict(kept)
    start = TurnStart(
        owner=run.owner,
        thread_id=run.thread_id,
        revision=decided.pop("revision"),
        messages=accepted_messages(run.key, store),
    )
    return ThreadPlan(conversation=mount.conversation, start=start, **decided)


def _user(owner: Owner) -> Any:
    """Return the user that an owner stands for."""
    if owner.is_anonymous:
        return AnonymousUser()
    model = get_user_model()
    try:
        # A replica that lags, and a manager that hides users, would refuse who may run.
        user = model._base_manager.using(router.db_for_write(model)).get(pk=owner.key.partition(":")[2])
    except (ObjectDoesNotExist, ValidationError, ValueError):
        raise CannotRebuild(UNKNOWN_OWNER) from None
    if not user.is_active:
        raise CannotRebuild(UNKNOWN_OWNER)
    return user
