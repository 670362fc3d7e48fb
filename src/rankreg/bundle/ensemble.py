"""An ensemble: members of several learners, put on one scale and averaged; as arrays and texts, and back.

    score(x) = Σ_m w_m · scale_m(member_m(x)) / Σ_m w_m

A learner has a member for every fold, which has not seen the samples of that fold. The negatives of
that fold give the member its scale: −log of the share of them that score higher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import shorten
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankreg.backbones import TimmShape, features
from rankreg.bundle.card import LearnerCard, tree_file
from rankreg.bundle.trees import Trees, TreeTables, score_trees
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.models import Backbone, BackboneShape, ModelShape, build_model
from rankreg.train import score

Floats = NDArray[np.float64]
View = Literal["normal", "standardised", "images", "features"]

AT_ONCE = 2**22  # numbers of a view that are scored at once
KNOTS = 96
NOISE = 1e-6  # of the largest score: so close, two scores may differ by rounding only
SMALLEST = 1e-100  # no score of ours is that small, but 0
MOST_KNOTS = 1000
LARGEST_TREES = 100_000_000  # bytes of one file
LARGEST_NUMBER, LARGEST_NAME = 8, 1000  # bytes of one weight, and of the name and shape of an array of them
NETWORK = "network."  # how names of a network's weights start
SCALE = ("scale.knots", "scale.levels", "scale.slopes")


class Views(Protocol):
    """Samples in every form that members take them in, by name."""

    def __getitem__(self, view: View) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class TableViews:
    """Prepared rows: "normal" are normal scores of the numbers, "standardised" is a robust scaling of them.

    preparation: what made the matrix.
    """

    matrix: NDArray[np.float32]
    preparation: TablePreprocessor
    _made: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def __getitem__(self, view: View) -> NDArray[np.float32]:
        if view == "normal":
            return self.matrix
        if view not in self._made:
            self._made[view] = self.preparation.standardised(self.matrix)
        return self._made[view]

    def anew(self) -> "TableViews":
        """The same rows, for the next learner: forms that were computed are let go."""
        return TableViews(self.matrix, self.preparation)


@dataclass(frozen=True, eq=False)
class FrozenBackbone:
    """A pretrained network whose features linear members take; nothing in it is trained.

    shape: its name, the side of its images, and whether mirror images are looked at too.
    """

    network: Backbone
    shape: BackboneShape | TimmShape

    def features(self, images: NDArray[np.uint8], *, progress: bool | None = False) -> NDArray[np.float32]:
        """The features of images, (N, D)."""
        return features(self.network, images, side=self.shape.side, flips=self.shape.flips, progress=progress)


@dataclass(frozen=True, eq=False)
class ImageViews:
    """Images, uint8 (N, H, W, 3), and their features, if there is a backbone or if they are known."""

    images: NDArray[np.uint8]
    backbone: FrozenBackbone | None = None
    known: NDArray[np.float32] | None = None
    _made: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def __getitem__(self, view: View) -> NDArray[Any]:
        if view == "images":
            return self.images
        if self.known is not None:
            return self.known
        if view not in self._made:
            assert self.backbone is not None  # the card saw to it
            self._made[view] = self.backbone.features(self.images)
        return self._made[view]

    def anew(self) -> "ImageViews":
        """The same: features take long to compute."""
        return self


@dataclass(frozen=True, eq=False)
class Linear:
    """score = rows @ weights + bias."""

    weights: Floats
    bias: float

    def score(self, rows: NDArray[Any]) -> Floats:
        """Raw scores (N,), in float64: equal rows have equal scores wherever they stand."""
        found = np.empty(len(rows))
        step = max(AT_ONCE // max(rows.shape[1], 1), 1)
        for start in range(0, len(rows), step):
            found[start : start + step] = rows[start : start + step].astype(np.float64) @ self.weights
        return found + self.bias


@dataclass(frozen=True, eq=False)
class Network:
    """A network of torch."""

    network: nn.Module

    def score(self, rows: NDArray[Any]) -> Floats:
        """Raw scores (N,), always computed in float32."""
        return score(self.network, rows, precision="float32").astype(np.float64)


Member = Linear | Trees | Network
KINDS: dict[type, Literal["linear", "trees", "network"]] = {Linear: "linear", Trees: "trees", Network: "network"}


@dataclass(frozen=True, eq=False)
class NegativeRanks:
    """From a member's score to −log of the share of its held-out negatives that score higher.

    Between knots the level is linear in the score. Beyond the last negative it goes on rising, but only
    with the logarithm of the distance, so that no member outweighs the others:

        level(x) = level(x_n) + log(1 + slope · (x − x_n))

    and likewise below the first. slope: that of the level over the highest tenth of the negatives, or
    below, over the lower half. Scores within rounding of each other count as equal: trees give negatives
    scores that differ by 1e-13, and the order of these means nothing.

    Args:
        knots: scores, rising.
        levels: their levels, rising.
        slopes: below the first and beyond the last knot.
    """

    knots: Floats
    levels: Floats
    slopes: tuple[float, float]

    def __post_init__(self) -> None:
        rising = all(np.all(np.diff(values) > 0) for values in (self.knots, self.levels))
        finite = all(np.isfinite(values).all() for values in (self.knots, self.levels, np.asarray(self.slopes)))
        if self.knots.shape != self.levels.shape or not len(self.knots) or not rising or not finite:
            raise ValueError("the scale of a member must be finite and rise")
        if min(self.slopes) <= 0:
            raise ValueError("the scale of a member must rise beyond its knots")

    @classmethod
    def of(cls, negatives: Floats) -> "NegativeRanks":
        """The scale that these scores of held-out negatives give."""
        ordered = np.sort(negatives)
        n = len(ordered)
        above = np.concatenate([np.linspace(1, 0.1, KNOTS // 4), np.geomspace(0.1, 1 / n, 3 * KNOTS // 4)])
        places = np.clip(np.round(n * (1 - above)).astype(np.int64), 0, n - 1)
        noise = max(NOISE * float(np.abs(ordered[[0, -1]]).max()), SMALLEST)
        knots = _apart(np.unique(ordered[np.append(places, n - 1)]), noise)
        higher = n - np.searchsorted(ordered, knots + noise, "right")
        reached = n - np.searchsorted(ordered, knots - noise, "left")
        levels = -np.log(((higher + reached) / 2 + 0.5) / (n + 1))
        tail, middle = np.searchsorted(levels, np.log(10)), np.searchsorted(levels, np.log(2))
        upper = _slope(knots[min(tail, len(knots) - 2) :], levels[min(tail, len(knots) - 2) :])
        lower = _slope(knots[: middle + 1], levels[: middle + 1])
        return cls(knots, levels, (lower, upper))

    def __call__(self, scores: Floats) -> Floats:
        """The levels (N,) of scores (N,)."""
        levels = np.interp(scores, self.knots, self.levels)
        above, below = scores > self.knots[-1], scores < self.knots[0]  # few
        with np.errstate(over="ignore"):  # a slope of any size may stand in a file
            levels[above] += np.log1p(self.slopes[1] * (scores[above] - self.knots[-1]))
            levels[below] -= np.log1p(self.slopes[0] * (self.knots[0] - scores[below]))
        return levels


def _apart(values: Floats, gap: float) -> Floats:
    """Rising values without those that are within the gap above one that is kept."""
    kept = [values[0]]
    for value in values[1:]:
        if value - kept[-1] > gap:
            kept.append(value)
    return np.asarray(kept)


def _slope(knots: Floats, levels: Floats) -> float:
    """The mean slope; 1 where there is only one knot."""
    if len(knots) < 2:
        return 1.0
    return float((levels[-1] - levels[0]) / (knots[-1] - knots[0]))


@dataclass(frozen=True, eq=False)
class FittedLearner:
    """The members of one learner with their scales.

    Args:
        name: e.g. "boosting".
        view: what the members take.
        members: those that are used.
        scales: one per member.
        weights: one per member, relative to all members of all learners.
    """

    name: str
    view: View
    members: Sequence[Member]
    scales: Sequence[NegativeRanks]
    weights: Sequence[float]

    @cached_property
    def _tables(self) -> TreeTables | None:
        """All trees of all members."""
        return TreeTables.of([member for member in self.members if isinstance(member, Trees)])

    def raw(self, rows: NDArray[Any]) -> Floats:
        """The members' own scores, (N, members); rows: in the learner's view."""
        trees = [member for member in self.members if isinstance(member, Trees)]
        if trees:
            return score_trees(trees, self._tables, rows)
        return np.stack([member.score(rows) for member in self.members], axis=1)

    def score(self, views: Views) -> Floats:
        """The weighted sum of the members' levels, (N,)."""
        raw = self.raw(views[self.view])
        total = np.zeros(len(raw))
        for place, (scale, weight) in enumerate(zip(self.scales, self.weights, strict=True)):
            total += weight * scale(raw[:, place])
        return total


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The weighted average of all members of all learners; backbone: of those that take features of images."""

    learners: Sequence[FittedLearner]
    backbone: FrozenBackbone | None = None

    def score(self, views: Views) -> NDArray[np.float32]:
        """One score per sample, higher = more critical; about −log of the share of negatives that score higher."""
        total = sum(sum(learner.weights) for learner in self.learners)
        parts = [learner.score(views) for learner in self.learners]
        return np.asarray(np.sum(parts, axis=0) / total, dtype=np.float32)


def learner_card(
    fitted: FittedLearner, *, model: ModelShape | None = None, settings: Mapping[str, object] | None = None
) -> LearnerCard:
    """What the card says about a learner; model: the shape of its networks."""
    return LearnerCard(
        name=fitted.name,
        kind=KINDS[type(fitted.members[0])],
        view=fitted.view,
        members=len(fitted.members),
        weights=tuple(fitted.weights),
        model=model,
        settings=dict(settings or {}),
    )


def pack(fitted: FittedLearner) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The learner's numbers by name, and its trees by the name of their file."""
    arrays: dict[str, Tensor] = {}
    texts: dict[str, str] = {}
    for fold, (member, scale) in enumerate(zip(fitted.members, fitted.scales, strict=True)):
        place = f"{fitted.name}.{fold}"
        values = (scale.knots, scale.levels, np.asarray(scale.slopes))
        arrays |= {f"{place}.{name}": torch.tensor(value) for name, value in zip(SCALE, values, strict=True)}
        if isinstance(member, Linear):
            arrays[f"{place}.weights"] = torch.tensor(member.weights)
            arrays[f"{place}.bias"] = torch.tensor([member.bias], dtype=torch.float64)
        elif isinstance(member, Trees):
            texts[tree_file(fitted.name, fold)] = member.text()
        else:
            state = member.network.state_dict()
            arrays |= {f"{place}.{NETWORK}{name}": value.detach().cpu() for name, value in state.items()}
    return {name: value.contiguous() for name, value in arrays.items()}, texts


