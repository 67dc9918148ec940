import json
from dataclasses import dataclass
from decimal import Decimal

import pytest
from django.test import override_settings
from pydantic_ai import BinaryContent

from django_pydantic_agent.policy.redaction import short_text


def limited(characters, **settings):
    return override_settings(DJANGO_PYDANTIC_AGENT={"EFFECT_PREVIEW_CHARACTERS": characters, **settings})


@dataclass
class Login:
    name: str
    password: str


class Unspeakable:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("key", ["password", "API-Key", "apiKey", "X-Auth-Token", "client_secret", "Set-Cookie"])
def test_what_stands_under_a_secret_key_is_hidden_at_any_depth(key):
    assert json.loads(short_text([{"a": {key: {"deep": ["marker"]}}, "b": 1}])) == [{"a": {key: "[redacted]"}, "b": 1}]


def test_a_project_says_which_keys_are_secret():
    with limited(100, REDACTED_KEYS=["pin"]):
        assert short_text({"PIN-code": 1, "token": 2}) == '{"PIN-code":"[redacted]","token":2}'


def test_C13_numbers_keep_their_digits():
    number = 2512292042121000001
    huge = 10**400
    with limited(2_000):
        assert short_text([number, huge, Decimal("1.10")]) == f'[{number},{huge},"1.10"]'


def test_C08_C09_the_text_is_storable_json():
    assert short_text(["a\0b\ud800", float("nan"), float("inf")]) == '["a\ufffdb\ufffd",null,null]'


def test_values_of_any_kind_have_a_text():
    assert short_text(Login("ada", "marker")) == '{"name":"ada","password":"[redacted]"}'
    assert short_text(b"12345") == '"[5 bytes]"'
    assert short_text(BinaryContent(b"1234", media_type="image/png")) == '"[4 bytes]"'
    assert short_text({1}) == "[1]"
    assert "Unspeakable" in short_text([Unspeakable()])


def test_the_text_is_cut_at_the_limit():
    with limited(20):
        assert short_text({"a": "x" * 9}) == '{"a":"xxxxxxxxx"}'
        assert short_text({"a": "x" * 30}) == '{"a":"xxxxxxxxxxxxx…'
        assert len(short_text([[[["deep"] * 50] * 50] * 50] * 50)) == 20
    with limited(0):
        assert short_text({"a": 1}) == ""


def test_little_is_read_of_large_data():
    read = []

    class Watched(list):
        def __iter__(self):
            for item in super().__iter__():
                read.append(item)
                yield item

    with limited(100):
        short_text(Watched(range(1_000_000)))
    assert len(read) <= 101


def test_data_that_holds_itself_has_no_text():
    data = []
    data.append(data)
    with limited(100_000):
        assert short_text(data) == ""
