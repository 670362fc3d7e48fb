"""Operating points as JSON."""

import json
import math
from pathlib import Path
from typing import Any

from rankreg._untrusted import read_json
from rankreg.operating import Per

PROMISES: dict[str, Per] = {"row": "row", "unit": "unit"}


def saved_point(path: Path) -> tuple[float, float, float, Per]:
    """Threshold, TPR, confidence and whose recall an operating point promises that `certify --json` wrote."""
    advice = ": it is not an operating point; write one with `rankreg certify … --json`"
    content = read_json(path, advice)
    if isinstance(content, dict) and "points" in content:
        raise ValueError(f"{path} holds several operating points: pass --threshold and --tpr of the one in use")
    try:
        per = PROMISES[content.get("per", "row")]  # points once had no such field
        return float(content["threshold"]), float(content["tpr"]), float(content["confidence"]), per
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} lacks a threshold, a TPR or a confidence{advice}") from error


def to_json(record: dict[str, Any]) -> str:
    """JSON that every parser reads and every terminal shows: an infinite number becomes the text "inf" or "-inf",
    and a letter beyond ASCII its number."""
    return json.dumps(_finite(record), indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
