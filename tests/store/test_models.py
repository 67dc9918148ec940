"""What the tables promise to every project and every database."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models
from django.db.models.fields.json import JSONField

from django_pydantic_agent.contrib.store.fields import InstantField, from_microseconds, to_microseconds
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run

ROOT = Path(__file__).parent.parent.parent
LABEL = "django_pydantic_agent_store"
MODELS = list(apps.get_app_config(LABEL).get_models())

needs_mysqlclient = pytest.mark.skipif(find_spec("MySQLdb") is None, reason="not installed: mysqlclient")

LONGEST_KEY = 3072
BYTES_PER_CHARACTER = 4


def bytes_of(field: models.Field) -> int:
    if isinstance(field, models.CharField):
        return field.max_length * BYTES_PER_CHARACTER
    assert not isinstance(field, models.TextField | models.BinaryField | JSONField), f"{field} cannot be a key"
    return 8


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_C10_each_index_fits_into_a_key_of_mariadb(model):
    keys = [index.fields for index in model._meta.indexes]
    keys += [constraint.fields for constraint in model._meta.constraints]
    keys += [[field.name] for field in model._meta.local_fields if field.unique or field.db_index]
    assert keys
    for key in keys:
        assert sum(bytes_of(model._meta.get_field(name)) for name in key) < LONGEST_KEY


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_names_of_indexes_and_constraints_are_permanent(model):
    names = {item.name for item in [*model._meta.indexes, *model._meta.constraints]}
    assert all(name.startswith("dpa_store_") for name in names)
    assert not [field.name for field in model._meta.local_fields if field.db_index]


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_database_has_these_indexes_and_no_second_one_of_the_same_columns(model):
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, model._meta.db_table)
    names = {item.name for item in [*model._meta.indexes, *model._meta.constraints]}
    assert names <= set(found)
    keys = [tuple(details["columns"]) for details in found.values() if details["index"] or details["unique"]]
    assert len(keys) == len(set(keys))


def test_no_model_refers_to_the_user():
    targets = {
        field.related_model for model in MODELS for field in model._meta.local_fields if field.related_model is not None
    }
    assert targets <= set(MODELS)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changes",
    [
        {"DEFAULT_AUTO_FIELD": "django.db.models.AutoField"},
        {"DEFAULT_AUTO_FIELD": "django.db.models.SmallAutoField"},
        {"USE_TZ": False},
        {"LANGUAGE_CODE": "de"},
    ],
    ids=str,
)
def test_C33_the_migrations_are_complete_under_any_settings(settings, changes):
    for name, value in changes.items():
        setattr(settings, name, value)
    call_command("makemigrations", LABEL, check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("engine", ["sqlite3", "postgresql", pytest.param("mysql", marks=needs_mysqlclient)])
def test_C33_the_migrations_are_complete_in_a_process_with_that_auto_field(engine, tmp_path):
    program = f"""
from tests.settings import *
DATABASES = {{"default": {{"ENGINE": "django.db.backends.{engine}", "NAME": {str(tmp_path / "db")!r}}}}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "django_ag_ui"]
ROOT_URLCONF = "tests.urls"
"""
    (tmp_path / "other_settings.py").write_text(program)
    code = f"""
import django
django.setup()
from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
loader = MigrationLoader(None)
changes = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps)).changes(loader.graph)
assert not changes.get("{LABEL}"), changes
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "other_settings", "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.django_db
@pytest.mark.parametrize("use_tz", [True, False])
def test_C35_an_instant_is_read_as_it_was_written(settings, use_tz):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "America/New_York"
    instant = datetime(2026, 11, 1, 5, 30, 0, 1, tzinfo=UTC)
    run = Run.objects.create(run_id="run", created_at=instant)
    assert Run.objects.get(created_at=instant).created_at == instant
    assert Run.objects.filter(created_at__lt=instant).count() == 0
    assert Run.objects.get(pk=run.pk).finished_at is None


@pytest.mark.parametrize("other", [("ab", "c"), ("a", "bc", ""), ("a2:bc",), ("a", "b\0c"), ("a", "\ud800bc")])
def test_digests_tell_apart_where_one_text_ends_and_the_next_begins(other):
    assert digest("a", "bc") != digest(*other)
    assert len(digest(*other)) == 64


@pytest.mark.parametrize(
    "instant", [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(9999, 1, 1, tzinfo=UTC)]
)
def test_microseconds_are_exact(instant):
    assert from_microseconds(to_microseconds(instant)) == instant
    assert to_microseconds(instant.replace(tzinfo=None)) == to_microseconds(instant)
    assert InstantField().get_prep_value(None) is None
