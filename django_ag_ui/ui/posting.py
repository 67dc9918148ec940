"""Pages with a composer: a form that starts a run as a post of a client does."""

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4, uuid5

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_noop as _
from rest_framework.exceptions import NotAuthenticated

from django_ag_ui.api.exceptions import BodyTooLarge
from django_ag_ui.api.starting import StartView
from django_ag_ui.api.throttling import READ_SCOPE
from django_ag_ui.ui.pages import PageView
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.stores.base import StoredRun

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from django_pydantic_agent.log.frames import JsonObject

ANSWER = "answer "
"""What the name of a field with an answer begins with; the id of the interrupt comes behind it."""


class ComposerView(PageView, StartView):
    """A page whose form starts a run; the answer leads to where the run is shown.

    Each page that is served gives its form a `nonce`, from which and the message the ids are made: a form that is sent
    twice is one post, and one that is sent again with other words is another.
    """

    http_method_names = ("get", "head", "post")  # type: ignore[assignment]
    # A form has no viewer that could leave.
    cancel_after = None

    def thread_of(self, nonce: UUID) -> str:
        """Return the id of the thread that the message goes to."""
        raise NotImplementedError

    def get_throttle_scope(self) -> str:
        return super().get_throttle_scope() if self.request.method == "POST" else READ_SCOPE

    def page(self, template: str, **context: Any) -> HttpResponse:
        return super().page(template, nonce=uuid4(), **context)

    def read_posted(self) -> "tuple[bytes, RunAgentInput]":
        from django_pydantic_agent.log.accept import parse_input

        if self.owner is None:
            raise NotAuthenticated
        message = self.form.get("message", "").replace("\r\n", "\n")
        answers = self._answers()
        if not message.strip() and not answers:
            raise InvalidInput(_("the message must not be empty"))
        try:
            nonce = UUID(self.form.get("nonce", ""))
        except ValueError:
            raise InvalidInput(_("nonce must be the one that the page came with")) from None
        said = {"id": str(uuid5(nonce, f"message {message}")), "role": "user", "content": message}
        asked = {"resume": answers} if answers else {"messages": [said]}
        run_id = str(uuid5(nonce, f"run {json.dumps(answers) if answers else message}"))
        body = json.dumps({"threadId": self.thread_of(nonce), "runId": run_id, "messages": []} | asked).encode()
        if len(body) > self.server.config.max_body_bytes:
            raise BodyTooLarge
        return body, parse_input(body)

    def _answers(self) -> "list[JsonObject]":
        """Return the `resume` entries that a form with answers to interrupts stands for."""
        return [
            {
                "interruptId": name.removeprefix(ANSWER),
                "status": "resolved",
                "payload": {"approved": answer == "approve"},
            }
            for name, answer in sorted(self.form.items())
            if name.startswith(ANSWER)
        ]

    def attach(self, run: StoredRun) -> HttpResponseRedirect:
        return self.stream(run)

    def stream(self, run: StoredRun, **kwargs: Any) -> HttpResponseRedirect:
        """Lead to the page of a run, or that of its thread, in place of streaming it."""
        addresses = self.addresses
        url = addresses.run(run.run_id) if self.conversation is None else addresses.thread(run.thread_id)
        return HttpResponseRedirect(url)
