"""What `RankRegClassifier` does with rows of numbers: cross-fit an average of learners, as `rankreg fit` does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from sklearn.utils import check_random_state

from rankreg.bundle.ensemble import Ensemble, TableViews
from rankreg.datasets.columns import LARGEST, ColumnPlan
from rankreg.datasets.preprocessing import FARTHEST, QuantileColumn, TablePreprocessor
from rankreg.datasets.table import OwnTable
from rankreg.estimators.certified_threshold import Units, check_enough, check_share
from rankreg.estimators.network_fit import (
    THRESHOLDS,
    check_folds,
    column_names,
    counted,
    is_folds,
    plain,
    promise_of,
    table_record,
    uncertified,
)
from rankreg.fit.crossfit import RacedLearner, averaged, cross_fit, folds_for, race_of
from rankreg.fit.learners import LEARNERS, RANKED, Folds, Learner
from rankreg.fit.pipeline import LARGE, judged_scores, threshold_of
from rankreg.fit.sources import CALIBRATION, cut, cut_parts, prepare
from rankreg.names import look_up
from rankreg.operating import ChosenThreshold
from rankreg.operating.guarantees import check_confidence, check_target
from rankreg.pool import cores

Labels = NDArray[np.int64]
Parts = Mapping[str, NDArray[np.int64]]

OF_THE_NETWORK = ("network", "method", "loss", "epochs", "batch_size", "learning_rate", "sampling", "training")
KNOWN: dict[str, Learner] = {**LEARNERS, **RANKED}
TPR = 0.95  # at which learners are compared when no TPR is asked for
LEAST_SLOPE = 1e-3  # of the log-odds: scores that know nothing still keep their order
SMALL_SCORE = 0.01


def given_to_the_network(estimator: Any) -> list[str]:
    """The parameters of the network that have a value."""
    return [name for name in OF_THE_NETWORK if getattr(estimator, name) not in (None, {})]


def takes_gaps(estimator: Any) -> bool:
    """Whether rows may hold NaN: only the network needs every number."""
    if estimator.learner is None:
        return not given_to_the_network(estimator)
    return not (isinstance(estimator.learner, str) and estimator.learner == "network")


def model_of(estimator: Any, data: Any) -> Literal["average", "network"]:
    """What is to be trained on such data."""
    is_images, given, learner = getattr(data, "ndim", 2) == 4, given_to_the_network(estimator), estimator.learner
    if learner is None:
        return "network" if is_images or given else "average"
    if isinstance(learner, str) and learner == "network":
        return "network"
    learners_of(learner)
    if is_images:
        raise ValueError(f"learner={learner!r} takes rows of numbers, X holds images: use learner='network'")
    if given:
        raise ValueError(
            f"{given[0]} is a parameter of the network, but learner={learner!r}: leave {given[0]} out, or use"
            " learner='network'"
        )
    return "average"


def learners_of(learner: Any) -> dict[str, Learner]:
    """The learners to be averaged, by name."""
    if learner is None or (isinstance(learner, str) and learner == "average"):
        return dict(LEARNERS)
    if isinstance(learner, str):
        look_up(dict.fromkeys([*KNOWN, "average", "network"]), learner, "learner")
        return {learner: KNOWN[learner]}
    if not isinstance(learner, Sequence | np.ndarray) or not len(learner):
        raise ValueError(f"learner must be None, 'average', 'network', a learner or several, got {learner!r:.80}")
    return {str(name): look_up(KNOWN, str(name), "learner") for name in learner}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers, prepared as `rankreg fit` prepares a table.

    names: of all columns of X. preparation: knows those that are used.
    """

    names: tuple[str, ...]
    preparation: TablePreprocessor

    def views(self, rows: NDArray[np.float64]) -> TableViews:
        """What the members of an ensemble see."""
        frame = pd.DataFrame(rows, columns=list(self.names), copy=False)
        return TableViews(self.preparation.transform(frame), self.preparation)

    def check(self, rows: NDArray[np.float64]) -> None:
        """No value is absurd, and no gap is in a column that had none: such a score would mean nothing."""
        for column in self.preparation.numeric:
            assert isinstance(column, QuantileColumn)
            place = self.names.index(column.name)
            values, (low, high) = rows[:, place], column.reach
            far = (values < max(low, -LARGEST)) | (values > min(high, LARGEST))
            if far.any():
                row = int(np.flatnonzero(far)[0])
                raise ValueError(
                    f"Input X contains values too large to be scored: X[{row}, {place}] = {values[row]:g} is more"
                    f" than {FARTHEST:,.0f} times the range of the training values away from them. Are the units"
                    " the same?"
                )
            if not column.may_miss and np.isnan(values).any():
                row = int(np.flatnonzero(np.isnan(values))[0])
                raise ValueError(
                    f"Input X contains NaN where training rows had none: X[{row}, {place}], column {column.name!r}."
                    " Fill the gap in, or fit on rows with gaps in that column."
                )


