"""What every page of a mount has in common."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from rest_framework.request import Request

from django_ag_ui.api.exceptions import error_response
from django_ag_ui.api.views import AGUIView
from django_ag_ui.ui.addresses import Addresses


class PageView(AGUIView):
    """A view that answers in HTML, also where it refuses, and takes forms in place of JSON."""

    http_method_names: Sequence[str] = ("get", "head")

    def get_exception_handler(self) -> Callable[..., Any]:
        return refused

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # The check of the CSRF token looks for it in a form only if the form was read before.
        try:
            self.form = request._request.POST
        except (LookupError, UnicodeError) as error:
            # The charset of a form in parts may be a codec that makes no text.
            raise BadRequest("the charset cannot be read") from error
        super().initial(request, *args, **kwargs)

    @cached_property
    def addresses(self) -> Addresses:
        return Addresses(self.mount)

    def page(self, template: str, **context: Any) -> HttpResponse:
        """Return a page of this mount."""
        context |= {"addresses": self.addresses}
        return render(self.request._request, f"django_ag_ui/ui/{template}.html", context)

    def back(self, otherwise: str) -> HttpResponseRedirect:
        """Lead to the page that a form was on, where it says so and that page is on this site."""
        request, url = self.request._request, self.form.get("next", "")
        is_ours = url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())
        return HttpResponseRedirect(url if is_ours else otherwise)


def login_url(request: HttpRequest) -> str:
    """Return the page on which a person logs in, and from which they come back to this one."""
    return redirect_to_login(request.get_full_path(), resolve_url(settings.LOGIN_URL)).url


def refused(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """Say on a page what the routes of the mount say in JSON."""
    answer, view = error_response(exc, context), context["view"]
    request = view.request._request
    is_known = getattr(request, "user", None) is not None and request.user.is_authenticated
    login = login_url(request) if answer.status_code in (401, 403) and not is_known else ""
    response: HttpResponse = view.page("refused", error=gettext(answer.data["error"]), login_url=login)
    response.status_code = answer.status_code
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in answer.headers:
            response.headers[name] = answer.headers[name]
    return response
