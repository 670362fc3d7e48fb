"""Learners: each trains one member per fold, all on the same prepared rows or images.

A learner is a name and a function from (views, labels, folds) to members. The rank variants add the
ranking term: over the whole training set where that is cheap (linear models, trees), over batches that
hold both classes where it is not (networks). The learner "network" is any loss, method and network of the
training loop, one run per fold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg.boosting.objectives import RankObjective, rank_gradient
from rankreg.bundle.ensemble import FittedLearner, Linear, Member, Network, View, Views
from rankreg.bundle.trees import Trees
from rankreg.datasets.partitions import stratified_parts
from rankreg.datasets.splits import Samples, Splits
from rankreg.models import MLP, MLPShape, build_model
from rankreg.regularizer import PenaltyName, RankReg
from rankreg.train import TrainConfig, train
from rankreg.train.loop import borrowed_randomness, derived_seed
from rankreg.train.task import complete, task_of

Labels = NDArray[np.int64]
Places = NDArray[np.int64]

CHOOSING = {"train": 0.9, "validation": 0.1}  # of a member's training samples, where an epoch is to be chosen
PENALTY: PenaltyName = "squared"  # of the ranking term of linear models and trees
STEPS = 300  # of a linear model with the ranking term
MOST_NEGATIVES = 50_000  # that a linear model or a network sees: more teach it nothing, and cost time and memory


@dataclass(frozen=True, eq=False)
class Folds:
    """Which rows train which member: rounds of folds, a member for every fold of every round.

    Args:
        of_row: the fold of each row in each round, (R, N), from 0. Member r · count + k does not train on the rows
            of fold k in round r.
        count: how many folds a round has.
        seed: decides every random choice.
        threads: how many threads a learner may use.
    """

    of_row: NDArray[np.int64]
    count: int
    seed: int = 0
    threads: int = 1

    @property
    def members(self) -> int:
        """How many members a learner gets."""
        return self.count * len(self.of_row)

    def held(self, member: int) -> Places:
        """The rows that this member does not see, and judges."""
        return np.flatnonzero(self.of_row[member // self.count] == member % self.count)

    def kept(self, member: int) -> Places:
        """The rows that train this member."""
        return np.flatnonzero(self.of_row[member // self.count] != member % self.count)

    def thinned(self, member: int, labels: Labels, most: int = MOST_NEGATIVES) -> Places:
        """The same, with at most so many negatives, drawn by chance."""
        kept = self.kept(member)
        negatives = kept[labels[kept] == 0]
        if len(negatives) <= most:
            return kept
        random = np.random.default_rng([self.seed, member])
        drawn = random.choice(negatives, most, replace=False, shuffle=False)
        return np.sort(np.concatenate([kept[labels[kept] == 1], drawn]))


@dataclass(frozen=True)
class Learner:
    """How to train members, and what they take.

    Args:
        view: the form of the rows.
        train: from the samples in that form, the labels and the folds to one member per fold.
        settings: what the bundle's card says about it.
    """

    view: View
    train: Callable[[NDArray[np.float32], Labels, Folds], list[Member]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, views: Views, labels: Labels, folds: Folds) -> list[Member]:
        """One member per fold."""
        return self.train(np.asarray(views[self.view]), labels, folds)


def logistic(view: View, *, strength: float) -> Learner:
    """Logistic regression with an L2 penalty and balanced classes; strength: scikit-learn's C."""

    def train(rows: NDArray[np.float32], labels: Labels, folds: Folds) -> list[Member]:
        from sklearn.linear_model import LogisticRegression

        members: list[Member] = []
        for one in range(folds.members):
            kept = folds.thinned(one, labels)
            model = LogisticRegression(
                C=strength,
                class_weight="balanced",
                solver="newton-cholesky" if rows.shape[1] <= 200 else "lbfgs",
                max_iter=200,
            )
            model.fit(rows[kept].astype(np.float64), labels[kept])
            members.append(Linear(model.coef_[0].astype(np.float64), float(model.intercept_[0])))
        return members

    return Learner(view, train, {"strength": strength, "balanced": True})


def frozen(strength: float = 3e-6) -> Learner:
    """Logistic regression on features of a pretrained network, standardised by a member's training samples.

    There are more features than positives, so the penalty is strong: little more than the difference of the class
    means is learned (docs/decisions/0046).
    """

    def train(rows: NDArray[np.float32], labels: Labels, folds: Folds) -> list[Member]:
        from sklearn.linear_model import LogisticRegression

        members: list[Member] = []
        for one in range(folds.members):
            kept = folds.thinned(one, labels)
            own = rows[kept].astype(np.float64)
            mean, deviation = own.mean(axis=0), np.maximum(own.std(axis=0), 1e-6)
            model = LogisticRegression(C=strength, class_weight="balanced", max_iter=1000)
            model.fit((own - mean) / deviation, labels[kept])
            weights = model.coef_[0] / deviation
            members.append(Linear(weights, float(model.intercept_[0] - weights @ mean)))
        return members

    return Learner("features", train, {"strength": strength})


