# ruff: noqa: N803 - scikit-learn's name for the data is X
"""What `RankRegClassifier` does with arrays: check them, train on one part, choose the threshold on another."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ValidationError
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data
from torch import nn

from rankreg.datasets.images import image_size
from rankreg.datasets.partitions import distinct_or_none, linked
from rankreg.datasets.preprocessing import FARTHEST, NumericColumn, TablePreprocessor, is_far, spread, standardised
from rankreg.datasets.splits import Samples, Splits, image_preprocessing
from rankreg.estimators.certified_threshold import Places, Units, check_enough, check_share, hold_out
from rankreg.metrics import threshold_at_tpr
from rankreg.names import look_up
from rankreg.operating import ChosenThreshold
from rankreg.operating.guarantees import check_confidence, check_target
from rankreg.operating.thresholds import lowered
from rankreg.operating.units import unit_codes
from rankreg.train import DivergenceError, TrainConfig, score
from rankreg.train import train as run_training
from rankreg.train.config import faults
from rankreg.train.defaults import DEFAULTS, stem_for
from rankreg.train.loop import borrowed_randomness, derived_seed

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
BUFFER = ("capacity", "policy", "base_over", "unique")  # settings of a method that belong to its buffer
TRAINING = ("optimizer", "schedule", "augmentation", "selection", "patience", "device")  # keys of a TrainConfig
OWN_TRAINING = {"validation_size": 0.1, "progress": None}  # used here, with their defaults
THRESHOLDS = ("auto", "certified", "cross-fitted")
QUARTER = 0.25  # of the rows certify the network
SELECTION_TPR = 0.95  # at which selection="fpr" judges an epoch when no TPR is asked for


@dataclass(frozen=True, eq=False)
class Rows:
    """(x - mean) / scale of every column, as the training rows had them, within ±`FARTHEST`."""

    median: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats) -> "Rows":
        """Read off the training rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            median, mean, scale = np.median(rows, axis=0), rows.mean(axis=0), spread(rows)
        if not np.isfinite(scale).all():
            raise ValueError("Input X contains values too large to be standardised: rescale these features")
        return cls(median, mean, scale)

    def prepared(self, rows: Floats) -> NDArray[np.float32]:
        """What the network sees."""
        return standardised(rows, self.mean, self.scale).astype(np.float32)

    def check(self, rows: Floats) -> None:
        """No value is so far from the training rows that a score would mean nothing."""
        far = np.argwhere(is_far(rows, self.mean, self.scale))
        if len(far):
            row, column = far[0].tolist()
            raise ValueError(
                f"Input X contains values too large to be scored: X[{row}, {column}] = {rows[row, column]:g} is"
                f" more than {FARTHEST:,.0f} standard deviations from the training mean. Are the units the same?"
            )

    def described(self, names: list[str]) -> dict[str, Any]:
        """As the preprocessing of a bundle, which applies it to tables."""
        numbers = zip(names, self.median.tolist(), self.mean.tolist(), self.scale.tolist(), strict=True)
        columns = [
            NumericColumn(name=name, median=median, mean=mean, scale=scale, may_miss=False)
            for name, median, mean, scale in numbers
        ]
        return TablePreprocessor(tuple(columns), ()).to_dict()


