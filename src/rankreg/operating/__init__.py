"""Operating points: certified thresholds, intervals, paired comparison, monitoring. numpy and SciPy only.

These functions need scores and labels, not the model. Every result is a frozen dataclass with
`to_dict()`.
"""

from rankreg.operating.certification import (
    GroupPoints,
    TargetPoints,
    certify,
    certify_groups,
    certify_targets,
)
from rankreg.operating.comparison import Comparison, Difference, compare
from rankreg.operating.guarantees import NotEnoughPositives, highest_tpr, positives_needed
from rankreg.operating.intervals import Interval, auc_interval, fpr_at_tpr_interval, share_interval
from rankreg.operating.monitoring import Recertification, Watch, monitor, positives_until_alarm, recertify
from rankreg.operating.points import CostChoice, Costs, Finding, OperatingPoint, Uncertified, findings
from rankreg.operating.promise_certification import (
    PromisedGroups,
    ReviewGroups,
    UncertifiedGroup,
    certify_promises,
    certify_review,
)
from rankreg.operating.promises import Closest, Conflict, Promise, PromisedPoint, Promises
from rankreg.operating.reviews import Review
from rankreg.operating.score_drift import Drift, drift
from rankreg.operating.score_spool import ScoreSpool
from rankreg.operating.score_summary import ScoreSummary
from rankreg.operating.thresholds import (
    ChosenThreshold,
    PromisedThreshold,
    choose_threshold,
    cross_fitted_threshold,
    price_of_certifying,
    promised_threshold,
)

__all__ = [
    "ChosenThreshold",
    "Closest",
    "Comparison",
    "Conflict",
    "CostChoice",
    "Costs",
    "Difference",
    "Drift",
    "Finding",
    "GroupPoints",
    "Interval",
    "NotEnoughPositives",
    "OperatingPoint",
    "Promise",
    "PromisedGroups",
    "PromisedPoint",
    "PromisedThreshold",
    "Promises",
    "Recertification",
    "Review",
    "ReviewGroups",
    "ScoreSpool",
    "ScoreSummary",
    "TargetPoints",
    "Uncertified",
    "UncertifiedGroup",
    "Watch",
    "auc_interval",
    "certify",
    "certify_groups",
    "certify_promises",
    "certify_review",
    "certify_targets",
    "choose_threshold",
    "compare",
    "cross_fitted_threshold",
    "drift",
    "findings",
    "fpr_at_tpr_interval",
    "highest_tpr",
    "monitor",
    "positives_needed",
    "positives_until_alarm",
    "price_of_certifying",
    "promised_threshold",
    "recertify",
    "share_interval",
]
