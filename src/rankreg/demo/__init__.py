"""A rare digit, learned with and without rankreg, in about a minute: what each part of the method adds."""

from rankreg.demo.pages import write_page
from rankreg.demo.runs import ARMS, SPLITS, Arm, run_all
from rankreg.demo.statistics import contrasts, results_of
from rankreg.demo.words import result_table, verdict_lines
from rankreg.operating.repeats import Estimate, mean_of

__all__ = [
    "ARMS",
    "SPLITS",
    "Arm",
    "Estimate",
    "contrasts",
    "mean_of",
    "result_table",
    "results_of",
    "run_all",
    "verdict_lines",
    "write_page",
]