def unpack(
    card: LearnerCard, features: int | None, arrays: Mapping[str, Tensor], texts: Mapping[str, str]
) -> FittedLearner:
    """The learner that `pack` took apart.

    features: how many numbers a prepared row has; None for images.

    Raises:
        ValueError: if something is missing, has another shape or is not finite.
    """
    members: list[Member] = []
    scales = []
    for fold in range(card.members):
        own = weights_below(f"{card.name}.{fold}.", arrays)
        try:
            _check_names(own, card.kind)
            scales.append(_scale(own))
            members.append(_member(card, fold, features, own, texts))
        except (KeyError, RuntimeError) as error:
            raise ValueError(f"member {fold} of {card.name} is not whole: {first_lines(error)}") from error
        except ValueError as error:
            raise ValueError(f"member {fold} of {card.name}: {error}") from error
    return FittedLearner(card.name, card.view, members, scales, card.weights)


def _check_names(own: Mapping[str, Tensor], kind: str) -> None:
    known = (*SCALE, *(("weights", "bias") if kind == "linear" else ()))
    for name in own:
        if name not in known and not (kind == "network" and name.startswith(NETWORK)):
            raise ValueError(f"it has a part {name!r:.40} that is not known")


def _scale(own: Mapping[str, Tensor]) -> NegativeRanks:
    knots, levels, slopes = (_numbers(own[name], MOST_KNOTS) for name in SCALE)
    if slopes.shape != (2,):
        raise ValueError("the scale has two slopes")
    return NegativeRanks(knots, levels, (float(slopes[0]), float(slopes[1])))


