"""Starting runs, and continuing them."""

import json
import random
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from django.http import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from django_ag_ui.api.answers import Answered, AnswerPost
from django_ag_ui.api.authentication import ask, loaded
from django_ag_ui.api.effects import refuse_unresolved
from django_ag_ui.api.exceptions import (
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidIdempotencyKey,
    RunGone,
    RunIdReused,
    ThreadContended,
    UnknownRun,
)
from django_ag_ui.api.ledger import has_open_end, with_ledger
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.runs import find_run
from django_ag_ui.api.sse import FixedStream, respond
from django_ag_ui.api.streams import PostView
from django_ag_ui.api.throttling import READ_SCOPE, RUN_SCOPE
from django_ag_ui.api.turns import PlannedTurn, ThreadPost, waiting_run
from django_pydantic_agent.exceptions import (
    IdempotencyKeyTaken,
    InterruptDecided,
    InvalidInput,
    RunIdTaken,
    ThreadChanged,
)
from django_pydantic_agent.runs.plan import RunPlan, ThreadPlan
from django_pydantic_agent.runs.request import KEPT_HEADERS, RunRequest
from django_pydantic_agent.stores.base import Idempotency, StoredRun
from django_pydantic_agent.threads.reconcile import Attach

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from django_pydantic_agent.threads.posture import ThreadOutline

# How often a turn is planned anew because the thread has changed, and the longest pause before, in seconds.
ATTEMPTS = 60
LONGEST_PAUSE = 0.1

MAX_PROTOCOL_CHARACTERS = 32
"""How much is kept of the protocol version that a client declares."""

MAX_KEY_CHARACTERS = 255
"""The longest idempotency key."""


