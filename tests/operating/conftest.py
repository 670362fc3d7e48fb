"""The desk's table of scores."""

from tests.test_desk_cli import table

__all__ = ["table"]
