"""Operating points: certified thresholds, intervals, paired comparison, monitoring. numpy and SciPy only.

These functions need scores and labels, not the model. Every result is a frozen dataclass with
`to_dict()`.
"""

from rankreg.notation import Record, percent
from rankreg.operating.bootstrap import error_at_tpr_intervals, population_draws
from rankreg.operating.certification import (
    ChosenThreshold,
    GroupPoints,
    TargetPoints,
    certify,
    certify_groups,
    certify_targets,
    choose_threshold,
)
from rankreg.operating.comparison import (
    Comparison,
    Difference,
    compare,
    detectable,
    p_value,
    paired,
    standard_deviation,
    still_significant,
)
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    certified_rank,
    fpr_share,
    highest_tpr,
    joint_ranks,
    lower_bound,
    positives_needed,
    shortfall_risk,
    units_needed,
    upper_bound,
)
from rankreg.operating.intervals import Interval, auc_interval, aucs, fpr_at_tpr_interval, mean_of, share_interval
from rankreg.operating.monitoring import Recertification, Watch, monitor, recertify
from rankreg.operating.points import CostChoice, Costs, Finding, OperatingPoint, Uncertified, assumption, findings
from rankreg.operating.units import Per, UnitSizes

__all__ = [
    "ChosenThreshold",
    "Comparison",
    "CostChoice",
    "Costs",
    "Difference",
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
    "choose_threshold",
    "compare",
    "detectable",
    "error_at_tpr_intervals",
    "findings",
    "fpr_at_tpr_interval",
    "fpr_share",
    "highest_tpr",
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
