"""What a client may know of an exception."""

from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

from django_pydantic_agent.exceptions import StoreUnavailable, UnstorableWrite


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason that is safe to show: `code` is a slug, `message` a sentence without anything of the exception in it."""

    code: str
    message: str


SHUTDOWN = Failure("shutdown", "The server stopped before the run ended.")
TIMEOUT = Failure("timeout", "The run took longer than it may take.")


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
            return Failure("storage", "The run could not be saved.")
        case RunTimedOut():
            return TIMEOUT
        case UsageLimitExceeded():
            return Failure("usage_limit", "The run reached its usage limit.")
        case ModelAPIError():
            return Failure("model_unavailable", "The model could not be reached or refused the request.")
        case UnexpectedModelBehavior():
            return Failure("model_behavior", "The model answered in a way that could not be used.")
        case UserError() | ImportError() | ImproperlyConfigured():
            return Failure("agent_misconfigured", "The agent is not set up for this request.")
        case _:
            return Failure("internal_error", "The run failed.")
