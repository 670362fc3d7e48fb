"""The desk's command line and its table of scores."""

from tests.test_desk_cli import run, table

__all__ = ["run", "table"]
