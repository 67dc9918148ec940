"""What becomes of a run when its last viewer leaves."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

Choice: TypeAlias = Literal["complete_and_save", "cancel"]


@dataclass(frozen=True, slots=True)
class CancelAfter:
    """Cancel the run when nobody has watched it for `seconds`. Raises `TypeError` or `ValueError` for other values."""

    seconds: float

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"CancelAfter takes a number of seconds, not {self.seconds!r}")
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"CancelAfter takes more than 0 seconds and not for ever, not {self.seconds!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectPolicy:
    """What a mount does, and what a post may choose in its place."""

    default: Choice | CancelAfter = "complete_and_save"
    choices: Collection[Choice] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.default, CancelAfter) and not _is_choice(self.default):
            raise ValueError(f"on_client_disconnect must be {_CHOICES} or CancelAfter(seconds), not {self.default!r}")
        if isinstance(self.choices, str) or not isinstance(self.choices, Collection):
            raise TypeError(f"client_disconnect_choices must be a list, not {self.choices!r}")
        for choice in self.choices:
            if not _is_choice(choice):
                raise ValueError(f"client_disconnect_choices may hold {_CHOICES}, not {choice!r}")

    def cancel_after(self, forwarded_props: Any) -> float | None:
        """Return for how many seconds a run goes on that nobody watches, None where it goes on to its end.

        What a post asks for counts where the mount lists it; anything else is ignored.
        """
        asked = forwarded_props.get("onClientDisconnect") if isinstance(forwarded_props, dict) else None
        match asked if _is_choice(asked) and asked in self.choices else self.default:
            case CancelAfter(seconds):
                return seconds
            case "cancel":
                return 0.0
        return None


_CHOICES = " or ".join(map(repr, get_args(Choice)))


def _is_choice(value: Any) -> bool:
    return isinstance(value, str) and value in get_args(Choice)
