"""Operating points: certified thresholds, intervals, paired comparison, monitoring. numpy and SciPy only.

Needs scores and labels, not the model. Every result is a frozen dataclass with `to_dict()`.
"""

from rankreg.operating._records import Interval, Record
from rankreg.operating.certification import GroupPoints, TargetPoints, certify, certify_groups, certify_targets
from rankreg.operating.comparison import Comparison, Difference, compare, paired
from rankreg.operating.delong import auc_interval, aucs
from rankreg.operating.exact import (
    NotEnoughPositives,
    certified_rank,
    highest_tpr,
    lower_bound,
    percent,
    positives_needed,
    shortfall_risk,
    units_needed,
    upper_bound,
)
from rankreg.operating.findings import Finding, findings
from rankreg.operating.intervals import fpr_at_tpr_interval
from rankreg.operating.joint import dependent_share, fpr_share, independent_share, joint_confidence, joint_ranks
from rankreg.operating.monitoring import Recertification, Watch, monitor, recertify
from rankreg.operating.points import CostChoice, Costs, OperatingPoint, Per, Uncertified, assumption
from rankreg.operating.populations import error_at_tpr_intervals, population_draws, share_interval
from rankreg.operating.repeats import (
    Estimate,
    detectable,
    mean_of,
    p_value,
    standard_deviation,
    still_significant,
)
from rankreg.operating.units import UnitSizes

__all__ = [
    "Comparison",
    "CostChoice",
    "Costs",
    "Difference",
    "Estimate",
    "Finding",
    "GroupPoints",
    "Interval",
    "NotEnoughPositives",
    "OperatingPoint",
    "Per",
    "Recertification",
    "Record",
    "TargetPoints",
    "Uncertified",
    "UnitSizes",
    "Watch",
    "assumption",
    "auc_interval",
    "aucs",
    "certified_rank",
    "certify",
    "certify_groups",
    "certify_targets",
    "compare",
    "dependent_share",
    "detectable",
    "error_at_tpr_intervals",
    "findings",
    "fpr_at_tpr_interval",
    "fpr_share",
    "highest_tpr",
    "independent_share",
    "joint_confidence",
    "joint_ranks",
    "lower_bound",
    "mean_of",
    "monitor",
    "p_value",
    "paired",
    "percent",
    "population_draws",
    "positives_needed",
    "recertify",
    "share_interval",
    "shortfall_risk",
    "standard_deviation",
    "still_significant",
    "units_needed",
    "upper_bound",
]
