"""Who a request acts for, and whether its cookies alone say so."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.functional import LazyObject, empty
from rest_framework.authentication import (
    BaseAuthentication,
    CSRFCheck,
    RemoteUserAuthentication,
    SessionAuthentication,
)
from rest_framework.request import Request

from django_ag_ui.api.exceptions import CSRFFailed


class HookAuthentication(BaseAuthentication):
    """Authenticate as the active user that a mount's `get_user` returns for the Django request."""

    def __init__(self, get_user: Callable[[HttpRequest], Any]) -> None:
        self.get_user = get_user

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        user = loaded(ask(self.get_user, request._request))
        if user is None or not user.is_authenticated or not getattr(user, "is_active", True):
            return None
        return user, None


def ask(hook: Callable[[HttpRequest], Any], request: HttpRequest) -> Any:
    """Return what a hook answers, whether it is a plain function or a coroutine function.

    The request's lazy user is loaded before a coroutine runs, where loading it would be refused.
    """
    answer = hook(request)
    if not inspect.isawaitable(answer):
        return answer
    if hasattr(request, "user"):
        loaded(request.user)

    async def awaited() -> Any:
        return await answer

    return async_to_sync(awaited)()


def loaded(user: Any) -> Any:
    """Return the user itself where `user` is a lazy object around it."""
    if not isinstance(user, LazyObject):
        return user
    if user._wrapped is empty:
        user._setup()
    return user._wrapped


def is_cookie_borne(request: Request) -> bool:
    """Return whether a browser would send the request's credentials along from a foreign page.

    So it is for sessions, `get_user` and anonymous buckets; for any other authenticator where the request has cookies
    and no Authorization header, unless its class says `cookie_borne = False`.
    """
    authenticator = request.successful_authenticator
    if authenticator is None or isinstance(
        authenticator, HookAuthentication | SessionAuthentication | RemoteUserAuthentication
    ):
        return True
    guess = bool(request._request.COOKIES) and "HTTP_AUTHORIZATION" not in request._request.META
    return bool(getattr(authenticator, "cookie_borne", guess))


def check_csrf(request: Request) -> None:
    """Raise `CSRFFailed` for an unsafe request without a fitting token or from a foreign origin."""
    http_request = request._request
    http_request.csrf_processing_done = False  # type: ignore[attr-defined]
    if not hasattr(http_request, "_post"):
        # The token comes in a header. A form is no valid body here and must not be read.
        http_request._post = QueryDict()  # type: ignore[attr-defined]
        http_request._files = MultiValueDict()  # type: ignore[attr-defined]
    check = CSRFCheck(lambda request: None)  # type: ignore[arg-type]
    check.process_request(http_request)
    reason = check.process_view(http_request, None, (), {})  # type: ignore[arg-type]
    if reason:
        raise CSRFFailed(f"CSRF verification failed: {reason}")


@contextmanager
def csrf_left_to_the_mount(request: HttpRequest) -> Iterator[None]:
    """Keep SessionAuthentication from deciding on CSRF, which one policy decides for all identities of a mount."""
    before = getattr(request, "_dont_enforce_csrf_checks", False)
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        request._dont_enforce_csrf_checks = before  # type: ignore[attr-defined]
