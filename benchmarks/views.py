"""Plain DRF views that do the least of what the mount's routes do, behind the same middleware."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import cache

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework.authentication import SessionAuthentication
from rest_framework.generics import ListAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.serializers import ModelSerializer
from rest_framework.views import APIView

from benchmarks.agents import Task
from benchmarks.models import Row
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner

FRAME = b'data: {"type":"RUN_STARTED","threadId":"thread","runId":"run"}\n\n'
PIECE_BYTES = 64 * 1024
LAST_FRAME = b'data: {"type":"RUN_FINISHED","threadId":"thread","runId":"run"}\n\n'


class EventStreamRenderer(BaseRenderer):
    """Lets clients ask for an event stream, which no renderer makes."""

    media_type = "text/event-stream"
    format = "event-stream"


class OneFrameView(APIView):
    """Write one row, stream one fixed frame, and a last one as long after it as the posted task waits."""

    authentication_classes = (SessionAuthentication,)
    permission_classes = (IsAuthenticated,)
    renderer_classes = (EventStreamRenderer,)

    def post(self, request: Request) -> StreamingHttpResponse:
        task = Task(**json.loads(request.data["messages"][-1]["content"]))
        Row.objects.create(text=request.data["runId"])
        return StreamingHttpResponse(_frames(task.wait), content_type="text/event-stream")


async def _frames(wait: float) -> AsyncIterator[bytes]:
    yield FRAME
    await asyncio.sleep(wait)
    yield LAST_FRAME


class FromMemoryView(APIView):
    """Stream the log of a run as it was read at the first request, in pieces of `PIECE_BYTES`."""

    authentication_classes = (SessionAuthentication,)
    permission_classes = (IsAuthenticated,)
    renderer_classes = (EventStreamRenderer,)

    def get(self, request: Request, run: str) -> StreamingHttpResponse:
        return StreamingHttpResponse(_pieces(_replay(run)), content_type="text/event-stream")


@cache
def _replay(run_id: str) -> bytes:
    run, store = Run.objects.get(run_id=run_id), DatabaseRunStore()
    frames: list[bytes] = []
    while len(frames) < run.last_seq:
        frames += store.read_frames(run.pk, after=len(frames), max_bytes=PIECE_BYTES)
    return b"".join(b"id: %s:%d\ndata: %s\n\n" % (run_id.encode(), seq, frame) for seq, frame in enumerate(frames, 1))


async def _pieces(replay: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(replay), PIECE_BYTES):
        yield replay[start : start + PIECE_BYTES]


class RunSerializer(ModelSerializer[Run]):
    class Meta:
        model = Run
        fields = (
            "run_id",
            "thread_id",
            "parent_run_id",
            "created_at",
            "finished_at",
            "is_continuable",
            "preview",
            "status",
            "last_seq",
            "interrupts",
        )


class PlainListView(ListAPIView[Run]):
    """The owner's 50 newest runs."""

    authentication_classes = (SessionAuthentication,)
    permission_classes = (IsAuthenticated,)
    pagination_class = None
    serializer_class = RunSerializer

    def get_queryset(self) -> QuerySet[Run]:
        return Run.objects.filter(owner=Owner.of_user(self.request.user).key).order_by("-pk")[:50]
