"""False alarms at a recall, as a scikit-learn scorer."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer

from rankreg.labels import binary_target, positive_class
from rankreg.metrics import fpr_at_tpr


def make_fpr_at_tpr_scorer(tpr: float = 0.95, *, pos_label: Any = None) -> Any:
    """A scorer for any scikit-learn search: minus the FPR at a TPR, so that greater is better.

    It uses `decision_function`, or else `predict_proba`, and the threshold of each fold. With fewer
    than 1 / (1 − tpr) positives in a fold it is the FPR at a TPR of 100 %.

    Args:
        tpr: The TPR, 0.95.
        pos_label: The critical class. None is 1, or the greater of two numbers. Strings need it.

    Returns:
        A scorer, to be called as `scorer(classifier, X, y)`.

    Raises:
        ValueError: `tpr` does not lie in (0, 1].

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bool(-0.5 < make_fpr_at_tpr_scorer(0.95, pos_label=0)(GaussianNB().fit(X, y), X, y) < 0)
    True
    """
    fpr_at_tpr([0, 1], [0.0, 1.0], tpr)  # a TPR that makes no sense is said here, not after the first fit
    settings = {} if pos_label is None else {"pos_label": pos_label}
    return make_scorer(
        fpr_at_tpr_of_class,
        greater_is_better=False,
        response_method=("decision_function", "predict_proba"),
        tpr=tpr,
        **settings,
    )


def fpr_at_tpr_of_class(y_true: ArrayLike, y_score: ArrayLike, *, tpr: float, pos_label: Any = None) -> float:
    """`rankreg.metrics.fpr_at_tpr` for labels of any kind; scores are high for the class `pos_label`."""
    labels, classes = binary_target(y_true)
    place = positive_class(classes, pos_label, must_be_named=True)
    return fpr_at_tpr(labels == classes[place], y_score, tpr)
