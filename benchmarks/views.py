"""Plain DRF views that do the least of what the mount's routes do, behind the same middleware."""

import asyncio
import json
from collections.abc import AsyncIterator

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
from django_pydantic_agent.ownership import Owner

FRAME = b'data: {"type":"RUN_STARTED","threadId":"thread","runId":"run"}\n\n'
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
