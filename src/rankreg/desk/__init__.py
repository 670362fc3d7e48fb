"""The operating-point desk: score files in, operating points in words or JSON out."""

from rankreg.desk.reading import Columns, Rows, read
from rankreg.desk.saving import saved_point, to_json
from rankreg.desk.words import (
    comparison_lines,
    finding_lines,
    group_table,
    labels_line,
    labels_record,
    point_lines,
    recertification_lines,
    target_lines,
    watch_lines,
)

__all__ = [
    "Columns",
    "Rows",
    "comparison_lines",
    "finding_lines",
    "group_table",
    "labels_line",
    "labels_record",
    "point_lines",
    "read",
    "recertification_lines",
    "saved_point",
    "target_lines",
    "to_json",
    "watch_lines",
]
