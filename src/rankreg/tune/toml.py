"""A config as a TOML file that `TrainConfig.from_toml` and `rankreg fit --config` read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankreg.train import TrainConfig


def config_toml(config: TrainConfig, comments: Sequence[str] = ()) -> str:
    """Every key, so that a later default changes nothing; but not tpr, which `rankreg fit` takes as an option."""
    content = config.model_dump(mode="json", exclude_none=True, exclude={"tpr"})
    return "\n".join([*(f"# {line}" for line in comments), *_lines(content, ())]) + "\n"


def _lines(content: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    """Plain values first, then one section for each table in it."""
    for key, value in content.items():
        if not isinstance(value, Mapping):
            yield f"{key} = {_written(value)}"
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join((*place, key))}]"
            yield from _lines(value, (*place, key))


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    # TOML writes strings, numbers and truth values as JSON does, but has no surrogates and no bare DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