@dataclass(frozen=True)
class Images:
    """uint8 images of one size; the network's first layer normalises them."""

    height: int
    width: int

    def prepared(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the network sees."""
        return images

    def check(self, images: NDArray[np.uint8]) -> None:
        """They have that size."""
        if images.shape[1:3] != (self.height, self.width):
            raise ValueError(
                f"X has images of {images.shape[1]} x {images.shape[2]} pixels, but the classifier is expecting"
                f" {self.height} x {self.width} as input."
            )

    def described(self) -> dict[str, Any]:
        """As the preprocessing of a bundle."""
        return image_preprocessing((self.height, self.width))


def column_names(estimator: Any) -> list[str]:
    """The names of the columns of X, x0, x1 … where they have none."""
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    return names or [f"x{place}" for place in range(estimator.n_features_in_)]


def table_record(names: list[str], positive: str) -> dict[str, Any]:
    """What a bundle says about a table of these columns; the target gets a name that none of them has."""
    target = "target"
    while target in names:
        target += "_"
    return {"target": target, "positive": positive, "id_column": None, "header": True}


def checked_data(estimator: Any, X: Any, *, known: Any = None, gaps: bool = False) -> NDArray[Any]:
    """The data as float64 rows (N, F) or uint8 images (N, H, W, 3), or scikit-learn's own error.

    known: what the estimator was fitted on, which `check`s new data; without it, names and number of the features
    are taken from X. gaps: rows may hold NaN.
    """
    data: NDArray[Any]
    finite: Any = "allow-nan" if gaps else True
    if isinstance(known, Images) or (known is None and getattr(X, "ndim", 2) == 4):
        data = check_array(X, allow_nd=True, ensure_2d=False, dtype=None, input_name="X")
        if data.ndim != 4 or data.shape[3] != 3 or data.dtype != np.uint8:
            raise ValueError(f"Expected uint8 images (N, H, W, 3), got {data.dtype} of shape {data.shape} instead.")
        image_size(data.shape[1:3])
    else:
        data = validate_data(estimator, X, reset=known is None, dtype=np.float64, ensure_all_finite=finite)
    if known is not None:
        known.check(data)
    return data


def checked_units(data: NDArray[Any], groups: ArrayLike | None, *, copies: bool) -> Units:
    """A number per row, the same for rows of one group and, with `copies`, for equal rows; None if all differ."""
    codes = []
    if copies:
        rows = np.ascontiguousarray(data.reshape(len(data), -1) + data.dtype.type(0))  # -0.0 and 0.0 are equal
        digests = [hashlib.blake2b(row, digest_size=16).digest() for row in rows]
        codes.append(pd.factorize(np.asarray(digests, dtype=object))[0])
    if groups is not None:
        check_consistent_length(data, groups)
        codes.append(unit_codes(groups, len(data)))
    return distinct_or_none(linked(*codes)) if codes else None


def settings_of(value: Any, what: str) -> dict[str, Any]:
    """A name, a mapping or a settings object as one flat dict: {"name": "rankreg", "weight": 0.3}."""
    if value is None or isinstance(value, str):
        return {} if value is None else {"name": value}
    given = value.model_dump() if isinstance(value, BaseModel) else value
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a name, a dict or a settings object to have settings, got {value!r:.80}")
    flat = {**given, **given.get("buffer", {}), **given.get("settings", {})}
    return {key: plain(setting) for key, setting in flat.items() if key not in ("buffer", "settings")}


def train_config(estimator: Any, *, size: tuple[int, int] | None, seed: int) -> TrainConfig:
    """The config of one fit; size: of the images, None for rows. A setting out of bounds is a ValueError."""
    chosen = dict(DEFAULTS["table" if size is None else "image"])
    training = settings_of(estimator.training, "training")
    for name in training:
        look_up(dict.fromkeys([*TRAINING, *OWN_TRAINING]), name, "training setting")
    given = {name: plain(getattr(estimator, name)) for name in ("epochs", "batch_size", "learning_rate")}
    given |= {name: training[name] for name in TRAINING if name in training}
    chosen |= {name: value for name, value in given.items() if value is not None}
    chosen |= {"sampling": estimator.sampling or "shuffled", "seed": seed, "precision": "float32"}
    chosen |= {"loss": _loss(estimator.loss), "method": _method(estimator.method)}
    chosen |= {"model": _model(estimator.network, size), "tpr": plain(estimator.tpr) or SELECTION_TPR}
    try:
        return TrainConfig.model_validate(chosen)
    except ValidationError as error:
        raise ValueError(faults(error)) from error


def _loss(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return "bce" if given is None else given
    flat = settings_of(given, "loss")
    return {"name": flat.pop("name", "bce"), "settings": flat}


def _method(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return "buffer" if given is None else given  # as in `rankreg fit`
    flat = {"name": "rankreg"} | settings_of(given, "method")
    buffer = {key: flat.pop(key) for key in BUFFER if key in flat}
    return flat | ({"buffer": buffer} if buffer else {})


def _model(network: Any, size: tuple[int, int] | None) -> Any:
    """The description of the network, or None where the user's own function makes it."""
    if network is None or isinstance(network, Mapping):
        given = settings_of(network, "network")
        default = {} if "name" in given else dict(DEFAULTS["table" if size is None else "image"]["model"])
        if default and size is not None:
            default["stem"] = stem_for(max(size))
        return default | given
    if isinstance(network, BaseModel):
        return network
    if isinstance(network, nn.Module) or not callable(network):  # a module is callable too
        raise ValueError(
            "network must be None, an MLPShape, a ResNetShape, a dict of their settings, or a function from the"
            f" shape of a sample to an nn.Module, as every fit starts with a new one, got {network!r:.80}"
        )
    return None


def plain(value: Any) -> Any:
    """Searches draw numpy's numbers, which are not Python's."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, eq=False)
class Fit:
    """A network and what it was fitted with.

    recall: that of the validation positives at a score of 0, within (0, 1). parts: how many samples and positives
    each part has.
    """

    network: nn.Module
    config: TrainConfig
    inputs: Rows | Images
    history: list[dict[str, Any]]
    best_epoch: int
    recall: float
    parts: dict[str, dict[str, int]]

    def scores(self, data: NDArray[Any]) -> NDArray[np.float32]:
        """One finite float32 score per row of checked data; on the CPU, like those the threshold was chosen on."""
        values = score(self.network, self.inputs.prepared(data), precision="float32")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(f"the network's score of X[{bad[0]}] is not a finite number: check that row")
        return values

    def log_odds(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores themselves, as the base loss takes them; not calibrated."""
        return scores


def fit_network(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    kept: Places,
    *,
    weights: Floats | None,
    units: Units,
    random: np.random.RandomState,
) -> Fit:
    """Train on the rows at `kept`, a share of which chooses the epoch.

    No unit is on both sides of that cut, unless a class has too few units left for it: the choice promises nothing.
    """
    training = OWN_TRAINING | settings_of(estimator.training, "training")
    share = check_share(training["validation_size"], "validation_size")
    own, positive = None if units is None else units[kept], labels[kept] == 1
    if own is not None and min(len(np.unique(own[positive])), len(np.unique(own[~positive]))) < 2:
        own = None
    train, validation = (kept[places] for places in hold_out(positive, share, random, own))
    size = None if data.ndim == 2 else (data.shape[1], data.shape[2])
    inputs = Rows.of(data[train]) if size is None else Images(*size)
    source = inputs.prepared(data)
    config = train_config(estimator, size=size, seed=int(random.randint(2**31 - 1)))
    parts = {"train": train, "validation": validation}
    splits = Splits("the data", {name: Samples(source, at, labels[at], at) for name, at in parts.items()})
    try:
        trained = run_training(
            splits,
            config,
            model=_own_network(estimator.network, data, config.seed) if config.model is None else None,
            weights=None if weights is None else weights[train],
            progress=training["progress"],
        )
    except DivergenceError as error:
        raise ValueError(f"training diverged: try a learning_rate below {config.learning_rate:g}") from error
    checked = trained.scores["validation"]  # in float32, as the config says
    return Fit(
        network=trained.model,
        config=trained.config,
        inputs=inputs,
        history=trained.history,
        best_epoch=trained.best_epoch,
        recall=float(np.clip(np.mean(checked.values[checked.labels == 1] >= 0), 1e-6, 1 - 1e-6)),
        parts={name: counted(labels[at]) for name, at in parts.items()},
    )


def counted(labels: Labels) -> dict[str, int]:
    """How many samples and how many positives."""
    return {"samples": len(labels), "positives": int(np.count_nonzero(labels == 1))}


def _own_network(function: Any, data: NDArray[Any], seed: int) -> nn.Module:
    """What the user's function makes of the shape of a sample, as the network gets it."""
    shape = (data.shape[1],) if data.ndim == 2 else (3, data.shape[1], data.shape[2])
    with borrowed_randomness(derived_seed(seed, 1)):
        network = function(shape)
    if not isinstance(network, nn.Module):
        raise ValueError(f"network must make an nn.Module, it made a {type(network).__name__}")
    for name, values in network.state_dict().items():
        if torch.is_tensor(values) and not bool(values.isfinite().all()):
            raise ValueError(f"the network has weights that are not finite: {name}")
    return network


def parts_of(estimator: Any, labels: Labels, units: Units, random: np.random.RandomState) -> tuple[Places, Places]:
    """The rows that train and the rows that certify; none certify unless a certificate is asked for."""
    kept, held = np.arange(len(labels)), np.arange(0)
    if estimator.tpr is None:
        return kept, held
    check_target(estimator.tpr)
    check_confidence(estimator.confidence)
    if estimator.threshold == "cross-fitted" or (
        estimator.threshold == "certified" and is_folds(estimator.calibration)
    ):
        raise ValueError(
            f"threshold={estimator.threshold!r} with calibration={estimator.calibration!r} is not for the network:"
            " a share such as calibration=0.25 certifies, calibration=5 cross-validates in 5 folds and promises"
            " nothing; learner='average' has cross-fitted thresholds"
        )
    look_up(dict.fromkeys(THRESHOLDS), estimator.threshold, "threshold")
    if not is_folds(estimator.calibration):
        share = QUARTER if estimator.calibration is None else check_share(estimator.calibration, "calibration")
        kept, held = hold_out(labels == 1, share, random, units)
        check_enough(labels == 1, held, units, **promise_of(estimator), size=f"calibration={share:g}")
    return kept, held


def is_folds(calibration: Any) -> bool:
    """A whole number is a number of folds, anything else has to be a share."""
    return isinstance(calibration, int | np.integer) and not isinstance(calibration, bool)


def check_folds(folds: int, labels: Labels, units: Units) -> None:
    """Every fold gets an independent sample of either class."""
    apart = np.arange(len(labels)) if units is None else units
    fewest = min(len(np.unique(apart[labels == kind])) for kind in (0, 1))
    if not 2 <= folds <= fewest:
        raise ValueError(
            f"calibration={folds} is a number of folds: it must be at least 2 and at most {fewest},"
            " the independent samples of the smaller class; write a share such as 0.25 for a certificate"
        )


def promise_of(estimator: Any) -> dict[str, Any]:
    """What the threshold is asked for."""
    return {name: plain(getattr(estimator, name)) for name in ("tpr", "confidence", "per")}


def uncertified(estimator: Any, value: float, **known: float) -> ChosenThreshold:
    """A threshold that promises nothing."""
    return ChosenThreshold(value, certified=False, positives=0, units=None, **(promise_of(estimator) | known))


def cross_validated(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    *,
    weights: Floats | None,
    units: Units,
    random: np.random.RandomState,
) -> ChosenThreshold:
    """The threshold at which that share of the positives alarms, each scored by a network that has not seen it.

    The scores are of other networks than the one that will be used, so nothing is certified.
    """
    check_folds(estimator.calibration, labels, units)
    scores = np.empty(len(labels), dtype=np.float32)
    kind = StratifiedKFold if units is None else StratifiedGroupKFold
    folds = kind(int(estimator.calibration), shuffle=True, random_state=random.randint(2**31 - 1))
    for kept, held in folds.split(data, labels, units):
        found = fit_network(estimator, data, labels, kept, weights=weights, units=units, random=random)
        scores[held] = found.scores(data[held])
    return uncertified(estimator, float(np.float32(lowered(threshold_at_tpr(labels, scores, estimator.tpr)))))
