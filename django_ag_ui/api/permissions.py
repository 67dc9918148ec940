"""Who may use a mount, besides what the project's own permission classes say."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from django_ag_ui.api.authentication import ask


class RequireAuthenticated(BasePermission):
    """Let nobody in who is anonymous; the answer is 401 where an authenticator can say how to log in, else 403."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not (request.user and request.user.is_authenticated):
            raise NotAuthenticated
        return True


class Authorize(BasePermission):
    """Let in whom the mount's `authorize` hook lets in."""

    message = "you may not use this agent"

    def __init__(self, authorize: Callable[[HttpRequest], Any]) -> None:
        self.authorize = authorize

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(ask(self.authorize, request._request))
