"""The tool-effect ledger of a run, and verdicts on calls whose outcome nobody knows."""

from asgiref.sync import async_to_sync
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from django_ag_ui.api.exceptions import EffectRefusal, UnknownEffect, UnresolvedEffects, VerdictsUnavailable
from django_ag_ui.api.ledger import calls_of, event_call_ids
from django_ag_ui.api.parsers import MEDIA_TYPE, read_body
from django_ag_ui.api.paths import decode_id, encode_id
from django_ag_ui.api.runs import find_run
from django_ag_ui.api.serializers import effect_row, posted_verdict
from django_ag_ui.api.views import AGUIView
from django_pydantic_agent.stores.base import StoredRun


class EffectsView(AGUIView):
    """The tool calls of one run of the owner."""

    http_method_names = ("get", "head")

    def get(self, request: Request, *, run: str, **kwargs: str) -> Response:
        stored = find_run(self, run)
        effects = calls_of(self.step_store, stored)
        event_ids = event_call_ids(self, stored, [effect.tool_call_id for effect in effects])
        rows = [effect_row(effect, event_ids=event_ids) for effect in effects]
        url = f"{self.mount}runs/{encode_id(stored.run_id)}/effects/"
        for row in rows:
            if row["unresolved"] and hasattr(self.step_store, "settle_tool_effect"):
                row["links"] = {"resolve": f"{url}{encode_id(row['tool_call_id'])}/resolve/"}
        return Response({"effects": rows})


class ResolveView(AGUIView):
    """Where a person says whether a call has acted."""

    http_method_names = ("post",)

    def post(self, request: Request, *, run: str, call: str, **kwargs: str) -> Response:
        stored = find_run(self, run)
        if not hasattr(self.step_store, "settle_tool_effect"):
            raise VerdictsUnavailable
        if request._request.content_type != MEDIA_TYPE:
            raise UnsupportedMediaType(request._request.content_type or "without a Content-Type")
        posted = posted_verdict(read_body(request._request, self.server.config.max_body_bytes))
        assert self.owner is not None  # noqa: S101
        settled = async_to_sync(self.step_store.settle_tool_effect)(
            run_id=stored.run_id,
            tool_call_id=decode_id(call),
            verdict=posted.verdict,
            by=self.owner.key,
            note=posted.note,
        )
        if settled is None:
            raise UnknownEffect
        effect, counts = settled
        row = effect_row(effect, event_ids=event_call_ids(self, stored, [effect.tool_call_id]))
        if counts:
            return Response(row)
        if effect.is_unresolved:
            raise EffectRefusal("still_running", "the call may still be going on", row)
        raise EffectRefusal("already_resolved", "the call has an outcome or a verdict already", row)


def refuse_unresolved(view: AGUIView, run: StoredRun) -> None:
    """Raise `UnresolvedEffects`, which names them, where nobody knows whether tools of `run` have acted."""
    unresolved = [
        {"tool_call_id": effect.tool_call_id, "tool_name": effect.tool_name}
        for effect in calls_of(view.step_store, run)
        if effect.is_unresolved
    ]
    if unresolved:
        raise UnresolvedEffects(unresolved)
