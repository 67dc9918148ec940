import re

import pytest
from django.test import RequestFactory
from django.urls import resolve, reverse
from hypothesis import example, given
from hypothesis import strategies as st

from django_ag_ui.api.paths import decode_id, encode_id, mount_url

IDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@given(IDS)
@example(".")
@example("..")
@example("~")
@example("~fg")
@example("a/b")
@example("a%2Fb")
@example("\x00")
@example("émoji 🎈")
@example("x" * 1024)
def test_every_id_comes_back_from_its_path_segment(run_id: str):
    segment = encode_id(run_id)
    assert re.fullmatch(r"[A-Za-z0-9._:@~-]+", segment)
    assert segment not in (".", "..")
    assert decode_id(segment) == run_id


@given(IDS, IDS)
def test_no_two_ids_share_a_segment(one: str, another: str):
    assert (encode_id(one) == encode_id(another)) == (one == another)


@pytest.mark.parametrize("run_id", ["run-1", "a.b", "user:7@host", "...", "A_b"])
def test_plain_ids_stand_as_they_are(run_id: str):
    assert encode_id(run_id) == run_id


@pytest.mark.parametrize("literal", ["a b", "été", "~abc", "~", "~!!", "a~b", "100%"])
def test_a_literal_id_is_understood_too(literal: str):
    assert decode_id(literal) == literal


@given(IDS)
def test_a_segment_survives_the_url_machinery(run_id: str):
    path = reverse("ag_ui:run", kwargs={"run": encode_id(run_id)}, urlconf="tests.api.urls")
    assert "%" not in path
    assert resolve(path, urlconf="tests.api.urls").kwargs == {"run": encode_id(run_id)}


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/agent/", "/agent/"),
        ("/agent/runs/r1/", "/agent/"),
        ("/agent/runs/r1/effects/c1/resolve/", "/agent/"),
        ("/teams/red/agent/resume/r1/", "/teams/red/agent/"),
    ],
)
def test_the_mount_is_found_from_any_of_its_routes(path: str, mount: str):
    request = RequestFactory().get(path)
    request.resolver_match = resolve(path, urlconf="tests.api.urls")
    request.urlconf = "tests.api.urls"
    assert mount_url(request) == mount
