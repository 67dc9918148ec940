"""What every route of a mount has in common."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from django_ag_ui.api.authentication import (
    HookAuthentication,
    check_csrf,
    csrf_left_to_the_mount,
    is_cookie_borne,
    loaded,
)
from django_ag_ui.api.exceptions import InvalidQuery, UnknownThread, error_response
from django_ag_ui.api.parsers import BodyParser
from django_ag_ui.api.paths import mount_url
from django_ag_ui.api.permissions import Authorize, RequireAuthenticated
from django_ag_ui.api.renderers import FixedNegotiation, JSONRenderer
from django_ag_ui.api.throttling import READ_SCOPE, rated_scopes
from django_pydantic_agent.ownership import Owner, resolve_owner
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.executors.base import get_executor
from django_pydantic_agent.stores import run_store_for

if TYPE_CHECKING:
    from django_ag_ui.server import AGUIServer
    from django_pydantic_agent.stores.base import RunStore
    from django_pydantic_agent.stores.conversations import ConversationStore

MAX_SEARCH_CHARACTERS = 1_000
"""The longest text to search for; a title is no longer, and SQLite fails on patterns of 50,000 bytes."""

_FLAGS = {"0": False, "false": False, "1": True, "true": True}


class AGUIView(APIView):
    """A view of one mount. Authentication, permissions and throttles are the project's, all else is fixed here."""

    server: "AGUIServer" = None  # type: ignore[assignment]
    parser_classes = (BodyParser,)
    renderer_classes: Sequence[type[JSONRenderer]] = (JSONRenderer,)
    content_negotiation_class = FixedNegotiation
    versioning_class = None
    metadata_class = None
    pagination_class = None
    throttle_scope: str | None = None
    # Model permissions of the project's defaults ask for a queryset, which a mount does not have.
    _ignore_model_permissions = True

    def get_authenticators(self) -> list[BaseAuthentication]:
        get_user, classes = self.server.get_user, self.server.authentication_classes
        if get_user is None:
            return _made("DEFAULT_AUTHENTICATION_CLASSES", classes)
        return [*_made("DEFAULT_AUTHENTICATION_CLASSES", classes or ()), HookAuthentication(get_user)]

    def get_permissions(self) -> list[BasePermission]:
        permissions = _made("DEFAULT_PERMISSION_CLASSES", self.server.permission_classes)
        if self.server.require_authenticated:
            permissions.insert(0, RequireAuthenticated())
        if self.server.authorize is not None:
            permissions.append(Authorize(self.server.authorize))
        return permissions

    def get_throttles(self) -> list[BaseThrottle]:
        return _made("DEFAULT_THROTTLE_CLASSES", self.server.throttle_classes)

    def get_throttle_scope(self) -> str:
        """Return the scope that this request counts in, if the project gives it a rate."""
        return READ_SCOPE

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {"Allow": ", ".join(self.allowed_methods)}

    def get_exception_handler(self) -> Callable[..., Any]:
        return error_response

    def get_format_suffix(self, **kwargs: Any) -> None:
        return None

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.outer_user = getattr(request, "user", None)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        request.version, request.versioning_scheme = None, None
        self._identify(request)
        if not self.server.csrf_exempt and is_cookie_borne(request):
            check_csrf(request)
        self.check_throttles(request)
        get_executor(self.server.agent_config.executor).watch_leases(get_engine())

    def admit(self, http_request: HttpRequest) -> None:
        """Authenticate and authorise a request without handling it; raises what `initial` would raise."""
        self.request = self.initialize_request(http_request, *self.args, **self.kwargs)
        self._identify(self.request)

    def _identify(self, request: Request) -> None:
        with csrf_left_to_the_mount(request._request):
            self.perform_authentication(request)
        request.user = loaded(request.user)
        self.check_permissions(request)

    def check_throttles(self, request: Request) -> None:
        rated = rated_scopes(self.get_throttles())
        if rated:
            scope = self.get_throttle_scope()
            self.throttle_scope = scope if scope in rated else None
        super().check_throttles(request)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    @cached_property
    def step_store(self) -> Any:
        """The step store of this request, None for a mount without."""
        return self.server.step_store and self.server.step_store(self.request._request)

    @cached_property
    def owner(self) -> Owner | None:
        """Whose runs this request may see; None for an identity that does not last."""
        if hasattr(self.step_store, "owner"):
            owner: Owner | None = self.step_store.owner
            return owner
        conversations = self.server.conversation_store
        owner = None if conversations is None else conversations.owner(self.request._request)
        return owner or resolve_owner(self.request._request)

    @cached_property
    def conversation(self) -> "ConversationStore | None":
        """The conversation store, None where it or the step store would not keep anything of this request."""
        store = self.server.conversation_store
        if store is None or self.owner is None or store.owner(self.request._request) != self.owner:
            return None
        return store

    @property
    def place(self) -> "tuple[ConversationStore, Owner]":
        """The conversation store and whose threads of it are meant; raises `UnknownThread` for who can have none."""
        if self.conversation is None or self.owner is None:
            raise UnknownThread
        return self.conversation, self.owner

    def titles(self, thread_ids: Collection[str]) -> Mapping[str, str]:
        """Return the titles of those of these threads that a conversation store has."""
        if self.conversation is None or self.owner is None or not thread_ids:
            return {}
        return self.conversation.titles(owner=self.owner, thread_ids=thread_ids)

    @property
    def mount(self) -> str:
        """The path of this mount."""
        return mount_url(self.request._request)

    @cached_property
    def scope(self) -> str:
        """The partition of the owner's runs that this mount works in."""
        return getattr(self.step_store, "scope", "")

    @cached_property
    def run_store(self) -> "RunStore":
        return run_store_for(self.owner)


def search_text(request: Request) -> str | None:
    """Return what a list is searched for. Raises `InvalidQuery` where it is longer than `MAX_SEARCH_CHARACTERS`."""
    text: str | None = request.query_params.get("q")
    if text and len(text) > MAX_SEARCH_CHARACTERS:
        raise InvalidQuery(f"q must not be longer than {MAX_SEARCH_CHARACTERS} characters")
    return text


def flag(request: Request, name: str) -> bool:
    """Return a switch of the query string, off where it is not there. Raises `InvalidQuery`."""
    value = request.query_params.get(name, "0").lower()
    if value not in _FLAGS:
        raise InvalidQuery(f"{name} must be true or false")
    return _FLAGS[value]


def _made(setting: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return an object of each of `classes`, which default to a setting of the project's REST framework."""
    return [item() for item in (getattr(api_settings, setting) if classes is None else classes)]


def non_atomic(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Take a view out of ATOMIC_REQUESTS on every database: a stream outlives its request."""
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


@non_atomic
@csrf_exempt
def unknown_route(request: HttpRequest, **kwargs: Any) -> JsonResponse:
    """Answer 404 in JSON for whatever else lies below a mount."""
    return JsonResponse({"error": "there is no such route", "code": "not_found"}, status=404)


unknown_route.login_required = False  # type: ignore[attr-defined]