def _member(
    card: LearnerCard, fold: int, features: int | None, own: Mapping[str, Tensor], texts: Mapping[str, str]
) -> Member:
    if card.kind == "linear":
        weights, bias = _numbers(own["weights"], features or 0), _numbers(own["bias"], 1)
        if weights.shape != (features,) or bias.shape != (1,):
            raise ValueError(f"{len(weights)} weights do not fit {features} features")
        return Linear(weights, float(bias[0]))
    if card.kind == "trees":
        trees = Trees.parse(texts[tree_file(card.name, fold)])
        if trees.features != features:
            raise ValueError(f"the trees take {trees.features} features, there are {features}")
        return trees
    assert card.model is not None  # the card saw to it
    return Network(fill_network(empty_network(card.model), weights_below(NETWORK, own)))


def _numbers(values: Tensor, most: int) -> NDArray[np.float64]:
    """A vector of finite doubles."""
    if values.dtype != torch.float64 or values.ndim != 1 or len(values) > most or not bool(values.isfinite().all()):
        raise ValueError("a vector of finite numbers in double precision was expected")
    found: NDArray[np.float64] = values.numpy()
    return found


def weights_below(start: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arrays whose names start so, by the rest of their names."""
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}


def empty_network(shape: ModelShape) -> nn.Module:
    """A network that takes no memory before its weights are there."""
    with torch.device("meta"):
        return build_model(shape)


def fill_network(network: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """Give a network its weights, without a copy; it is then in evaluation mode.

    Raises:
        ValueError: a weight has another type, and would fail at the first sample, or is not finite.
        RuntimeError: a weight is missing, is unknown or has another shape.
    """
    for name, wanted in network.state_dict().items():
        if name in weights and weights[name].dtype != wanted.dtype:
            raise ValueError(f"{name} is {weights[name].dtype} instead of {wanted.dtype}")
    network.load_state_dict(weights, assign=True)
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"the weights {name} are not finite")
    return network.eval()


def largest_file(network: nn.Module) -> int:
    """How many bytes the weights of a network take at most, names included."""
    return sum(LARGEST_NUMBER * value.numel() + LARGEST_NAME for value in network.state_dict().values())


def largest_ensemble(cards: Sequence[LearnerCard], features: int | None) -> int:
    """How many bytes the arrays of such learners take at most, names included."""
    size = 100_000
    for card in cards:
        own = (2 * MOST_KNOTS + (features or 0)) * LARGEST_NUMBER + 2 * LARGEST_NAME
        size += card.members * (own + (0 if card.model is None else largest_file(empty_network(card.model))))
    return size


def first_lines(error: Exception) -> str:
    """What is wrong, in short: torch lists every weight there is."""
    return shorten(" ".join(str(error).split("\n")[:2]), 300)
