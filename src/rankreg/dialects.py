"""How a CSV file is written: separator, decimal mark and encoding, as told or as a sample shows."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Separator = Literal[",", ";", "\t", "|"]
Decimal = Literal[".", ","]


class Dialect(BaseModel):
    """How a CSV file is written.

    separator: what stands between two fields.
    decimal: the decimal mark of numbers.
    encoding: how characters are stored, by Python's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    separator: Separator = ","
    decimal: Decimal = "."
    encoding: str = "utf-8-sig"