@dataclass(frozen=True)
class LogOdds:
    """From a score s, −log of the share of negatives above it, to the log-odds of the critical class.

        log p/(1 − p) = high · s + low · log(1 − exp(−s)) + offset

    This is beta calibration of the share of negatives below. It rises with the score. Below a score of
    0.01 the second term goes on with the logarithm of the distance.

    Reference: Kull, Silva Filho, Flach, Beta calibration, AISTATS 2017.
    """

    high: float
    low: float
    offset: float

    @classmethod
    def of(cls, labels: Labels, scores: NDArray[np.float32]) -> "LogOdds":
        """Fitted on scores of rows that the scoring members have not seen, with Platt's smoothed targets."""
        terms, positives = cls._terms(scores), int(labels.sum())
        target = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (len(labels) - positives + 2))

        def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            odds = values @ terms
            return float(np.mean(np.logaddexp(0, odds) - target * odds)), terms @ (expit(odds) - target) / len(odds)

        start = [1.0, 0.0, float(logit(target.mean()) - scores.mean())]
        bounds = [(LEAST_SLOPE, None), (0.0, None), (None, None)]
        high, low, offset = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
        return cls(high, low, offset)

    @staticmethod
    def _terms(scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        s = np.asarray(scores, dtype=np.float64)
        below = np.log(-np.expm1(-np.maximum(s, SMALL_SCORE))) - np.log1p(np.maximum(1 - s / SMALL_SCORE, 0))
        return np.stack([s, below, np.ones_like(s)])

    def __call__(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        odds: NDArray[np.float64] = np.array([self.high, self.low, self.offset]) @ self._terms(scores)
        return odds.astype(np.float32)

    @property
    def even(self) -> float:
        """The score at which both classes are equally likely; a float32 number, as the scores are."""

        def odds(score: float) -> float:
            return float(np.array([self.high, self.low, self.offset]) @ self._terms(np.array(score)))

        bottom, top = -1.0, 1.0
        while odds(bottom) > 0:
            bottom *= 2
        while odds(top) < 0:
            top *= 2
        return float(np.float32(brentq(odds, bottom, top)))


@dataclass(frozen=True, eq=False)
class AverageFit:
    """An ensemble and what it was fitted with."""

    ensemble: Ensemble
    inputs: Columns
    preprocessing: Mapping[str, Any]  # the inputs as a bundle's card has them
    odds: LogOdds
    race: tuple[RacedLearner, ...]
    training: Mapping[str, Any]  # names of the learners, number of folds and seed
    parts: dict[str, dict[str, int]]  # how many samples and positives each has

    def scores(self, data: NDArray[np.float64]) -> NDArray[np.float32]:
        """One finite float32 score per row of checked data."""
        return self.ensemble.score(self.inputs.views(data))

    def log_odds(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Calibrated on out-of-fold scores."""
        return self.odds(scores)


def fit_average(
    estimator: Any, data: NDArray[np.float64], labels: Labels, units: Units, classes: tuple[str, str]
) -> tuple[AverageFit, ChosenThreshold, NDArray[np.float32]]:
    """Cross-fit the learners and choose the threshold, by the functions and with the folds of `rankreg fit`.

    Returns the fit, the threshold, and a score of every row by members that have not seen it.
    """
    learners = learners_of(estimator.learner)
    tpr, per = TPR if estimator.tpr is None else check_target(plain(estimator.tpr)), estimator.per
    confidence, seed = check_confidence(plain(estimator.confidence)), _seed(estimator.random_state)
    names = column_names(estimator)
    own = OwnTable(  # as `rankreg fit` has it when it has read a table of numbers; ids are places
        name=type(estimator).__name__,
        labels=labels,
        ids=np.arange(len(labels)),
        units=units,
        classes=classes,
        preprocessing=table_record(names, classes[1]),
        features=pd.DataFrame(data, columns=names, copy=False),
        plan=ColumnPlan(readings=(), rows=len(data)),
    )
    parts = _parts(estimator, own, seed)
    prepared = prepare(own, parts["train"])
    assert prepared.preparation is not None  # it is a table
    rows = parts["train"]
    here, apart = labels[rows], own.units_of(rows)
    views, folds = prepared.views(rows), _folds(estimator, here, apart, seed)
    folds = replace(folds, threads=cores() if prepared.inputs.size > LARGE else 1)
    found = {name: cross_fit(learner, name, views, here, folds) for name, learner in learners.items()}
    crossed = averaged(found, here, folds, tpr=tpr)
    judged = judged_scores(own, prepared, parts, crossed, crossed.ensemble, per)
    everyone = judged["all"]
    odds = LogOdds.of(everyone.labels, everyone.values)
    if estimator.tpr is None:
        even = odds.even
        caught = np.mean(everyone.values[everyone.labels == 1] >= even)
        chosen = uncertified(estimator, even, tpr=float(np.clip(caught, 1e-6, 1 - 1e-6)))
    else:
        chosen, _ = threshold_of(judged, "calibration" in parts, tpr, confidence, per)
    fitted = AverageFit(
        ensemble=crossed.ensemble,
        inputs=Columns(tuple(names), prepared.preparation),
        preprocessing=prepared.preprocessing,
        odds=odds,
        race=race_of(crossed, here, apart, tpr, confidence),
        training={"learners": list(learners), "folds": folds.count, "seed": seed},
        parts={name: counted(labels[places]) for name, places in parts.items()},
    )
    out_of_fold = np.empty(len(labels), dtype=np.float32)
    out_of_fold[np.concatenate([parts[name] for name in ("train", "calibration") if name in parts])] = (
        everyone.values
    )
    return fitted, chosen, out_of_fold


def _seed(random_state: Any) -> int:
    """A whole number is the seed itself, so that it means what `--seed` means."""
    random = check_random_state(random_state)
    return int(random_state) % 2**31 if isinstance(random_state, Integral) else int(random.randint(2**31 - 1))


def _parts(estimator: Any, own: OwnTable, seed: int) -> Parts:
    """The rows that train and, where the threshold is to be certified, those that certify."""
    look_up(dict.fromkeys(THRESHOLDS), estimator.threshold, "threshold")
    folds = is_folds(estimator.calibration)
    share = CALIBRATION
    if estimator.calibration is not None and not folds:
        share = check_share(estimator.calibration, "calibration")
    if folds and estimator.threshold == "certified":
        raise ValueError(
            f"calibration={estimator.calibration} is a number of folds, threshold='certified' takes a share of the"
            " rows: write calibration=0.25 for a quarter"
        )
    if estimator.tpr is None or folds or estimator.threshold == "cross-fitted":
        return {"train": np.arange(len(own.labels))}
    promise = promise_of(estimator)
    parts = cut_parts(own, **promise, threshold="auto", calibration=share, test=0.0, seed=seed)
    if estimator.threshold == "certified" and "calibration" not in parts:
        instead = "use threshold='cross-fitted', which holds nothing out"
        try:
            held = cut(own, {"train": 1 - share, "calibration": share}, seed)["calibration"]
        except ValueError as error:
            raise ValueError(f"no share can be held out to certify the threshold ({error}): {instead}") from error
        units = np.arange(len(own.labels)) if own.units is None and estimator.per == "unit" else own.units
        check_enough(own.labels == 1, held, units, **promise, size=f"calibration={share:g}; or {instead}")
    return parts


def _folds(estimator: Any, labels: Labels, units: Units, seed: int) -> Folds:
    count = int(estimator.calibration) if is_folds(estimator.calibration) else None
    if count is not None:
        check_folds(count, labels, units)
    try:
        return folds_for(labels, units, count, seed)
    except ValueError as error:
        copies = units is not None and estimator.keep_copies_together
        hint = "; if equal rows are chance, not copies, pass keep_copies_together=False" if copies else ""
        raise ValueError(str(error).replace("--folds", "folds, as in calibration=3") + hint) from error
