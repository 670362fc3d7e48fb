"""Scores in, one self-contained HTML page out: what a threshold costs, for those who must decide on it.

Works without torch and without a network; the page needs neither server nor library (docs/decisions/0025).
"""

from rankreg.report.page import Settings, write
from rankreg.report.scored_model import Model, SummarizedModel

__all__ = ["Model", "Settings", "SummarizedModel", "write"]
