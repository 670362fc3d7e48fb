"""`fpr_at_tpr` against going through scikit-learn's ROC curve."""

import numpy as np
from rich.table import Table
from sklearn.metrics import roc_curve

from benchmarks.timing import best_times, duration
from rankreg.metrics import auc, fpr_at_tpr

SAMPLES = 10_000_000
TARGET = 5.0


def table() -> Table:
    """Ten million scores, one in a thousand positive."""
    generator = np.random.default_rng(0)
    scores = generator.standard_normal(SAMPLES)
    labels = (np.arange(SAMPLES) % 1000 == 0).astype(np.int64)

    def through_the_curve() -> float:
        fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
        return float(fpr[np.argmax(tpr >= 0.98)])

    assert through_the_curve() == fpr_at_tpr(labels, scores, 0.98)
    times = best_times(
        {
            "scikit-learn": through_the_curve,
            "one TPR": lambda: fpr_at_tpr(labels, scores, 0.98),
            "four TPRs": lambda: fpr_at_tpr(labels, scores, [0.9, 0.92, 0.95, 0.98]),
            "AUC": lambda: auc(labels, scores),
        },
        least_rounds=3,
    )
    result = Table(title=f"Metrics of {SAMPLES:,} scores")
    for column in ("what", "time", "scikit-learn's roc_curve ÷ ours"):
        result.add_column(column, justify="right")
    curve = times.pop("scikit-learn")
    result.add_row("scikit-learn's roc_curve", duration(curve), "")
    for name, seconds in times.items():
        speedup = curve / seconds
        target = f" ({'met' if speedup >= TARGET else 'MISSED'}: ≥ {TARGET:g})" if name != "AUC" else ""
        result.add_row(name, duration(seconds), f"{speedup:.1f} ×{target}")
    return result