class StartView(PostView):
    """A route whose post starts a run, unless it is one that has started a run before."""

    def start(self, accepted: "RunAgentInput", *, source: StoredRun | None = None) -> HttpResponseBase:
        """Return the stream of the run that this post starts, or has started; raises `RunIdTaken` for other posts."""
        comes_back = self.cursor is not None or self.idempotency is not None
        if comes_back and (earlier := self.find_earlier()) is not None:
            return self.attach(earlier)
        gives_up = self.run_store.undecided(
            owner=self.owner, scope=self.scope, server=self.server.namespace, thread_id=accepted.thread_id
        )
        return self._begin(accepted, source=source, gives_up=gives_up)

    def start_in_thread(
        self, plan: "Callable[[ThreadOutline | None], PlannedTurn | Attach]", *, source: StoredRun | None = None
    ) -> HttpResponseBase:
        """Return the stream of what `plan` makes of the thread, which is asked again where the thread has changed.

        Raises what `start` raises, and `ThreadContended` where the thread keeps changing.
        """
        from django_pydantic_agent.runs.engine import get_engine

        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(attempt / 100, LONGEST_PAUSE)))  # noqa: S311
            thread = self.thread_post.view()
            # Behind the thread: if an earlier try of this post has changed it, its run is there too.
            if (earlier := self.find_earlier()) is not None:
                return self.attach(earlier)
            planned = plan(thread)
            if isinstance(planned, Attach):
                return self.attach(self._shown(planned.run))
            try:
                response = self._begin(
                    planned.run_input,
                    source=source,
                    thread=planned.thread,
                    answered=planned.answered,
                    gives_up=[] if (waiting := waiting_run(thread)) is None else [waiting],
                    stops=planned.stops,
                )
            except (ThreadChanged, InterruptDecided):
                continue
            for key in planned.stops:
                # Where it executes elsewhere, that process reads it from the run.
                get_engine().cancel(key, store=self.run_store)
            return response
        raise ThreadContended

    def answer(self, *, source: StoredRun | None = None) -> HttpResponseBase:
        """Return the stream of the run that this post starts, or has started, by answers to what a run has asked.

        With a `source`, that run. Raises the refusal that goes to the client, and what `start` raises.
        """
        from django_pydantic_agent.log.accept import accept_answer

        answer_post = AnswerPost(
            posted=self.posted()[1],
            owner=self.owner,
            scope=self.scope,
            store=self.run_store,
            config=self.server.agent_config,
            source=source,
        )

        def plan(thread: "ThreadOutline | None") -> PlannedTurn | Attach:
            answered = answer_post.read()
            return answered if isinstance(answered, Attach) else self.thread_post.plan(thread, answered=answered)

        if self.conversation is not None:
            return self.start_in_thread(plan)
        for _ in range(ATTEMPTS):
            if (earlier := self.find_earlier()) is not None:
                return self.attach(earlier)
            answered = answer_post.read()
            if isinstance(answered, Attach):
                return self.attach(self._shown(answered.run))
            accepted = accept_answer(self.posted()[1], calls=answered.run.pending_calls)
            try:
                return self._begin(accepted, answered=answered)
            except InterruptDecided:
                continue
        raise ThreadContended

    def find_earlier(self) -> StoredRun | None:
        """Return the run that this post has started before.

        Raises `RunIdTaken` or `IdempotencyKeyReused` where another post has started one under its id or key.
        """
        store, owner, scope, key = self.run_store, self.owner, self.scope, self.idempotency
        if key is not None:
            run = store.by_idempotency_key(key.key, owner=owner, scope=scope, server=self.server.namespace)
            if run is not None and run.content_digest != key.content:
                raise IdempotencyKeyReused
            if run is not None:
                return run
        run = store.get(owner=owner, scope=scope, run_id=self.posted()[1].run_id)
        if run is not None and run.digest != self._digest(self.posted()[0]):
            raise RunIdTaken(run)
        return run

    def get_throttle_scope(self) -> str:
        try:
            return RUN_SCOPE if self.find_earlier() is None else READ_SCOPE
        except (APIException, InvalidInput, RunIdTaken):
            return RUN_SCOPE

    @cached_property
    def idempotency(self) -> Idempotency | None:
        """The key under which this post starts one run, None without; raises `InvalidIdempotencyKey`."""
        from django_pydantic_agent.log.frames import encode

        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return None
        if not 0 < len(key) <= MAX_KEY_CHARACTERS or not (key.isascii() and key.isprintable()):
            raise InvalidIdempotencyKey
        if self.owner is None:
            return None
        content = encode(self.posted()[1].model_copy(update={"run_id": ""}))
        return Idempotency(key=key, content=self._digest(content))

    @cached_property
    def thread_post(self) -> ThreadPost:
        """This post as one to a thread; only where there is a conversation store."""
        assert self.conversation is not None  # noqa: S101
        assert self.owner is not None  # noqa: S101
        return ThreadPost(
            conversation=self.conversation,
            owner=self.owner,
            posted=self.posted()[1],
            policy=self.server.thread_policy,
            if_match=self.request.headers.get("If-Match"),
        )

    @cached_property
    def run_request(self) -> RunRequest:
        """What the run keeps of this request."""
        request = self.request._request
        body, run_input = self.posted()
        context = self.server.context_for_request and ask(self.server.context_for_request, request)
        return RunRequest(
            user=loaded(self.request.user),
            owner=self.owner,
            run_id=run_input.run_id,
            thread_id=run_input.thread_id,
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items() if name.lower() in KEPT_HEADERS},
            body=body,
            request_context=json.loads(json.dumps(context)),
        )

    @property
    def cancel_after(self) -> float | None:
        """For how many seconds the run goes on while nobody watches it, None where it always does."""
        return self.server.disconnect_policy.cancel_after(self.posted()[1].forwarded_props)

    def _begin(
        self,
        accepted: "RunAgentInput",
        *,
        source: StoredRun | None = None,
        thread: ThreadPlan | None = None,
        answered: Answered | None = None,
        gives_up: Sequence[int] = (),
        stops: Sequence[int] = (),
    ) -> HttpResponseBase:
        """Return the stream of a new run, or of the one that the same post has started at the same moment."""
        from django_pydantic_agent.runs.engine import get_engine

        self._check_new()
        plan = RunPlan(
            cancel_after=self.cancel_after,
            config=self.server.agent_config,
            request=self.run_request,
            run_input=accepted,
            store=self.run_store,
            digest=self._digest(self.posted()[0]),
            scope=self.scope,
            source=source if answered is None else answered.run,
            protocol=(self.protocol or "")[:MAX_PROTOCOL_CHARACTERS],
            thread=thread,
            idempotency=self.idempotency,
            answers=() if answered is None else answered.answers,
            gives_up=gives_up,
            stops=stops,
        )
        try:
            return self.stream(get_engine().start(plan))
        except (RunIdTaken, IdempotencyKeyTaken) as error:
            if (earlier := self.find_earlier()) is not None:
                return self.attach(earlier)
            if isinstance(error, RunIdTaken) and error.run is None:
                raise
            raise RunGone from None

    def _digest(self, content: bytes) -> str:
        """Return what tells a post from others: the kind of route, the source run, and what was posted."""
        source = decode_id(self.kwargs["run"]).encode() if "run" in self.kwargs else b""
        digest = sha256(b"%d:%s:" % (len(source), source))
        digest.update(content)
        return digest.hexdigest()

    def _check_new(self) -> None:
        """Raise what keeps this post from starting a run."""
        if self.cursor is not None and not self.cursor.is_before(self.posted()[1].run_id):
            raise InvalidCursor("the cursor is not one of a run that this post has started")
        if tools := self.posted()[1].tools:
            from django_pydantic_agent.agents.build import check_frontend_tools

            config = self.server.agent_config
            check_frontend_tools([tool.name for tool in tools], config.source, toolsets=config.toolsets)

    def _shown(self, key: int) -> StoredRun:
        run = self.run_store.by_key(key, owner=self.owner)
        if run is None:
            raise RunGone
        return run


