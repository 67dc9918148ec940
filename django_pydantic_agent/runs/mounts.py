"""The way from the name of a mount to how its runs are made, for runs that another process has accepted."""

from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from django_pydantic_agent.runs.plan import Mount

_lookups: list[str] = []


def register_lookup(path: str) -> None:
    """Have `find_mount` ask the function at a dotted path, which raises `LookupError` for a name that it does not know.

    It is imported when it is asked: every process of a project registers, and few of them look for a mount.
    """
    if path not in _lookups:
        _lookups.append(path)


def find_mount(name: str) -> "Mount":
    """Return the mount of this name; raises `LookupError` where nobody knows it."""
    for path in _lookups:
        try:
            mount: Mount = import_string(path)(name)
            return mount
        except LookupError:
            continue
    raise LookupError(f"there is no mount of the name {name!r}")
