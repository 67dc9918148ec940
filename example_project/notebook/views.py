from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from example_project.notebook.management.commands.demo_user import DEMO_USERNAME


@login_required
def page(request: HttpRequest) -> HttpResponse:
    return render(request, "notebook/page.html", {"notes": request.user.notes.all()[:5]})


class DemoLoginView(LoginView):
    """Log the demo user in at once where DEBUG is on and `demo_user` has made that user; else ask."""

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        user = get_user_model().objects.filter(username=DEMO_USERNAME, is_active=True).first()
        if user is None or not settings.DEBUG:
            return super().get(request, *args, **kwargs)
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        return HttpResponseRedirect(self.get_success_url())
