"""Client ids in URL paths, and the URLs that answers link to.

An id of ASCII letters, digits and `._:@-` stands in a path as it is; any other as `~` and the unpadded base64url form
of its UTF-8 bytes, because `/`, `.`, `..` and what proxies decode or normalise would not arrive.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from django.http import HttpRequest
from django.urls import reverse

_PLAIN = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:@-]+\Z")


def encode_id(value: str) -> str:
    """Return the path segment of an id."""
    if _PLAIN.match(value):
        return value
    return "~" + urlsafe_b64encode(value.encode()).decode().rstrip("=")


def decode_id(segment: str) -> str:
    """Return the id of a path segment, which may also be the id itself as the server decoded it."""
    if segment.startswith("~"):
        encoded = segment[1:]
        try:
            value = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except ValueError:
            return segment
        if value and encode_id(value) == segment:
            return value
    return segment


def mount_url(request: HttpRequest) -> str:
    """Return the path of the mount that `request` came to."""
    match = request.resolver_match
    assert match is not None  # noqa: S101
    kwargs = {name: value for name, value in match.kwargs.items() if name not in ("run", "thread", "call")}
    return reverse(f"{match.namespace}:agent", urlconf=getattr(request, "urlconf", None), kwargs=kwargs)
