import pytest
from pytest_django import Settings

from django_ag_ui import build_ag_ui_config


def test_defaults_stand_where_nothing_is_said():
    config = build_ag_ui_config()
    assert (config.run_list_limit, config.keep_alive_seconds, config.access_recheck_seconds) == (50, 15, 30)


def test_keywords_win_over_the_settings(settings: Settings):
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMIT": 10, "MAX_BODY_BYTES": 1000}
    config = build_ag_ui_config(run_list_limit=0)
    assert (config.run_list_limit, config.max_body_bytes) == (0, 1000)


def test_an_unknown_key_is_refused_with_the_nearest_match():
    with pytest.raises(TypeError, match=r"unknown key 'run_list_limt'; did you mean 'run_list_limit'\?"):
        build_ag_ui_config(run_list_limt=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"run_list_limit": "50"}, "run_list_limit must be a whole number, not '50'"),
        ({"run_list_limit": True}, "run_list_limit must be a whole number, not True"),
        ({"run_list_limit": -1}, "run_list_limit must be 0 or more, not -1"),
        ({"max_stream_seconds": -1}, "max_stream_seconds must be 0 or more, not -1"),
        ({"slow_viewer_seconds": 0}, "slow_viewer_seconds must be more than 0, not 0"),
        ({"keep_alive_seconds": 0}, "keep_alive_seconds must be more than 0, not 0"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(keywords: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        build_ag_ui_config(**keywords)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        build_ag_ui_config().run_list_limit = 1  # type: ignore[misc]
