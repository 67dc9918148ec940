"""Every error before the first byte of a stream: `{"error": <sentence>, "code": <slug>, ...}` with its HTTP status.

The sentences are in English, but for those of REST framework itself; pages translate them where they show them.
"""

import logging
import math
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.utils.log import log_response
from django.utils.translation import gettext_noop as _
from rest_framework import exceptions, status
from rest_framework.response import Response

from django_pydantic_agent.exceptions import (
    InvalidInput,
    NotContinuable,
    NothingToRun,
    RunNotFound,
    ShuttingDown,
    StoreUnavailable,
    ThreadChanged,
    ThreadNotFound,
    WriteTooLarge,
)

logger = logging.getLogger("django_ag_ui")


class BodyTooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = _("the body is longer than the project allows")
    default_code = "body_too_large"


class TooManyMessages(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_many_messages"


class RunIdReused(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT
    default_detail = _("this run id was used for another post")
    default_code = "run_id_reused"


class IdempotencyKeyReused(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT
    default_detail = _("this idempotency key was used for another post")
    default_code = "idempotency_key_reused"


class InvalidIdempotencyKey(exceptions.APIException):
    status_code = status.HTTP_400_BAD_REQUEST
    default_detail = _("an idempotency key is 1 to 255 printable ASCII characters")
    default_code = "invalid_idempotency_key"


class InvalidCursor(exceptions.APIException):
    status_code = status.HTTP_400_BAD_REQUEST
    default_detail = _("the cursor is not one that this server gave")
    default_code = "invalid_cursor"


class CursorExpired(exceptions.APIException):
    """What comes behind the cursor is not kept any more; `snapshot_url` is where the run can be seen as it is now."""

    status_code = status.HTTP_410_GONE
    default_detail = _("the events behind the cursor are not kept any more")
    default_code = "cursor_expired"

    def __init__(self, snapshot_url: str) -> None:
        super().__init__()
        self.more = {"snapshot_url": snapshot_url}


class InvalidQuery(exceptions.APIException):
    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "invalid_query"


class CSRFFailed(exceptions.PermissionDenied):
    default_code = "csrf_failed"


class UnknownRun(exceptions.NotFound):
    """One answer for ids that do not exist, belong to somebody else, or cannot be continued."""

    default_detail = _("there is no such run")


class UnknownThread(exceptions.NotFound):
    """One answer for ids that do not exist and for those that belong to somebody else."""

    default_detail = _("there is no such thread")


class ThreadRefusal(exceptions.APIException):
    """A post that its thread does not take; `missing` are the ids that the post lacks."""

    def __init__(self, status_code: int, code: str, message: str, missing: Sequence[str] = ()) -> None:
        super().__init__(message, code=code)
        self.status_code = status_code
        if missing:
            self.more = {"missing": list(missing)}


class ThreadBusy(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT
    default_detail = _("a run of this thread is going on")
    default_code = "thread_busy"


class UnknownEffect(exceptions.NotFound):
    default_detail = _("the run has made no such call")


class EffectRefusal(exceptions.APIException):
    """A verdict that an effect does not take; `effect` is what is known of it."""

    status_code = status.HTTP_409_CONFLICT

    def __init__(self, code: str, message: str, effect: dict[str, Any]) -> None:
        super().__init__(message, code=code)
        self.more = {"effect": effect}


class VerdictsUnavailable(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT
    default_detail = _("the step store of this server keeps no verdicts")
    default_code = "verdicts_unavailable"


class UnresolvedEffects(exceptions.APIException):
    """A run is not continued before it is known what it has done; `effects` are the calls of unknown outcome."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "unresolved_effects"

    def __init__(self, effects: Sequence[dict[str, Any]]) -> None:
        super().__init__(_("nobody knows yet whether tools of that run have acted"))
        self.more = {"effects": list(effects)}


class OtherRevision(exceptions.APIException):
    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_detail = _("the thread is not at the revision that If-Match names")
    default_code = "precondition_failed"


class RunGone(exceptions.APIException):
    status_code = status.HTTP_410_GONE
    default_detail = _("the run that answers this post is not kept any more")
    default_code = "run_gone"


class ThreadContended(exceptions.APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("the thread changes too fast to add to it")
    default_code = "thread_contended"


class WouldOverwrite(exceptions.APIException):
    """The conversation of a thread would get a run of another one. Its answer is published: these keys, no others."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "would_overwrite"

    def __init__(self, *, run_id: str, thread_id: str) -> None:
        message = _("resuming that run would overwrite this thread")
        super().__init__(message)
        self.body = {"error": message, "run_id": run_id, "thread_id": thread_id}


class Unprocessable(exceptions.APIException):
    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY


class Unavailable(exceptions.APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("the store cannot be reached")
    default_code = "storage_unavailable"


class Closing(exceptions.APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("this server process is about to end; try again")
    default_code = "shutting_down"


def error_response(exc: Exception, context: dict[str, Any]) -> Response:
    """Answer an exception that reached a view. What nobody foresaw is logged, signalled and told without its text."""
    known = _as_api_exception(exc)
    if known is None:
        return _internal_error(exc, context)
    if isinstance(known, Unavailable):
        logger.error("The store cannot be reached.", exc_info=exc)
    headers = {}
    if header := getattr(known, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if known.status_code in (status.HTTP_429_TOO_MANY_REQUESTS, status.HTTP_503_SERVICE_UNAVAILABLE):
        headers["Retry-After"] = str(math.ceil(getattr(known, "wait", None) or 1))
    detail = _first(known.detail)
    body = {"error": str(detail), "code": detail.code, **getattr(known, "more", {})}
    return Response(getattr(known, "body", body), status=known.status_code, headers=headers)


def _as_api_exception(exc: Exception) -> exceptions.APIException | None:
    match exc:
        case exceptions.APIException():
            return exc
        case InvalidInput():
            return exceptions.ParseError(str(exc), code="invalid_input")
        case NothingToRun():
            return Unprocessable(_("the input holds nothing that the model could answer"), code="nothing_to_run")
        case NotContinuable() | RunNotFound():
            return UnknownRun()
        case ThreadNotFound():
            return UnknownThread()
        case ThreadChanged():
            return OtherRevision()
        case Http404():
            return exceptions.NotFound(_("there is nothing here"))
        case PermissionDenied():
            return exceptions.PermissionDenied()
        case RequestDataTooBig():
            return BodyTooLarge()
        case WriteTooLarge():
            return BodyTooLarge(_("the body is longer than the database takes"))
        case SuspiciousOperation() | BadRequest() | MultiPartParserError() | UnreadablePostError():
            return exceptions.ParseError(_("the request cannot be read"), code="bad_request")
        case ShuttingDown():
            return Closing()
        case StoreUnavailable() | OperationalError() | InterfaceError():
            return Unavailable()
    return None


def _internal_error(exc: Exception, context: dict[str, Any]) -> Response:
    """Do what Django does with an exception that a view raised, and answer in JSON."""
    response = Response({"error": _("the server failed"), "code": "internal_error"}, status=500)
    request = context["request"]._request
    got_request_exception.send(sender=None, request=request)
    log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request, exception=exc)
    return response


def _first(detail: Any) -> Any:
    """Return the first message of the nested lists and dictionaries that serializers raise."""
    while isinstance(detail, list | dict):
        detail = next(iter(detail.values() if isinstance(detail, dict) else detail))
    return detail
