"""`{% ag_ui_picker %}` in a template of the project, and static files whose names carry their content."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import call_command
from django.template import Context, Template
from django.test import Client, RequestFactory
from pytest_django import Settings

from tests.api.posting import frames, post
from tests.api.tabs import Tab
from tests.ui.reading import read

pytestmark = pytest.mark.django_db


def rendered(tag: str, user, path: str = "/"):
    request = RequestFactory().get(path)
    request.user, request.session = user, {}
    return read(Template(f"{{% load ag_ui %}}{{% {tag} %}}").render(Context({"request": request})))


def test_the_tag_shows_the_newest_of_a_mount_whatever_the_query_of_the_page(client: Client, user):
    Tab(client, thread_id="t1").say("one question")
    Tab(client, thread_id="t2").say("another question")
    shown = rendered('ag_ui_picker "talk"', user, "/?q=one&status=no+such&cursor=of+the+page")
    assert [row["data-id"] for row in shown.all("li", class_="ag-ui-row")] == ["t2", "t1"]
    assert shown.one("ag-ui-picker")["data-rows"] == "/talk/ui/rows/?"
    assert shown.link("Archived") == "/talk/ui/?archived=1"
    assert shown.one("form", role="search")["action"] == "/talk/ui/"


def test_the_tag_takes_what_the_url_of_a_mount_takes(client: Client, user):
    frames(post(client, "/teams/red/agent/", "r1", "a question"))
    shown = rendered('ag_ui_picker "teams:team" team="red"', user)
    (row,) = shown.all("li", class_="ag-ui-row")
    assert row.link("a question") == "/teams/red/agent/ui/runs/r1/"


def test_the_tag_shows_nothing_to_who_may_not_use_the_mount():
    assert rendered('ag_ui_picker "talk"', AnonymousUser()).all() == []


# What names a side of the screen, and not of the text.
PHYSICAL = re.compile(r"^\s*(?!-)[a-z-]*(?:left|right|top|bottom|width|(?<!line-)height)[a-z-]*:", re.MULTILINE)


def test_the_style_sheet_names_no_side_of_the_screen():
    css = Path(__file__).parents[2] / "django_ag_ui/static/django_ag_ui/ui/ui.css"
    assert PHYSICAL.findall(css.read_text()) == []


def test_pages_work_with_static_files_that_are_named_for_their_content(
    client: Client, settings: Settings, tmp_path: Path
):
    storage = "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": storage}}
    settings.STATIC_ROOT, settings.DEBUG = tmp_path, False
    call_command("collectstatic", verbosity=0)
    Tab(client).say("hello")
    for url in ("/talk/ui/", "/talk/ui/threads/t1/"):
        files = re.findall(r'(?:src|href)="/static/([^"]+)"', client.get(url).content.decode())
        assert len(files) == 3
        assert all(re.search(r"\.[0-9a-f]{12}\.", name) and (tmp_path / name).exists() for name in files)
        for name in files:
            for module in re.findall(r'from "\./([^"]+)"', (tmp_path / name).read_text()):
                assert (tmp_path / "django_ag_ui/ui" / module).exists()
