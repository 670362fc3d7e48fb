"""Which of two classes is the critical one, said as scikit-learn says it."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from rankreg.labels import alike


def binary_target(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """The targets as an array (N,) and their two classes, sorted; anything else is scikit-learn's own error."""
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None.")
    target: NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(target, input_name="y")
    check_classification_targets(target)
    kind = type_of_target(target, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    classes = np.unique(target)
    if len(classes) < 2:
        raise ValueError(f"Two classes are needed, y holds 1 class only: {classes.tolist()!r:.80}")
    first, second = map(str, classes.tolist())
    if classes.dtype.kind in "OUST" and alike(first, second):
        raise ValueError(f"The classes {first!r} and {second!r} of y look like one: spell them alike.")
    return target, classes


def positive_class(classes: NDArray[Any], pos_label: Any, *, must_be_named: bool) -> int:
    """The place of the critical class in `classes`: that of `pos_label`, or 1, the greater of two numbers.

    Of two words the alphabet does not know which one is critical, so `pos_label` must name it; where nothing is
    promised about that class (must_be_named=False) a warning does.
    """
    if pos_label is not None:
        places = np.flatnonzero([label == pos_label for label in classes.tolist()])
        if not len(places):
            raise ValueError(
                f"pos_label={pos_label!r} is not a valid label: It should be one of {classes.tolist()}"
            )
        return int(places[0])
    if classes.dtype.kind in "OUST" and not all(isinstance(label, int | float) for label in classes.tolist()):
        said = f"y takes value in {set(classes.tolist())!r:.120} and pos_label is not specified: pass pos_label"
        if must_be_named:
            raise ValueError(f"{said}, the class whose misses are expensive")
        warnings.warn(f"{said}; the last by the alphabet, {classes[1]!r:.60}, is taken", UserWarning, stacklevel=3)
    return 1
