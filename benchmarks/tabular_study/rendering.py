"""docs/tabular.md from the records."""
from pathlib import Path


def page(folder: Path) -> str:
    return str(folder)
