"""Whether the viewer of an open stream would still be let in."""

import copy
import logging
from typing import TYPE_CHECKING, Any

from django.contrib.auth import SESSION_KEY, get_user
from django.contrib.auth.models import AnonymousUser
from django.db import InterfaceError, OperationalError, router
from django.http import HttpRequest
from django.utils.functional import LazyObject, SimpleLazyObject, empty
from rest_framework.exceptions import APIException

from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.ownership import BUCKET_SESSION_KEY

if TYPE_CHECKING:
    from django_ag_ui.api.views import AGUIView

logger = logging.getLogger("django_ag_ui")


class Access:
    """The identity that opened a stream, to be established anew while the stream is open."""

    def __init__(self, view: "AGUIView") -> None:
        self._view_class = type(view)
        self._server = view.server
        self._args = view.args
        self._kwargs = view.kwargs
        self._request: HttpRequest = view.request._request
        self._outer_user = view.outer_user
        self._identity = _identity(self._request, view.request.user)

    def holds(self) -> bool:
        """Authenticate and authorise again, from the session and the database as they are now.

        True also where the database cannot be asked: who may look is then not known, and the stream reveals only what
        was committed before. Runs in any thread and leaves no connection open there.
        """
        try:
            request = self._reloaded()
            view = self._view_class(server=self._server)
            view.setup(request, *self._args, **self._kwargs)
            view.admit(request)
            return _identity(request, view.request.user) == self._identity
        except (OperationalError, InterfaceError):
            logger.warning("Access to an open stream could not be checked.", exc_info=True)
            return True
        except APIException:
            return False
        except Exception:
            logger.exception("Access to an open stream could not be checked; the stream ends.")
            return False
        finally:
            release_connections()

    def _reloaded(self) -> HttpRequest:
        request = copy.copy(self._request)
        request.resolver_match = self._request.resolver_match
        for cached in ("_cached_user", "_acached_user"):
            request.__dict__.pop(cached, None)
        session = getattr(self._request, "session", None)
        if session is not None:
            request.session = type(session)(session.session_key)
        if session is not None and SESSION_KEY in session:
            request.user = SimpleLazyObject(lambda: get_user(request))  # type: ignore[assignment]
        else:
            request.user = _still_there(self._outer_user)
        return request


def _still_there(user: Any) -> Any:
    """Return the user that a middleware other than the session's had put there, as the database has it now."""
    if isinstance(user, LazyObject):
        user = AnonymousUser() if user._wrapped is empty else user._wrapped
    if user is None or not user.is_authenticated or user.pk is None:
        return user
    model = type(user)
    current = model._base_manager.using(router.db_for_write(model)).filter(pk=user.pk).first()
    return current if current is not None and getattr(current, "is_active", True) else AnonymousUser()


def _identity(request: HttpRequest, user: Any) -> tuple[Any, Any]:
    if user is not None and user.is_authenticated:
        return user.pk, None
    session = getattr(request, "session", None)
    return None, session.get(BUCKET_SESSION_KEY) if session is not None else None
