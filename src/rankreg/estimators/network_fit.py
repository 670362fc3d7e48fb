# ruff: noqa: N803 - scikit-learn's name for the data is X
"""From checked arrays to a trained network and its threshold."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data
from torch import nn

from rankreg._names import look_up
from rankreg.bundle.card import lowered
from rankreg.datasets.images import image_size
from rankreg.datasets.partitions import distinct_or_none, linked
from rankreg.datasets.preprocessing import FARTHEST, NumericColumn, TablePreprocessor, is_far, spread, standardised
from rankreg.datasets.splits import Samples, Splits, image_preprocessing
from rankreg.estimators.certified_threshold import Places, Units, check_enough, check_share, hold_out
from rankreg.metrics import threshold_at_tpr
from rankreg.models import MLPShape, ResNetShape
from rankreg.operating import OperatingPoint, certify
from rankreg.operating.guarantees import check_confidence, check_target
from rankreg.operating.units import unit_codes
from rankreg.train import DivergenceError, TrainConfig, score
from rankreg.train import train as run_training
from rankreg.train.config import DEFAULTS, SMALL, faults
from rankreg.train.sampling import borrowed_randomness, derived_seed

Labels = NDArray[np.int64]
Parts = dict[str, dict[str, int]]


@dataclass(frozen=True, eq=False)
class Fit:
    """A network and what it was fitted with.

    recall: that of the validation positives at a score of 0; parts: samples and positives of each part.
    """

    network: nn.Module
    config: TrainConfig
    inputs: "Rows | Images"
    history: list[dict[str, Any]]
    best_epoch: int
    recall: float
    parts: Parts

    def scores(self, data: NDArray[Any]) -> NDArray[np.float32]:
        """One finite float32 score per row of checked data; on the CPU, like those the threshold was chosen on."""
        values = score(self.network, self.inputs.prepared(data), precision="float32")
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(
                f"the network's score of X[{row}] is not a finite number, so that no alarm can be told"
            )
        return values


def fit_network(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    kept: Places,
    *,
    weights: NDArray[np.float64] | None,
    units: Units,
    random: np.random.RandomState,
) -> Fit:
    """Train on the rows at `kept`, a share of which chooses the epoch.

    No unit is on both sides of that cut, unless a class has too few units left for it: the choice promises nothing.
    """
    share = check_share(estimator.validation_size, "validation_size")
    own, positive = None if units is None else units[kept], labels[kept] == 1
    if own is not None and min(len(np.unique(own[positive])), len(np.unique(own[~positive]))) < 2:
        own = None
    train, validation = (kept[places] for places in hold_out(positive, share, random, own))
    rows = data.ndim == 2
    inputs = Rows.of(data[train]) if rows else Images(data.shape[1], data.shape[2])
    source = inputs.prepared(data)
    config = train_config(
        estimator.get_params(deep=False),
        size=None if rows else (data.shape[1], data.shape[2]),
        seed=int(random.randint(2**31 - 1)),
    )
    parts = {"train": train, "validation": validation}
    splits = Splits("the data", {name: Samples(source, at, labels[at], at) for name, at in parts.items()})
    trained = _trained(
        splits,
        config,
        model=_own_network(estimator.network, data, config.seed) if config.model is None else None,
        weights=None if weights is None else weights[train],
        progress=estimator.progress,
    )
    checked = trained.scores["validation"]  # in float32, as the config says
    return Fit(
        network=trained.model,
        config=trained.config,
        inputs=inputs,
        history=trained.history,
        best_epoch=trained.best_epoch,
        recall=float(np.mean(checked.values[checked.labels == 1] >= 0)),
        parts={name: counted(labels[at]) for name, at in parts.items()},
    )


def counted(labels: Labels) -> dict[str, int]:
    """How many samples and how many positives."""
    return {"samples": len(labels), "positives": int(np.count_nonzero(labels == 1))}


def _trained(splits: Splits, config: TrainConfig, **arguments: Any) -> Any:
    try:
        return run_training(splits, config, **arguments)
    except DivergenceError as error:
        raise ValueError(f"training diverged: try a learning_rate below {config.learning_rate:g}") from error


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


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """(x − mean) / scale of every column, as the training rows had them, within ±`FARTHEST`."""

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
        columns = tuple(NumericColumn(*values, may_miss=False) for values in numbers)
        return TablePreprocessor(columns, ()).to_dict()


@dataclass(frozen=True)
class Images:
    """uint8 images of one size; the network's first layer normalises them."""

    height: int
    width: int

    def prepared(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the network sees."""
        return images

    def described(self) -> dict[str, Any]:
        """As the preprocessing of a bundle."""
        return image_preprocessing((self.height, self.width))


def checked(estimator: Any, X: Any, *, known: Rows | Images | None = None) -> NDArray[Any]:
    """The data as float64 rows (N, F) or uint8 images (N, H, W, 3), or scikit-learn's own error.

    known: what the estimator was fitted on; without it, names and number of the features are taken from X.
    """
    if isinstance(known, Images) or (known is None and getattr(X, "ndim", 2) == 4):
        return _checked_images(X, known if isinstance(known, Images) else None)
    rows: NDArray[Any] = validate_data(estimator, X, reset=known is None, dtype=np.float64)
    if known is not None:
        known.check(rows)
    return rows


def _checked_images(X: Any, known: Images | None) -> NDArray[np.uint8]:
    images: NDArray[Any] = check_array(X, allow_nd=True, ensure_2d=False, dtype=None, input_name="X")
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(f"Expected uint8 images (N, H, W, 3), got {images.dtype} of shape {images.shape} instead.")
    size = image_size(images.shape[1:3])
    if known is not None and size != (known.height, known.width):
        raise ValueError(
            f"X has images of {size[0]} x {size[1]} pixels, but the classifier is expecting"
            f" {known.height} x {known.width} as input."
        )
    return images


def checked_units(data: NDArray[Any], groups: ArrayLike | None, *, copies: bool) -> NDArray[np.int64] | None:
    """A number per row, the same for rows of one group and, with `copies`, for equal rows; None if all differ."""
    codes = [_copies(data)] if copies else []
    if groups is not None:
        check_consistent_length(data, groups)
        codes.append(unit_codes(groups, len(data)))
    return distinct_or_none(linked(*codes)) if codes else None


def _copies(data: NDArray[Any]) -> NDArray[np.int64]:
    """A number per distinct row or image, in the order of their first appearance."""
    rows = np.ascontiguousarray(data.reshape(len(data), -1) + data.dtype.type(0))  # -0.0 and 0.0 are equal
    numbers: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row, digest_size=16).digest() for row in rows)
    return np.asarray([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> Floats | None:
    """One weight per row, finite and not negative, not all of them 0."""
    if sample_weight is None:
        return None
    weights: Floats = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    check_consistent_length(np.empty(rows), weights)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


CHOICES = {"certified": "certified", "cross-validated": "cross-validated"}


@dataclass(frozen=True)
class Chosen:
    """A threshold of the scores, its certificate if it has one, and the samples that it was certified on."""

    threshold: float
    point: OperatingPoint | None = None
    calibration: dict[str, int] | None = None


USUAL = Chosen(0.0)


def check_threshold(estimator: Any) -> str | None:
    """How the threshold is to be chosen, None for the usual one; wrong requests are said before training."""
    chosen = look_up(CHOICES, estimator.threshold, "threshold")
    if estimator.target_tpr is None:
        return None
    check_target(estimator.target_tpr)
    check_confidence(estimator.confidence)
    return chosen


def hold_out_for(
    estimator: Any, labels: Labels, units: Units, random: np.random.RandomState
) -> tuple[Places, Places]:
    """The rows to fit on and those that certify: none of them unless a certificate is asked for."""
    if check_threshold(estimator) != "certified":
        return np.arange(len(labels)), np.arange(0)
    share = check_share(estimator.calibration_size, "calibration_size")
    kept, held = hold_out(labels == 1, share, random, units)
    check_enough(labels == 1, held, units, **_promise(estimator), size=f"calibration_size={share:g}")
    return kept, held


def certified(estimator: Any, scores: NDArray[np.float32], labels: Labels, units: Units) -> Chosen:
    """The certified threshold of scores that training has not seen."""
    point = certify(labels, scores, **_promise(estimator), units=units)
    return Chosen(lowered(point.threshold), point, counted(labels))


def _promise(estimator: Any) -> dict[str, Any]:
    return {"tpr": estimator.target_tpr, "confidence": estimator.confidence, "per": estimator.per}


def cross_validated(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    weights: NDArray[np.float64] | None,
    units: Units,
    random: np.random.RandomState,
) -> Chosen:
    """The threshold at which that share of the positives alarms, each scored by a network that has not seen it.

    The scores are of other networks than the one that will be used, so nothing is certified.
    """
    apart = np.arange(len(labels)) if units is None else units
    fewest = min(len(np.unique(apart[labels == kind])) for kind in (0, 1))
    if not isinstance(estimator.folds, int | np.integer) or not 2 <= estimator.folds <= fewest:
        raise ValueError(
            f"folds must be a whole number of at least 2 and at most {fewest}, the independent samples of the"
            f" smaller class, got {estimator.folds!r}"
        )
    scores = np.empty(len(labels), dtype=np.float32)
    kind = StratifiedKFold if units is None else StratifiedGroupKFold
    folds = kind(int(estimator.folds), shuffle=True, random_state=random.randint(2**31 - 1))
    for kept, held in folds.split(data, labels, units):
        found = fit_network(estimator, data, labels, kept, weights=weights, units=units, random=random)
        scores[held] = found.scores(data[held])
    return Chosen(lowered(threshold_at_tpr(labels, scores, estimator.target_tpr)))


MAY_BE_NONE = ("epochs", "batch_size", "learning_rate", "augmentation")  # as `rankreg fit` has them
USUAL_TPR = 0.98  # at which false alarms choose the epoch when no target is named


def train_config(params: Mapping[str, Any], *, size: tuple[int, int] | None, seed: int) -> TrainConfig:
    """The config of one fit; size: of the images, None for rows. A setting out of bounds is a ValueError."""
    given = {name: _plain(value) for name, value in params.items()}
    chosen = dict(DEFAULTS["table" if size is None else "image"])
    chosen |= {name: given[name] for name in MAY_BE_NONE if given[name] is not None}
    chosen |= {"optimizer": given["optimiser"]} if given["optimiser"] is not None else {}
    chosen |= {name: given[name] for name in ("loss", "schedule", "selection", "patience", "device")}
    chosen |= {"method": _method(given), "model": _model(given, size), "seed": seed}
    chosen |= {"tpr": given["target_tpr"] or USUAL_TPR, "precision": "float32"}
    try:
        return TrainConfig.model_validate(chosen)
    except ValidationError as error:
        raise ValueError(faults(error)) from error


def _method(given: Mapping[str, Any]) -> Any:
    """A name takes its settings from the constructor, a settings object brings its own."""
    name = given["method"]
    kept = {"capacity": given["buffer_size"], "policy": given["buffer_policy"], "base_over": given["base_over"]}
    if name == "rankreg":
        own = {key: given[key] for key in ("penalty", "reach", "weight")}
        return {"name": name, **own, "buffer": kept}
    return {"name": name, "buffer": kept} if name == "buffer" else name


def _model(given: Mapping[str, Any], size: tuple[int, int] | None) -> Any:
    """The description of the network, or None where the user's own function makes it."""
    network = given["network"]
    if network is None and size is None:
        return {"name": "mlp", "hidden": given["hidden"], "dropout": given["dropout"]}
    if network is None and size is not None:
        stem = "cifar" if max(size) <= SMALL else "imagenet"
        return DEFAULTS["image"]["model"] | {"stem": stem}
    if isinstance(network, ResNetShape | MLPShape):
        return network
    if isinstance(network, nn.Module) or not callable(network):  # a module is callable too
        raise ValueError(
            "network must be None, an MLPShape, a ResNetShape, or a function from the shape of a sample to an"
            f" nn.Module, as every fit starts with a new one, got {network!r:.80}"
        )
    return None


def _plain(value: Any) -> Any:
    """Searches draw numpy's numbers, which are not Python's."""
    return value.item() if isinstance(value, np.generic) else value
