"""An ensemble as arrays and texts, and back: what a bundle stores and what an unfinished fit keeps."""

from collections.abc import Mapping
from textwrap import shorten
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankreg.bundle.card import LearnerCard
from rankreg.bundle.ensemble import FittedLearner, Linear, Member, NegativeRanks, Network
from rankreg.bundle.trees import Trees
from rankreg.models import ModelShape, build_model

MOST_KNOTS = 1000
LARGEST_TREES = 100_000_000  # bytes of one file
NETWORK = "network."  # how names of a network's weights start
KINDS: dict[type, Literal["linear", "trees", "network"]] = {Linear: "linear", Trees: "trees", Network: "network"}
SCALE = ("scale.knots", "scale.levels", "scale.slopes")


def tree_file(learner: str, fold: int) -> str:
    """The name of the file with a member's trees."""
    return f"trees-{learner}-{fold}.txt"


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
        place = f"{card.name}.{fold}"
        own = {name[len(place) + 1 :]: value for name, value in arrays.items() if name.startswith(f"{place}.")}
        try:
            extra = [name for name in own if not _is_known(name, card.kind)]
            if extra:
                raise ValueError(f"it has a part {extra[0]!r:.40} that is not known")
            scales.append(_scale(own))
            members.append(_member(card, fold, features, own, texts))
        except (KeyError, RuntimeError) as error:
            why = shorten(" ".join(str(error).split("\n")[:2]), 300)
            raise ValueError(f"member {fold} of {card.name} is not whole: {why}") from error
        except ValueError as error:
            raise ValueError(f"member {fold} of {card.name}: {error}") from error
    return FittedLearner(card.name, card.view, members, scales, card.weights)


def _is_known(name: str, kind: str) -> bool:
    if kind == "network":
        return name in SCALE or name.startswith(NETWORK)
    return name in SCALE or (kind == "linear" and name in ("weights", "bias"))


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
    with torch.device("meta"):  # no memory for a network that the weights do not fill
        network = build_model(card.model)
    state = {name.removeprefix(NETWORK): value for name, value in own.items() if name.startswith(NETWORK)}
    check_types(state, network)
    network.load_state_dict(state, assign=True)
    bad = [name for name, value in state.items() if not bool(value.isfinite().all())]
    if bad:
        raise ValueError(f"the weights {bad[0]} are not finite")
    return Network(network.eval())


def check_types(weights: Mapping[str, Tensor], model: torch.nn.Module) -> None:
    """Weights are assigned, not copied, so they keep their type: another one would fail at the first sample."""
    for name, wanted in model.state_dict().items():
        if name in weights and weights[name].dtype != wanted.dtype:
            raise ValueError(f"{name} is {weights[name].dtype} instead of {wanted.dtype}")


def _numbers(values: Tensor, most: int) -> NDArray[np.float64]:
    """A vector of finite doubles."""
    if values.dtype != torch.float64 or values.ndim != 1 or len(values) > most or not bool(values.isfinite().all()):
        raise ValueError("a vector of finite numbers in double precision was expected")
    found: NDArray[np.float64] = values.numpy()
    return found


def largest_size(cards: tuple[LearnerCard, ...], features: int | None) -> int:
    """How many bytes the arrays of such learners can have at most, names included."""
    size = 100_000
    for card in cards:
        own = (2 * MOST_KNOTS + (features or 0)) * 8 + 2000
        if card.model is not None:
            with torch.device("meta"):
                state = build_model(card.model).state_dict()
            own += sum(8 * value.numel() + 1000 for value in state.values())
        size += card.members * own
    return size
