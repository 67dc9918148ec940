"""Coming back to runs and threads that go on or have ended. Nothing here starts, slows or writes anything."""

from django.http import HttpResponseBase
from rest_framework.request import Request

from django_ag_ui.api.cursors import Cursor
from django_ag_ui.api.exceptions import CursorExpired, InvalidCursor, InvalidQuery, UnknownThread
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.runs import find_run
from django_ag_ui.api.streams import PostView, StreamView
from django_pydantic_agent.exceptions import ThreadNotFound
from django_pydantic_agent.runs.follow_thread import ThreadFollower
from django_pydantic_agent.stores.base import StoredRun

NOTHING_SEEN = Cursor(None, 0)


class RunEventsView(StreamView):
    """The log of one run and then what comes; `?from=snapshot` begins with a preamble in place of the log."""

    http_method_names = ("get",)

    def get(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        stored = find_run(self, run)
        begin = request.query_params.get("from")
        if begin not in (None, "snapshot"):
            raise InvalidQuery("from must be snapshot")
        if begin and self.cursor is None:
            return self.from_preamble(stored)
        return self.behind(self.cursor or NOTHING_SEEN, stored)


class ThreadEventsView(StreamView):
    """The run that a thread is at, and then each that is accepted behind it."""

    http_method_names = ("get",)

    def get(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseBase:
        from django_pydantic_agent.runs.engine import get_engine

        conversation, owner = self.place
        thread_id, cursor, store = decode_id(thread), self.cursor, self.run_store
        run = current_run(self, thread_id) if cursor is None else self._run_of(cursor, thread_id)
        preamble = self.preamble(run) if run is not None and cursor is None else None

        def follow(idle_seconds: float) -> ThreadFollower:
            return get_engine().follow_thread(
                (owner, thread_id),
                conversation=conversation,
                store=store,
                run=run,
                after=cursor.seq if cursor else 0,
                preamble=preamble,
                idle_seconds=idle_seconds,
            )

        return self.respond(follow, run)

    def _run_of(self, cursor: Cursor, thread_id: str) -> StoredRun:
        """Return the run of the thread in which a viewer has stopped; raises what is wrong with its cursor."""
        conversation, owner = self.place
        if conversation.view(owner=owner, thread_id=thread_id) is None:
            raise UnknownThread
        run = None
        if cursor.run_id is not None:
            run = self.run_store.get(owner=owner, scope=self.scope, run_id=cursor.run_id)
        if run is None or not conversation.holds(owner=owner, thread_id=thread_id, run=run.key):
            raise InvalidCursor("the cursor is not that of a run of this thread")
        self.check_cursor(cursor, run)
        return run


class ConnectView(PostView):
    """The run that a thread is at, to its end; for a thread that the owner does not have, an empty stream."""

    def post(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseBase:
        self.posted()
        run = self._find_run(decode_id(thread))
        if run is None:
            return self.empty()
        try:
            return self.attach(run)
        except CursorExpired:
            return self.from_preamble(run)

    def _find_run(self, thread_id: str) -> StoredRun | None:
        try:
            return current_run(self, thread_id)
        except (UnknownThread, ThreadNotFound):
            return None


def current_run(view: StreamView, thread_id: str) -> StoredRun | None:
    """Return the run that a thread is at, None where all are gone; raises `UnknownThread` or `ThreadNotFound`."""
    conversation, owner = view.place
    key = conversation.current_run(owner=owner, thread_id=thread_id)
    return None if key is None else view.run_store.by_key(key, owner=owner)