class AgentView(StartView):
    """Start a run from a whole transcript, or from what that adds to a thread."""

    def post(self, request: Request, **kwargs: str) -> HttpResponseBase:
        from django_pydantic_agent.log.accept import accept_transcript

        try:
            if self.posted()[1].resume:
                return self.answer()
            if self.conversation is None:
                return self.start(accept_transcript(self.posted()[1]))
            return self.start_in_thread(self.thread_post.plan)
        except RunIdTaken:
            raise RunIdReused from None


class ContinueView(StartView):
    """Start a run from the last complete snapshot of another; `resume/` and `fork/` do the same."""

    def post(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        answers = bool(self.posted()[1].resume)
        source = find_run(self, run) if answers else self._source(run)
        try:
            if answers:
                return self.answer(source=source)
            if self.server.refuse_unresolved and self.find_earlier() is None:
                refuse_unresolved(self, source)
            return self._continue(source)
        except RunIdTaken:
            return self.reused()

    def reused(self) -> HttpResponseBase:
        """Return a stream of its own which tells that the run id was used before."""
        return respond(self.request._request, FixedStream(self._refusal()))

    def _continue(self, source: StoredRun) -> HttpResponseBase:
        from django_pydantic_agent.log.accept import accept_continuation

        def open_end() -> bool:
            return has_open_end(self.step_store, source)

        if self.conversation is None:
            known_ids = self.run_store.lineage_message_ids(source.key)
            return self.start(
                accept_continuation(self.posted()[1], known_ids=known_ids, open_end=open_end), source=source
            )

        def plan(thread: "ThreadOutline | None") -> PlannedTurn:
            return self.thread_post.continuation(thread, source, store=self.run_store, open_end=open_end)

        return self.start_in_thread(plan, source=source)

    def _source(self, segment: str) -> StoredRun:
        (source,) = with_ledger(self.step_store, [find_run(self, segment)])
        if not source.continuable:
            raise UnknownRun
        return source

    def _refusal(self) -> list[bytes]:
        """Return the events of that stream."""
        from ag_ui.core import PROTOCOL_VERSION, RunErrorEvent, RunStartedEvent

        from django_pydantic_agent.log.frames import encode

        run_input = self.posted()[1]
        started = RunStartedEvent(
            thread_id=run_input.thread_id, run_id=run_input.run_id, protocol_version=PROTOCOL_VERSION
        )
        message = f"Run id {run_input.run_id!r} was used before; a run id is single-shot, so send a fresh one."
        return [encode(started), encode(RunErrorEvent(message=message, code="run_id_reused"))]
