import pytest
from django.test import override_settings
from pydantic_ai import UsageLimits
from pydantic_ai.models.test import TestModel

from django_pydantic_agent.checks import check_agent_defaults, check_executors, check_lease, check_settings
from django_pydantic_agent.conf import DEFAULTS, agent_settings


def messages(check, value):
    with override_settings(DJANGO_PYDANTIC_AGENT=value):
        return [(message.id, message.msg) for message in check(None)]


def test_a_setting_wins_over_its_default_until_it_is_taken_back():
    with override_settings(DJANGO_PYDANTIC_AGENT={"POLL_SECONDS": 9}):
        assert agent_settings.POLL_SECONDS == 9
    assert DEFAULTS["POLL_SECONDS"] == agent_settings.POLL_SECONDS
    with pytest.raises(AttributeError, match="POLL_SECOND"):
        agent_settings.POLL_SECOND  # noqa: B018


def test_an_unknown_key_is_an_error_that_names_the_nearest_one():
    assert messages(check_settings, {"POLL_SECOND": 1}) == [
        (
            "django_pydantic_agent.E002",
            "DJANGO_PYDANTIC_AGENT has no key 'POLL_SECOND'; did you mean 'POLL_SECONDS'?",
        )
    ]


def test_the_setting_must_be_a_dictionary_of_usable_values():
    assert messages(check_settings, ["x"]) == [
        ("django_pydantic_agent.E001", "DJANGO_PYDANTIC_AGENT must be a dictionary.")
    ]
    assert messages(check_settings, {"POLL_SECONDS": 0, "TOOL_THREADS": "8", "MAX_ATTEMPTS": 0}) == [
        ("django_pydantic_agent.E003", "DJANGO_PYDANTIC_AGENT['MAX_ATTEMPTS'] must be a whole number above 0, not 0."),
        ("django_pydantic_agent.E003", "DJANGO_PYDANTIC_AGENT['POLL_SECONDS'] must be a number above 0, not 0."),
        (
            "django_pydantic_agent.E003",
            "DJANGO_PYDANTIC_AGENT['TOOL_THREADS'] must be a whole number above 0, not '8'.",
        ),
    ]


def test_redacted_keys_are_names_that_do_not_hide_everything():
    assert messages(check_settings, {"REDACTED_KEYS": ["pin"]}) == []
    for value in ("pin", ["pin", ""], ["_"], [1], None):
        assert messages(check_settings, {"REDACTED_KEYS": value}) == [
            (
                "django_pydantic_agent.E003",
                f"DJANGO_PYDANTIC_AGENT['REDACTED_KEYS'] must be a list of names, not {value!r}.",
            )
        ]


def test_numbers_that_may_be_zero_or_none_are_checked_too():
    zero_or_none = {
        "SHUTDOWN_GRACE_SECONDS": 0,
        "SNAPSHOT_MIN_SECONDS": 0,
        "RUN_TIMEOUT_SECONDS": None,
        "MAX_SNAPSHOTS_PER_RUN": None,
        "LOG_RETENTION_DAYS": None,
    }
    assert messages(check_settings, zero_or_none) == []
    assert messages(check_settings, {"SHUTDOWN_GRACE_SECONDS": None, "MAX_SNAPSHOTS_PER_RUN": 0}) == [
        (
            "django_pydantic_agent.E003",
            "DJANGO_PYDANTIC_AGENT['MAX_SNAPSHOTS_PER_RUN'] must be a whole number above 0 or None, not 0.",
        ),
        (
            "django_pydantic_agent.E003",
            "DJANGO_PYDANTIC_AGENT['SHUTDOWN_GRACE_SECONDS'] must be a number, 0 or more, not None.",
        ),
    ]


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("POLL_SECONDS", float("inf"), "a number above 0"),
        ("POLL_SECONDS", float("nan"), "a number above 0"),
        ("TOOL_THREADS", 2.5, "a whole number above 0"),
        ("MAX_SNAPSHOTS_PER_RUN", 1.0, "a whole number above 0 or None"),
        ("LIVE_TAIL_BYTES", True, "a whole number above 0"),
        ("MAX_ATTEMPTS", 1.5, "a whole number above 0"),
        ("EFFECT_PREVIEW_CHARACTERS", 1.5, "a whole number, 0 or more"),
    ],
)
def test_a_number_must_be_finite_and_one_that_counts_must_be_whole(key, value, wanted):
    text = f"DJANGO_PYDANTIC_AGENT[{key!r}] must be {wanted}, not {value!r}."
    assert messages(check_settings, {key: value}) == [("django_pydantic_agent.E003", text)]


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("MODEL", 4, "a pydantic_ai model, its name or None"),
        ("INSTRUCTIONS", 4, "a text, a function, a list of these or None"),
        ("MODEL_SETTINGS", "fast", "a dictionary, a function or None"),
        ("USAGE_LIMITS", {"request_limit": 3}, "a pydantic_ai.UsageLimits or None"),
    ],
)
def test_what_no_agent_can_be_given_is_an_error(key, value, wanted):
    text = f"DJANGO_PYDANTIC_AGENT[{key!r}] must be {wanted}, not {value!r}."
    assert messages(check_agent_defaults, {key: value}) == [("django_pydantic_agent.E006", text)]


@pytest.mark.parametrize(
    "values",
    [
        {"MODEL_SETTINGS": {"temperature": 0}, "USAGE_LIMITS": UsageLimits(request_limit=3)},
        {"MODEL": "test", "INSTRUCTIONS": ["one", lambda ctx: "two"]},
        {"MODEL": TestModel(), "INSTRUCTIONS": "one"},
        dict.fromkeys(("MODEL", "INSTRUCTIONS", "MODEL_SETTINGS", "USAGE_LIMITS")),
        ["x"],
    ],
)
def test_what_an_agent_can_be_given_is_none(values):
    assert messages(check_agent_defaults, values) == []


@pytest.mark.parametrize(
    "executors",
    [{}, {"default": {}}, {"default": {"BACKEND": "nowhere.Executor"}}, {"default": "nowhere.Executor"}, ["default"]],
)
def test_an_executor_that_cannot_be_made_is_an_error(executors):
    [(check_id, message)] = messages(check_executors, {"EXECUTORS": executors})
    assert check_id == "django_pydantic_agent.E004"
    assert "has no usable executor 'default'" in message


def test_the_defaults_pass():
    assert messages(check_settings, {}) == []
    assert messages(check_lease, {}) == []
    assert messages(check_executors, {}) == []
