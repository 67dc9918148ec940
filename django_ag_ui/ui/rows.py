"""The rows of the picker: threads with the run that each is at, or runs where no conversations are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from django_ag_ui.api.exceptions import InvalidQuery
from django_ag_ui.api.ledger import with_ledger
from django_ag_ui.api.views import AGUIView, flag, search_text
from django_ag_ui.ui.addresses import Addresses
from django_ag_ui.ui.states import FILTERS, Action, State, unknown_effects
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.stores.base import RunQuery, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, ThreadQuery, ThreadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the query string asks of the list."""

    text: str = ""
    status: str = ""
    archived: bool = False
    cursor: str = ""

    @classmethod
    def of(cls, view: AGUIView) -> "Asked":
        """Read the query string; raises `InvalidQuery`."""
        query = view.request.query_params
        status = query.get("status", "")
        if status and status not in FILTERS:
            raise InvalidQuery(f"status must be one of {', '.join(FILTERS)}")
        return cls(
            text=search_text(view.request) or "",
            status=status,
            archived=flag(view.request, "archived"),
            cursor=query.get("cursor", ""),
        )

    def query(self, **changes: str | bool) -> str:
        """Return the query string with these changes; it begins a list at its first page, unless they say otherwise."""
        asked = {"q": self.text, "status": self.status, "archived": self.archived} | changes
        return "?" + urlencode({name: 1 if value is True else value for name, value in asked.items() if value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The run that another thread or run was branched from."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShown:
    """What a row says of a run; `fork_url` is empty where it cannot be continued."""

    state: State
    action: Action
    url: str
    fork_url: str
    unknown_effects: int

    @classmethod
    def of(cls, run: StoredRun, addresses: Addresses) -> "RunShown":
        return cls(
            state=State.of(run),
            action=Action.of(run),
            url=addresses.run(run.run_id),
            fork_url=addresses.fork(run.run_id) if run.continuable else "",
            unknown_effects=unknown_effects(run),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A thread or a run as the list shows it; a thread's `run` is the one that it is at, None where none is left."""

    id: str
    name: str
    url: str
    at: datetime
    run: RunShown | None
    branch_of: Source | None
    turns: int | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list. `next` is the cursor of the page behind it; `of_threads` says what the rows are."""

    asked: Asked
    rows: Sequence[Row] = field(default=())
    next: str | None = None
    of_threads: bool = True


def listing(view: AGUIView) -> Listing:
    """Return the page of the list that a request asks for; raises `InvalidQuery`."""
    asked = Asked.of(view)
    try:
        if view.conversation is None:
            return _runs(view, asked)
        return _threads(view, view.conversation, asked)
    except InvalidInput:
        raise InvalidQuery("cursor must be the next of an earlier page") from None


def _threads(view: AGUIView, conversation: ConversationStore, asked: Asked) -> Listing:
    assert view.owner is not None  # noqa: S101
    query = ThreadQuery(
        text=asked.text or None,
        status=asked.status or None,
        archived=asked.archived,
        cursor=asked.cursor or None,
        limit=view.server.config.thread_list_limit,
    )
    page = conversation.page(owner=view.owner, query=query)
    keys = {key for thread in page.threads for key in (thread.current_run, thread.branch_of) if key is not None}
    runs = view.run_store.by_keys(keys, owner=view.owner)
    shown = {run.key: run for run in with_ledger(view.step_store, list(runs.values()))}
    addresses = Addresses(view.mount)
    return Listing(
        asked=asked,
        rows=[
            _thread_row(
                thread, addresses, run=shown.get(thread.current_run or 0), source=shown.get(thread.branch_of or 0)
            )
            for thread in page.threads
        ],
        next=page.next,
    )


def _runs(view: AGUIView, asked: Asked) -> Listing:
    query = RunQuery(
        text=asked.text or None,
        status=asked.status or None,
        cursor=asked.cursor or None,
        limit=view.server.config.run_list_limit,
    )
    page = view.run_store.page(owner=view.owner, scope=view.scope, query=query)
    runs = with_ledger(view.step_store, page.runs)
    names = {run.run_id: _name(run) for run in runs}
    addresses = Addresses(view.mount)
    rows = [
        Row(
            id=run.run_id,
            name=names[run.run_id],
            url=addresses.run(run.run_id),
            at=run.started_at,
            run=RunShown.of(run, addresses),
            branch_of=_parent(run, addresses, names),
        )
        for run in runs
    ]
    return Listing(asked=asked, rows=rows, next=page.next, of_threads=False)


def _thread_row(thread: ThreadRow, addresses: Addresses, *, run: StoredRun | None, source: StoredRun | None) -> Row:
    return Row(
        id=thread.thread_id,
        name=thread.title or thread.preview or thread.thread_id,
        url=addresses.thread(thread.thread_id),
        at=thread.updated_at,
        run=None if run is None else RunShown.of(run, addresses),
        branch_of=None if source is None else Source(name=_name(source), url=addresses.run(source.run_id)),
        turns=thread.turns,
        archived=thread.archived,
    )


def _parent(run: StoredRun, addresses: Addresses, names: Mapping[str, str]) -> Source | None:
    """Return the run that this one continues, by the name that it has on the same page, if it is there."""
    parent = run.parent_run_id
    return None if parent is None else Source(name=names.get(parent, parent), url=addresses.run(parent))


def _name(run: StoredRun) -> str:
    return run.preview or run.run_id
