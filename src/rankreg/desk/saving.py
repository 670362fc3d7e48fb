"""Operating points as JSON."""

import json
import math
from pathlib import Path
from typing import Any

from rankreg.operating import Per

PROMISES: dict[str, Per] = {"row": "row", "unit": "unit"}


def saved_point(path: Path) -> tuple[float, float, float, Per]:
    """Threshold, TPR, confidence and whose recall an operating point promises that `certify --json` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and "points" in content:
            raise ValueError(f"{path} holds several operating points: pass --threshold and --tpr of the one in use")
        per = content.get("per", "row")  # points once had no such field
        if per not in PROMISES:
            raise KeyError(per)
        return float(content["threshold"]), float(content["tpr"]), float(content["confidence"]), PROMISES[per]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not an operating point: write one with `rankreg certify … --json`") from error


def to_json(record: dict[str, Any]) -> str:
    """JSON that every parser reads: an infinite number becomes the text "inf" or "-inf"."""
    return json.dumps(_finite(record), indent=2, allow_nan=False, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
