"""What forms change: the title of a thread, its place in the archive, whether it or a run goes on."""

from contextlib import suppress

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_noop as _
from rest_framework.request import Request

from django_ag_ui.api.exceptions import UnknownThread
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.runs import CancelView
from django_ag_ui.api.threads import ThreadView
from django_ag_ui.ui.pages import PageView
from django_pydantic_agent.exceptions import InvalidInput, ThreadNotFound
from django_pydantic_agent.threads.titles import TITLE_CHARACTERS


class RenamePage(PageView):
    """Ask for a title, and give it."""

    http_method_names = ("get", "head", "post")

    def get(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponse:
        return self.page("rename", **_thread(self, thread), title_characters=TITLE_CHARACTERS)

    def post(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseRedirect:
        conversation, owner = self.place
        title = self.form.get("title", "").strip()
        if not title:
            raise InvalidInput(_("the title must not be empty"))
        conversation.rename(owner=owner, thread_id=decode_id(thread), title=title)
        return HttpResponseRedirect(self.addresses.thread(decode_id(thread)))


class DeletePage(PageView, ThreadView):
    """Ask whether a thread is to be deleted, and delete it."""

    http_method_names = ("get", "head", "post")  # type: ignore[assignment]

    def get(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponse:
        return self.page("delete", **_thread(self, thread))

    def post(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseRedirect:
        # Who presses the button twice has deleted it once.
        with suppress(UnknownThread, ThreadNotFound):
            self.delete(request, thread=thread)
        return HttpResponseRedirect(self.addresses.picker)


class ArchiveForm(PageView):
    """Put a thread into the archive, or take it out."""

    http_method_names = ("post",)

    def post(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseRedirect:
        conversation, owner = self.place
        archived = self.form.get("archived") != "0"
        conversation.archive(owner=owner, thread_id=decode_id(thread), archived=archived)
        return self.back(self.addresses.picker)


class StopForm(PageView, CancelView):
    """Stop a run."""

    http_method_names = ("post",)

    def post(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseRedirect:  # type: ignore[override]
        super().post(request, run=run)
        return self.back(self.addresses.run(decode_id(run)))


def _thread(view: PageView, segment: str) -> dict[str, str]:
    """Return the name and the page of a thread; raises `UnknownThread`."""
    thread_id = decode_id(segment)
    titles = view.titles([thread_id])
    if thread_id not in titles:
        raise UnknownThread
    return {"name": titles[thread_id] or thread_id, "thread_url": view.addresses.thread(thread_id)}
