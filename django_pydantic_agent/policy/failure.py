"""What a client and the model may know of an exception."""

import logging
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.utils.translation import gettext_noop as _

from django_pydantic_agent.exceptions import RunError, StoreUnavailable, UnstorableWrite

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason that is safe to show: `code` is a slug, `message` a sentence without anything of the exception in it."""

    code: str
    message: str


SHUTDOWN = Failure("shutdown", _("The server stopped before the run ended."))
TIMEOUT = Failure("timeout", _("The run took longer than it may take."))
STORAGE = Failure("storage", _("The run could not be saved."))
ORPHANED = Failure("orphaned", _("The process that ran the agent is gone."))
USAGE_LIMIT = Failure("usage_limit", _("The run reached its usage limit."))
MODEL_UNAVAILABLE = Failure("model_unavailable", _("The model could not be reached or refused the request."))
MODEL_BEHAVIOR = Failure("model_behavior", _("The model answered in a way that could not be used."))
AGENT_MISCONFIGURED = Failure("agent_misconfigured", _("The agent is not set up for this request."))
INTERNAL_ERROR = Failure("internal_error", _("The run failed."))
UNKNOWN_SERVER = Failure("unknown_server", _("The agent that was to run is not mounted here any more."))
UNKNOWN_OWNER = Failure("unknown_owner", _("The account that the run was started from may not run it any more."))
UNKNOWN_SOURCE = Failure("unknown_source", _("The run that was to be continued is gone."))
UNKNOWN_THREAD = Failure("unknown_thread", _("The thread of the run is gone."))

FAILURES = (
    SHUTDOWN,
    TIMEOUT,
    STORAGE,
    ORPHANED,
    USAGE_LIMIT,
    MODEL_UNAVAILABLE,
    MODEL_BEHAVIOR,
    AGENT_MISCONFIGURED,
    INTERNAL_ERROR,
    UNKNOWN_SERVER,
    UNKNOWN_OWNER,
    UNKNOWN_SOURCE,
    UNKNOWN_THREAD,
)
"""Why the engine ends runs. They are stored and sent in English; pages translate them where they show them."""

PERMISSION_MISSING = "The permission for this is missing. Do not try it again."


@dataclass(frozen=True)
class FailurePolicy:
    """What is shown of exceptions: this one shows nothing of them.

    A subclass overrides what it wants to have otherwise. Both methods are called on the engine's event loop and must
    return at once; what they raise is logged, and nothing of the exception is shown then.
    """

    def tool_error(self, error: Exception, *, tool: str) -> str | None:
        """Return the text that the model and the client get in place of the result of a tool that has raised `error`.

        None has the exception end the run. Not asked where a tool wants another try, puts off what it should do, has
        used up its retries, or could not be recorded.
        """
        return PERMISSION_MISSING if lacks_permission(error) else None

    def run_error(self, error: Exception) -> Failure:
        """Return the code and the sentence that the client gets for an exception that ended a run.

        Not asked where the time was over or where the run could not be saved.
        """
        return describe(error)


REDACT = FailurePolicy()


def lacks_permission(error: BaseException) -> bool:
    """Return whether an exception says that a permission is missing: Python's, Django's or REST framework's."""
    return isinstance(error, PermissionDenied | PermissionError) or (
        getattr(error, "default_code", None) == "permission_denied"
    )


def describe(error: BaseException) -> Failure:
    """Return the reason to show for an exception that ended a run; its own text stays in the log."""
    from pydantic_ai.exceptions import (
        ModelAPIError,
        RunTimedOut,
        UnexpectedModelBehavior,
        UsageLimitExceeded,
        UserError,
    )

    match error:
        case StoreUnavailable() | UnstorableWrite():
            return STORAGE
        case RunTimedOut():
            return TIMEOUT
        case UsageLimitExceeded():
            return USAGE_LIMIT
        case ModelAPIError():
            return MODEL_UNAVAILABLE
        case UnexpectedModelBehavior():
            return MODEL_BEHAVIOR
        case UserError() | ImportError() | ImproperlyConfigured():
            return AGENT_MISCONFIGURED
        case _:
            return INTERNAL_ERROR


def shown_failure(error: BaseException, policy: FailurePolicy) -> Failure:
    """Return what `policy` shows of an exception that ended a run, and what the engine itself says of its own."""
    failure = describe(error)
    if failure in (STORAGE, TIMEOUT) or not isinstance(error, Exception):
        return failure
    try:
        shown = policy.run_error(error)
        if not isinstance(shown, Failure):
            raise TypeError(f"run_error() must return a Failure, not {shown!r}")
    except Exception:
        logger.exception("The failure policy could not say what to show of an error.")
        return failure
    return shown


def shown_result(error: BaseException, policy: FailurePolicy, *, tool: str) -> str | None:
    """Return the text that `policy` has in place of a tool's result, None where the exception goes its way."""
    if not isinstance(error, Exception) or _goes_its_way(error):
        return None
    try:
        text = policy.tool_error(error, tool=tool)
        if not (text is None or isinstance(text, str)):
            raise TypeError(f"tool_error() must return a text or None, not {text!r}")
    except Exception:
        logger.exception("The failure policy could not say what to show of an error of the tool %r.", tool)
        return None
    return text


def _goes_its_way(error: Exception) -> bool:
    """Return whether an exception is not a tool's failure: it steers the run, or ends it whatever a policy says."""
    from pydantic import ValidationError
    from pydantic_ai import exceptions

    steering = (
        exceptions.ModelRetry,
        exceptions.ToolRetryError,
        exceptions.ToolFailed,
        exceptions.ToolFailedError,
        exceptions.ApprovalRequired,
        exceptions.CallDeferred,
        exceptions.SkipToolExecution,
        ValidationError,
    )
    ending = (RunError, exceptions.RunCancelled, exceptions.UsageLimitExceeded, exceptions.UnexpectedModelBehavior)
    return isinstance(error, steering + ending)
