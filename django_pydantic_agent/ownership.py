"""Whose a row is: the key that every read and write is filtered by."""

import secrets
from dataclasses import dataclass
from typing import Any

from django.utils.crypto import salted_hmac

BUCKET_SESSION_KEY = "django_pydantic_agent.bucket"

USER, ANONYMOUS, ERASED = "user:", "anon:", "erased:"


@dataclass(frozen=True, slots=True)
class Owner:
    """The identity that rows belong to.

    `key` is `user:<primary key as text>`, `anon:<bucket>` or, for what waits to be deleted, `erased:<random>`. The
    prefix is written here and nowhere else, so no primary key, however crafted, can equal a bucket.
    """

    key: str

    @classmethod
    def of_user(cls, user: Any) -> "Owner":
        """Return the owner of a saved user, with one spelling for each primary key."""
        return cls(f"{USER}{key_field(user).to_python(user.pk)}")

    @classmethod
    def of_bucket(cls, bucket: str) -> "Owner":
        """Return the owner of an anonymous bucket."""
        return cls(f"{ANONYMOUS}{bucket}")

    @classmethod
    def of_nobody(cls) -> "Owner":
        """Return a new owner that no request acts for; what it owns waits to be deleted."""
        return cls(f"{ERASED}{secrets.token_hex(32)}")

    @property
    def is_anonymous(self) -> bool:
        return self.key.startswith(ANONYMOUS)


def key_field(user: Any) -> Any:
    """Return the field that holds the primary key of a user or of a model of users, of a child the parent's."""
    field = user._meta.pk
    while field.remote_field:
        field = field.remote_field.get_related_field()
    return field


def resolve_owner(request: Any, *, allow_anonymous: bool = False) -> Owner | None:
    """Return the owner that `request` acts for, or None where it has no durable identity.

    `request` is a Django or DRF request, or a `RunRequest`, which carries its owner already. An anonymous request has
    an owner only with `allow_anonymous`, and then only where it has a session.
    """
    if hasattr(request, "owner"):
        owner: Owner | None = request.owner
        return owner if owner is None or allow_anonymous or not owner.is_anonymous else None
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated and user.pk is not None:
        return Owner.of_user(user)
    session = getattr(request, "session", None)
    if not allow_anonymous or session is None:
        return None
    return Owner.of_bucket(_bucket(session))


def _bucket(session: Any) -> str:
    """Return the session's bucket; a new one is saved at once, because a stream outlives the session middleware."""
    bucket: str | None = session.get(BUCKET_SESSION_KEY)
    if bucket is None:
        bucket = salted_hmac(BUCKET_SESSION_KEY, secrets.token_hex(32), algorithm="sha256").hexdigest()
        session[BUCKET_SESSION_KEY] = bucket
        session.save()
    return bucket
