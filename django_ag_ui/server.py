"""Mounting an agent in a URLconf, in the manner of `admin.site`."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

from django.urls import URLPattern, URLResolver, get_resolver, path, re_path

from django_ag_ui.conf import AGUIConfig, build_ag_ui_config
from django_ag_ui.disconnect import CancelAfter, Choice, DisconnectPolicy
from django_pydantic_agent.agents.build import check_source, option_fault
from django_pydantic_agent.policy.failure import REDACT, FailurePolicy
from django_pydantic_agent.runs.plan import AgentConfig, Mount
from django_pydantic_agent.stores.conversations import ConversationStore
from django_pydantic_agent.threads.reconcile import ThreadPolicy

APP_NAME = "ag_ui"

ConcurrentRun: TypeAlias = Literal["enqueue", "reject", "interrupt", "rollback", "attach"]
StaleClient: TypeAlias = Literal["merge", "reject"]
ClientHistory: TypeAlias = Literal["ignore", "import"]
Orphaned: TypeAlias = Literal["fail", "resume"]
SnapshotSaveMode: TypeAlias = Literal["roundtrip", "run_end"]

_STORE_METHODS = [name for name in vars(ConversationStore) if not name.startswith("_")]


class AGUIServer:
    """One agent behind one set of URLs: `path("agent/", AGUIServer(registry).urls)`.

    `agent` is a `ToolRegistry`, a `pydantic_ai.Agent`, or a callable without arguments that returns one. `run_timeout`
    is in seconds. `step_store` is a factory `request -> StepStore`; with one, `runs/`, `resume/` and `fork/` are
    mounted. `conversation_store` is an object; with one, `threads/` is mounted and what it holds is the history. Every
    hook may be a plain function or a coroutine function. Raises `TypeError` or `ValueError`, naming the argument, for
    what cannot be used.
    """

    def __init__(
        self,
        agent: Any,
        *,
        model: Any = None,
        instructions: Any = None,
        model_settings: Any = None,
        usage_limits: Any = None,
        run_timeout: float | None = None,
        model_for_request: Callable[..., Any] | None = None,
        instructions_for_request: Callable[..., Any] | None = None,
        context_for_request: Callable[..., Any] | None = None,
        deps_factory: Callable[..., Any] | None = None,
        toolsets: Sequence[Any] = (),
        capabilities: Sequence[Any] = (),
        namespace: str = "ag_ui",
        step_store: Callable[[Any], Any] | None = None,
        conversation_store: ConversationStore | None = None,
        refuse_unresolved: bool = False,
        on_concurrent_run: ConcurrentRun = "enqueue",
        on_stale_client: StaleClient = "merge",
        on_orphan: Orphaned = "fail",
        client_history: ClientHistory = "ignore",
        snapshot_save_mode: SnapshotSaveMode = "roundtrip",
        title_for_thread: Callable[..., Any] | None = None,
        approval_policy: Callable[..., Any] | None = None,
        failure_policy: FailurePolicy = REDACT,
        audit_logger: Callable[..., Any] | None = None,
        on_client_disconnect: Choice | CancelAfter = "complete_and_save",
        client_disconnect_choices: Collection[Choice] = (),
        require_authenticated: bool = True,
        get_user: Callable[[Any], Any] | None = None,
        authorize: Callable[[Any], Any] | None = None,
        csrf_exempt: bool = False,
        authentication_classes: Sequence[Any] | None = None,
        permission_classes: Sequence[Any] | None = None,
        throttle_classes: Sequence[Any] | None = None,
        executor: str = "default",
        config: AGUIConfig | None = None,
    ) -> None:
        _refuse_strings(agent=agent)
        check_source(agent)
        _check_options(model=model, instructions=instructions, model_settings=model_settings, usage_limits=usage_limits)
        _check_hooks(
            model_for_request=model_for_request,
            instructions_for_request=instructions_for_request,
            context_for_request=context_for_request,
            deps_factory=deps_factory,
            step_store=step_store,
            title_for_thread=title_for_thread,
            approval_policy=approval_policy,
            audit_logger=audit_logger,
            get_user=get_user,
            authorize=authorize,
        )
        _check_conversation_store(conversation_store)
        _check_choice("on_concurrent_run", on_concurrent_run, ConcurrentRun)
        _check_choice("on_stale_client", on_stale_client, StaleClient)
        _check_choice("on_orphan", on_orphan, Orphaned)
        _check_choice("client_history", client_history, ClientHistory)
        _check_choice("snapshot_save_mode", snapshot_save_mode, SnapshotSaveMode)
        _check_flags(
            require_authenticated=require_authenticated, csrf_exempt=csrf_exempt, refuse_unresolved=refuse_unresolved
        )
        if not isinstance(namespace, str) or not namespace or ":" in namespace:
            raise ValueError(f"namespace must be a non-empty string without ':', not {namespace!r}")
        if not isinstance(executor, str):
            raise TypeError(f"executor must be an alias in EXECUTORS, not {executor!r}")
        if run_timeout is not None and (isinstance(run_timeout, bool) or not isinstance(run_timeout, int | float)):
            raise TypeError(f"run_timeout must be a number of seconds, not {run_timeout!r}")
        if run_timeout is not None and not 0 < run_timeout < float("inf"):
            raise ValueError(f"run_timeout must be more than 0 seconds and not for ever, not {run_timeout!r}")
        if not isinstance(failure_policy, FailurePolicy):
            raise TypeError(f"failure_policy must be a FailurePolicy, not {failure_policy!r}")
        if config is not None and not isinstance(config, AGUIConfig):
            raise TypeError(f"config must come from build_ag_ui_config(), not {config!r}")
        self.namespace = namespace
        self.step_store = step_store
        self.conversation_store = conversation_store
        self.thread_policy = ThreadPolicy(
            on_stale_client=on_stale_client, client_history=client_history, on_concurrent_run=on_concurrent_run
        )
        self.disconnect_policy = DisconnectPolicy(default=on_client_disconnect, choices=client_disconnect_choices)
        self.refuse_unresolved = refuse_unresolved
        self.context_for_request = context_for_request
        self.require_authenticated = require_authenticated
        self.get_user = get_user
        self.authorize = authorize
        self.csrf_exempt = csrf_exempt
        self.authentication_classes = _optional("authentication_classes", authentication_classes)
        self.permission_classes = _optional("permission_classes", permission_classes)
        self.throttle_classes = _optional("throttle_classes", throttle_classes)
        self.agent_config = AgentConfig(
            source=agent,
            server=namespace,
            model=model,
            instructions=instructions,
            model_settings=model_settings,
            usage_limits=usage_limits,
            run_timeout=run_timeout,
            model_for_request=model_for_request,
            instructions_for_request=instructions_for_request,
            deps_factory=deps_factory,
            toolsets=_objects("toolsets", toolsets),
            capabilities=_objects("capabilities", capabilities),
            step_store=step_store,
            executor=executor,
            snapshot_save_mode=snapshot_save_mode,
            title_for_thread=title_for_thread,
            on_orphan=on_orphan,
            approval_policy=approval_policy,
            failure_policy=failure_policy,
            audit_logger=audit_logger,
        )
        self._config = config

    def __repr__(self) -> str:
        return f"<AGUIServer {self.namespace!r}>"

    @property
    def config(self) -> AGUIConfig:
        """The configuration given to this mount, else the one of the settings."""
        return self._config or build_ag_ui_config()

    @property
    def urls(self) -> tuple[list[URLPattern], str, str]:
        """The triple `(patterns, app name, namespace)` that `path()` takes."""
        return self.get_urls(), APP_NAME, self.namespace

    def get_urls(self) -> list[URLPattern]:
        """Return the routes of this mount; a subclass may put its own in front."""
        from django_ag_ui.api import effects, events, runs, starting, threads, tools, views
        from django_ag_ui.ui import changes, conversations, picker

        def route(pattern: str, view: type[views.AGUIView], name: str) -> URLPattern:
            return path(pattern, views.non_atomic(view.as_view(server=self)), name=name)

        patterns = [
            route("", starting.AgentView, "agent"),
            route("tools/", tools.ToolsView, "tools"),
            route("runs/<str:run>/", runs.RunView, "run"),
            route("runs/<str:run>/events/", events.RunEventsView, "run-events"),
            route("runs/<str:run>/cancel/", runs.CancelView, "run-cancel"),
        ]
        if self.step_store is not None:
            patterns += [
                route("runs/", runs.RunsView, "runs"),
                route("resume/<str:run>/", starting.ContinueView, "resume"),
                route("fork/<str:run>/", starting.ContinueView, "fork"),
                route("runs/<str:run>/effects/", effects.EffectsView, "run-effects"),
                route("runs/<str:run>/effects/<str:call>/resolve/", effects.ResolveView, "run-effect-resolve"),
                route("ui/", picker.PickerView, "ui"),
                route("ui/rows/", picker.RowsView, "ui-rows"),
                route("ui/runs/<str:run>/", conversations.RunPage, "ui-run"),
                route("ui/runs/<str:run>/cancel/", changes.StopForm, "ui-run-cancel"),
            ]
        if self.conversation_store is not None:
            patterns += [
                route("threads/", threads.ThreadsView, "threads"),
                route("threads/<str:thread>/", threads.ThreadView, "thread"),
                route("threads/<str:thread>/events/", events.ThreadEventsView, "thread-events"),
                route("threads/<str:thread>/connect/", events.ConnectView, "thread-connect"),
            ]
        if self.step_store is not None and self.conversation_store is not None:
            patterns += [
                route("ui/threads/<str:thread>/", conversations.ThreadPage, "ui-thread"),
                route("ui/threads/<str:thread>/rename/", changes.RenamePage, "ui-thread-rename"),
                route("ui/threads/<str:thread>/archive/", changes.ArchiveForm, "ui-thread-archive"),
                route("ui/threads/<str:thread>/delete/", changes.DeletePage, "ui-thread-delete"),
            ]
        return [*patterns, re_path(r"^[\s\S]*$", views.unknown_route)]


def get_server(namespace: str) -> AGUIServer:
    """Return the server that ROOT_URLCONF mounts under `namespace`; raises `LookupError` where there is none."""
    for server in mounted_servers():
        if server.namespace == namespace:
            return server
    raise LookupError(f"ROOT_URLCONF mounts no AGUIServer with the namespace {namespace!r}")


def get_mount(namespace: str) -> Mount:
    """Return the mount of this namespace without its HTTP half; raises `LookupError` where there is none."""
    server = get_server(namespace)
    return Mount(config=server.agent_config, conversation=server.conversation_store)


def mounted_servers() -> Iterator[AGUIServer]:
    """Yield the server of every mount in ROOT_URLCONF."""
    yield from _servers_below(get_resolver())


def _servers_below(resolver: URLResolver) -> Iterator[AGUIServer]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _servers_below(pattern)
        elif isinstance(server := getattr(pattern.callback, "initkwargs", {}).get("server"), AGUIServer):
            yield server
            return


def _refuse_strings(**arguments: Any) -> None:
    for name, value in arguments.items():
        if isinstance(value, str):
            raise TypeError(f"{name} must be an object, not the string {value!r}")


def _check_options(**options: Any) -> None:
    for name, value in options.items():
        if (wanted := option_fault(name, value)) is not None:
            raise TypeError(f"{name} must be {wanted}, not {value!r}")


def _check_hooks(**hooks: Any) -> None:
    _refuse_strings(**hooks)
    for name, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise TypeError(f"{name} must be callable, not {hook!r}")


def _check_conversation_store(store: Any) -> None:
    _refuse_strings(conversation_store=store)
    if isinstance(store, type):
        raise TypeError(f"conversation_store must be an object, not the class {store.__name__}: write it with ()")
    if store is not None and not all(callable(getattr(store, name, None)) for name in _STORE_METHODS):
        raise TypeError(f"conversation_store must be a ConversationStore, not {store!r}")


def _check_choice(name: str, choice: Any, choices: Any) -> None:
    if choice not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {choice!r}")


def _check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, not {flag!r}")


def _objects(name: str, value: Sequence[Any]) -> tuple[Any, ...]:
    _refuse_strings(**{name: value})
    try:
        members = tuple(value)
    except TypeError:
        raise TypeError(f"{name} must be a list, not {value!r}") from None
    for member in members:
        _refuse_strings(**{f"each of {name}": member})
    return members


def _optional(name: str, value: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if value is None else _objects(name, value)
