"""Results that turn into JSON, and the checks that every function here shares."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """A frozen result; `to_dict()` holds only what JSON knows, but for infinite thresholds."""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, nested results too."""
        return asdict(self)


@dataclass(frozen=True)
class Interval(Record):
    """An estimate, and bounds that hold with a confidence."""

    estimate: float
    low: float
    high: float
    confidence: float


def check_share(value: float, name: str, example: str) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}: {example}")
    return float(value)


def check_confidence(value: float) -> float:
    """A confidence level."""
    return check_share(value, "confidence", "write 0.95 for 95 %")


def check_target(value: float) -> float:
    """A TPR that a sample can certify; 1 never is, since no sample is proof against every miss."""
    return check_share(value, "tpr", "write 0.98 for 98 %; 100 % cannot be certified from a sample")
