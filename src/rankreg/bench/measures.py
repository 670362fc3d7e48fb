"""The paper's numbers of one run, in percent."""

from collections.abc import Sequence

import numpy as np

from rankreg.bench.grids import DATA, Data
from rankreg.metrics import auc, error_at_tpr, fpr_at_tpr
from rankreg.scores import Scores


def names_of(data: Data) -> tuple[str, ...]:
    """What is measured on a data set, as the published tables call it."""
    if data.several_classes:
        return (*(f"error@{100 * tpr:.0f}tpr" for tpr in data.tprs), "accuracy")
    return (*(f"fpr@{100 * tpr:.0f}" for tpr in data.tprs), "auc")


def measures(name: str, parts: Sequence[Scores], critical: int = 1) -> dict[str, float]:
    """FPR at each TPR and AUC; with several classes the others' error at each TPR of the critical one, accuracy."""
    data = DATA[name]
    labels = np.concatenate([part.labels for part in parts])
    values = np.concatenate([part.values for part in parts]).astype(np.float64)
    if data.several_classes:
        accuracy = (values.argmax(axis=1) == labels).mean()
        found = [*error_at_tpr(labels, values, data.tprs, critical=critical), accuracy]
    else:
        found = [*fpr_at_tpr(labels, values, data.tprs), auc(labels, values)]
    return {key: round(100 * float(value), 3) for key, value in zip(names_of(data), found, strict=True)}
