"""Measure the figures of docs/explanation/performance.md: `python -m benchmarks [--rounds N] [figure ...]`.

TEST_DATABASE names the database: sqlite (default), postgres or mariadb. The exit status is 1 where a bound does not
hold.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django

FIGURES = (
    "throughput",
    "latency",
    "first_byte",
    "steps",
    "ledger",
    "threads",
    "attach",
    "run_list",
    "open_streams",
    "setup",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("`")[0])
    parser.add_argument("figures", nargs="*", metavar="figure", help=f"one of {', '.join(FIGURES)}; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="how often each pair is measured (default: 5)")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"unknown figure: {', '.join(sorted(unknown))}")
    with database():
        from importlib import import_module

        from benchmarks.report import table

        holds = True
        for name in options.figures or FIGURES:
            print(f"measuring {name} ...", file=sys.stderr)
            rows = list(import_module(f"benchmarks.figures.{name}").measure(options.rounds))
            print(table(rows), flush=True)
            holds &= all(row.holds for row in rows)
    return 0 if holds else 1


@contextmanager
def database() -> Iterator[None]:
    """Create the database that this process and the servers share; drop it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        name = f"django_ag_ui_bench_{os.getpid()}"
        on_file = os.environ.get("TEST_DATABASE", "sqlite") == "sqlite"
        os.environ["TEST_DATABASE_NAME"] = str(Path(directory) / f"{name}.sqlite3") if on_file else name
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        django.setup()
        from django.db import connection

        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        try:
            yield
        finally:
            connection.creation.destroy_test_db(os.environ["TEST_DATABASE_NAME"], verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
