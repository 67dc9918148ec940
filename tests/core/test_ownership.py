import uuid

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.db import models
from django.test import RequestFactory

from django_pydantic_agent.ownership import Owner, resolve_owner
from django_pydantic_agent.runs.request import RunRequest


class UuidUser(models.Model):
    id = models.UUIDField(primary_key=True)
    is_authenticated = True

    class Meta:
        app_label = "tests"


class TextUser(models.Model):
    name = models.CharField(primary_key=True, max_length=150)
    is_authenticated = True

    class Meta:
        app_label = "tests"


def request(user, session=None):
    made = RequestFactory().get("/")
    made.user = user
    if session is not None:
        made.session = session
    return made


def test_C25_a_uuid_has_one_owner_however_it_is_written():
    key = uuid.uuid4()
    spellings = [key, str(key), key.hex, str(key).upper()]
    assert len({Owner.of_user(UuidUser(id=spelling)) for spelling in spellings}) == 1


def test_C25_no_text_key_equals_a_bucket_or_a_number():
    assert Owner.of_user(TextUser(name="anon:abc")) != Owner.of_bucket("abc")
    assert Owner.of_user(TextUser(name="01")) != Owner.of_user(TextUser(name="1"))
    assert not Owner.of_user(TextUser(name="anon:abc")).is_anonymous


def test_an_authenticated_user_owns_what_it_makes():
    assert resolve_owner(request(User(pk=7))) == Owner("user:7")


@pytest.mark.parametrize("user", [AnonymousUser(), User()])
def test_without_a_saved_user_nobody_owns_anything(user):
    assert resolve_owner(request(user, SessionStore())) is None
    assert resolve_owner(request(user), allow_anonymous=True) is None


def test_a_bucket_lasts_as_long_as_its_session_and_holds_nothing_of_its_key(db):
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    owner = resolve_owner(request(AnonymousUser(), session), allow_anonymous=True)
    again = SessionStore(session.session_key)
    assert resolve_owner(request(AnonymousUser(), again), allow_anonymous=True) == owner
    assert session.session_key not in owner.key
    again.cycle_key()
    assert resolve_owner(request(AnonymousUser(), again), allow_anonymous=True) == owner
    again.flush()
    assert resolve_owner(request(AnonymousUser(), again), allow_anonymous=True) != owner


def test_a_run_request_carries_its_owner_and_anonymous_ones_only_where_they_are_allowed():
    carried = RunRequest(user=None, owner=Owner.of_bucket("b"), run_id="r", thread_id="t")
    assert resolve_owner(carried, allow_anonymous=True) == Owner.of_bucket("b")
    assert resolve_owner(carried) is None