def ranked_logistic(view: View, *, strength: float, weight: float, reach: float) -> Learner:
    """Logistic regression that has converged, then full-batch steps on its loss plus the ranking term.

    Ranks are over the whole training set. The term is the *scores* form of `RankReg`, as in boosting.
    """
    start = logistic(view, strength=strength)

    def train(rows: NDArray[np.float32], labels: Labels, folds: Folds) -> list[Member]:
        members: list[Member] = []
        for one, first in enumerate(start.train(rows, labels, folds)):
            assert isinstance(first, Linear)
            kept = folds.thinned(one, labels)
            own, positives = labels[kept], np.flatnonzero(labels[kept])

            def push(scores: NDArray[np.float32], positives: Places = positives) -> NDArray[np.floating[Any]]:
                return weight * rank_gradient(scores, positives, penalty=PENALTY, reach=reach)

            members.append(_moved(rows[kept], own, first, strength, push))
        return members

    return Learner(view, train, {"strength": strength, "weight": weight, "reach": reach, "penalty": PENALTY})


def _moved(
    rows: NDArray[np.float32],
    labels: Labels,
    first: Linear,
    strength: float,
    push: Callable[[NDArray[np.float32]], NDArray[np.floating[Any]]],
) -> Linear:
    """Adam with a falling rate on scikit-learn's objective divided by C · N, and on what `push` is the slope of."""
    x, y = torch.from_numpy(rows), torch.from_numpy(labels.astype(np.float32))
    weights = torch.tensor(first.weights, dtype=torch.float32)
    bias = torch.tensor(first.bias, dtype=torch.float32)
    balance = torch.where(y == 1, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    optimizer = torch.optim.Adam([weights, bias], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        scores = torch.addmv(bias, x, weights)
        slope = balance * (torch.sigmoid(scores) - y) + torch.from_numpy(push(scores.numpy())).float()
        weights.grad, bias.grad = slope @ x + weights / (strength * len(y)), slope.sum()
        optimizer.step()
        schedule.step()
    return Linear(weights.numpy().astype(np.float64), float(bias))


def trees(rounds: int, objective: RankObjective | None = None, **settings: Any) -> Learner:
    """LightGBM on bins that all folds share."""

    def train(rows: NDArray[np.float32], labels: Labels, folds: Folds) -> list[Member]:
        import lightgbm

        params = {
            "objective": "binary" if objective is None else objective,
            "use_missing": False,
            "seed": folds.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": folds.threads,
            "verbosity": -1,
            **settings,
        }
        binning = {key: params[key] for key in ("use_missing", "num_threads", "verbosity", "force_row_wise")}
        binning |= {key: settings[key] for key in ("min_data_in_bin", "max_bin") if key in settings}
        whole = lightgbm.Dataset(rows, labels, params=binning).construct()
        members: list[Member] = []
        for one in range(folds.members):
            booster = lightgbm.train(params, whole.subset(folds.kept(one).tolist()), rounds)
            members.append(Trees.parse(booster.model_to_string()))
        return members

    return Learner("normal", train, {"rounds": rounds, **settings})


@dataclass(frozen=True)
class PerceptronTraining:
    """How the networks of all folds are trained together, by AdamW."""

    hidden: tuple[int, ...] = (32,)  # the widths of the hidden layers
    dropout: float = 0.2
    steps: int = 200
    batch: int = 256  # samples of a step and a member
    rate: float = 1e-2  # the highest learning rate; it falls to 0 with a cosine
    decay: float = 0.1
    weight: float = 0.0  # of the ranking term; 0 leaves it out
    positives: float = 0.25  # the share of positives in a batch


def perceptron(how: PerceptronTraining) -> Learner:
    """Multi-layer perceptrons, one per fold, trained side by side as one batched network."""

    def train(rows: NDArray[np.float32], labels: Labels, folds: Folds) -> list[Member]:
        shape = MLPShape(hidden=how.hidden, dropout=how.dropout, features=rows.shape[1], classes=2, head="score")
        with borrowed_randomness(derived_seed(folds.seed, 5)):
            networks = [build_model(shape) for _ in range(folds.members)]
            _train_together(networks, rows, labels, folds, how)
        return [Network(network.eval()) for network in networks]

    settings = {name: value for name, value in vars(how).items() if name != "hidden"}
    return Learner("normal", train, settings | {"hidden": list(how.hidden)})


def _train_together(
    networks: list[torch.nn.Module],
    rows: NDArray[np.float32],
    labels: Labels,
    folds: Folds,
    how: PerceptronTraining,
) -> None:
    """Every step draws a batch for each network, a share of it positives, and moves all networks at once."""
    from torch.func import functional_call, stack_module_state, vmap

    params, buffers = stack_module_state(networks)
    shared = networks[0].train()

    def one(values: dict[str, Tensor], batch: Tensor) -> Tensor:
        found: Tensor = functional_call(shared, (values, buffers), (batch,))
        return found

    together = vmap(one, randomness="different")
    optimizer = torch.optim.AdamW(params.values(), lr=how.rate, weight_decay=how.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.rate, total_steps=how.steps, pct_start=0.2)
    term = RankReg(weight=how.weight)
    source = torch.from_numpy(rows)
    random = np.random.default_rng([folds.seed, 7])
    kept = [folds.thinned(member, labels) for member in range(folds.members)]
    sides = [(places[labels[places] == 1], places[labels[places] == 0]) for places in kept]
    positives = round(how.positives * how.batch)
    target = torch.zeros(folds.members, how.batch)
    target[:, :positives] = 1
    for _ in range(how.steps):
        drawn = np.empty((folds.members, how.batch), dtype=np.int64)
        for own, (positive, negative) in zip(drawn, sides, strict=True):
            own[:positives] = positive[random.integers(len(positive), size=positives)]
            own[positives:] = negative[random.integers(len(negative), size=how.batch - positives)]
        scores = together(params, source[torch.from_numpy(drawn)])
        loss = binary_cross_entropy_with_logits(scores, target) * folds.members
        if how.weight:
            loss = loss + sum(term(own, target[0].long()) for own in scores)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    for member, network in enumerate(networks):
        network.load_state_dict({name: values[member].detach().clone() for name, values in params.items()})


def shape_of(fitted: FittedLearner) -> MLPShape | None:
    """The description of a perceptron's networks; None for other members."""
    first = fitted.members[0]
    if not isinstance(first, Network) or not isinstance(first.network, MLP):
        return None
    linear = [layer for layer in first.network.layers if isinstance(layer, torch.nn.Linear)]
    dropout = next((layer.p for layer in first.network.layers if isinstance(layer, torch.nn.Dropout)), 0.0)
    return MLPShape(
        hidden=tuple(layer.out_features for layer in linear),
        dropout=dropout,
        features=linear[0].in_features,
        classes=2,
        head="score",
    )


def network_learner(
    config: TrainConfig,
    home: Path,
    *,
    images: bool,
    units: NDArray[np.int64] | None = None,
    progress: bool | None = None,
) -> Learner:
    """A network per fold, trained in home/member-k; a run that was stopped goes on.

    Where the config chooses an epoch, a tenth of a member's training samples chooses it. The samples that
    judge the member never do. With selection "last" all of them train.

    units: one number per sample, the same for samples that stay together.
    """

    def fit(inputs: NDArray[Any], labels: Labels, folds: Folds) -> list[Member]:
        members: list[Member] = []
        for member in range(folds.members):
            own = config.model_copy(update={"seed": config.seed + member})
            splits = _splits(own, inputs, labels, folds, member, units)
            run = train(splits, own, home / f"member-{member}", score_parts=(), progress=progress)
            members.append(Network(run.model.cpu().eval()))
        return members

    return Learner("images" if images else "normal", fit, config.model_dump(mode="json", exclude_none=True))


def network_shape(config: TrainConfig, inputs: NDArray[Any]) -> Any:
    """The complete description of the networks that `network_learner` trains on such inputs."""
    two = np.arange(2)
    part = Samples(inputs[:2], two, two, two)
    splits = Splits("the data", {"train": part, "validation": part})
    return complete(config, task_of(splits, config), part, own_model=False).model


def _splits(
    config: TrainConfig,
    inputs: NDArray[Any],
    labels: Labels,
    folds: Folds,
    member: int,
    units: NDArray[np.int64] | None,
) -> Splits:
    kept = folds.kept(member)
    rows = {"train": kept, "validation": folds.held(member)}
    if config.selection != "last":
        apart = kept if units is None else units[kept]
        rows = {
            name: kept[part]
            for name, part in stratified_parts(labels[kept], apart, CHOOSING, seed=config.seed).items()
        }
    parts = {name: Samples(inputs, part, labels[part], part) for name, part in rows.items()}
    return Splits("the data", parts)


BOOSTING: dict[str, Any] = {
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 5,
    "feature_fraction_bynode": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
}
FOREST: dict[str, Any] = {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "min_data_in_leaf": 2}

# The settings were chosen on development tables (docs/decisions/0045).
LEARNERS: dict[str, Learner] = {
    "logistic": logistic("standardised", strength=1.0),
    "logistic-normal": logistic("normal", strength=0.1),
    "boosting": trees(40, **BOOSTING),
    "forest": trees(50, **FOREST, feature_fraction_bynode=0.3),
    "extra-trees": trees(50, **FOREST, feature_fraction_bynode=0.6, extra_trees=True),
    "mlp": perceptron(PerceptronTraining()),
}
RANKED: dict[str, Learner] = {
    "logistic-rank": ranked_logistic("standardised", strength=1.0, weight=1.0, reach=1.0),
    "boosting-rank": trees(40, RankObjective(weight=1.0, reach=1.0, penalty=PENALTY, base_rate=True), **BOOSTING),
    "mlp-rank": perceptron(PerceptronTraining(weight=0.1)),
}
