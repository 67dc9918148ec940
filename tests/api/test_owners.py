"""C25: whose runs are shown, whatever the primary key of a user looks like."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db import models
from django.test import Client
from django.test.utils import isolate_apps

from django_pydantic_agent.contrib.store.models import Run
from tests.api import urls
from tests.api.posting import events, frames, post, text_of

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.fixture
def user_model() -> Iterator[Callable[[Any], type[AbstractBaseUser]]]:
    """Make user models with a primary key of any kind."""
    with isolate_apps("django.contrib.auth"):

        def user_model(key: Any) -> type[AbstractBaseUser]:
            class Person(AbstractBaseUser):
                id = key

                class Meta:
                    app_label = "auth"

            return Person

        yield user_model


def runs_of(person: Any) -> list[str]:
    urls.get_user.does = lambda request: person
    return [run["run_id"] for run in Client().get("/hooked/runs/").json()["runs"]]


def start(person: Any, run_id: str) -> str:
    urls.get_user.does = lambda request: person
    return text_of(events(post(Client(), "/hooked/", run_id, "hi")))


def test_C25_a_uuid_with_and_without_dashes_is_one_owner(db: None, user_model: Any):
    person = user_model(models.UUIDField(primary_key=True))
    assert start(person(pk=UUID), "r1") == "echo hi"
    assert runs_of(person(pk=str(UUID))) == runs_of(person(pk=UUID.hex)) == ["r1"]
    assert runs_of(person(pk=uuid.UUID(int=1))) == []


def test_C25_a_text_key_of_150_characters_works(db: None, user_model: Any):
    person = user_model(models.CharField(primary_key=True, max_length=150))
    assert start(person(pk="ä" * 150), "r1") == "echo hi"
    assert runs_of(person(pk="ä" * 150)) == ["r1"]
    assert runs_of(person(pk="ä" * 149)) == []


def test_C25_keys_that_look_alike_are_different_owners(db: None, user_model: Any):
    person = user_model(models.CharField(primary_key=True, max_length=150))
    for number, key in enumerate(["1", "01", " 1", "1 ", "a", "A"]):
        start(person(pk=key), f"r{number}")
    for number, key in enumerate(["1", "01", " 1", "1 ", "a", "A"]):
        assert runs_of(person(pk=key)) == [f"r{number}"]


def test_nothing_is_left_of_a_post_whose_user_is_deleted_meanwhile(live: None, user: User, client: Client):
    urls.context.does = lambda request: User.objects.filter(pk=user.pk).delete() and None
    events(post(client, "/agent/", "r1", "hi"))
    assert not Run.objects.exists()


def test_C25_no_text_key_equals_an_anonymous_bucket(db: None, user_model: Any):
    frames(post(Client(), "/public/", "r1", "hi"))
    owner = Run.objects.get().owner
    assert owner.startswith("anon:")
    person = user_model(models.CharField(primary_key=True, max_length=150))
    assert runs_of(person(pk=owner)) == runs_of(person(pk=owner.removeprefix("anon:"))) == []
