"""The fit: read, cross-fit, choose the threshold, judge, save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rankreg.backbones import load_backbone
from rankreg.bundle import Bundle, Evaluation, Threshold
from rankreg.bundle.card import versions_of
from rankreg.bundle.ensemble import Ensemble, FrozenBackbone
from rankreg.bundle.ensemble_files import learner_card
from rankreg.bundle.evaluation import bounded, evaluate_scores, write_scores
from rankreg.bundle.storage import INNER, save_ensemble
from rankreg.datasets.partitions import own_parts
from rankreg.distributed import join
from rankreg.fit.crossfit import CrossFitted, OutOfFold, averaged, chosen_learners, cross_fit, folds_for
from rankreg.fit.learners import LEARNERS, RANKED, Learner, shape_of
from rankreg.fit.learners import frozen as frozen_learner
from rankreg.fit.network import network_learner, network_shape, settings
from rankreg.fit.progress import FinishedLearners
from rankreg.fit.sources import OwnData, PreparedData, Source, read_source
from rankreg.models import BackboneShape
from rankreg.notation import json_value, percent
from rankreg.operating import (
    ChosenThreshold,
    Interval,
    choose_threshold,
    cross_fitted_threshold,
    fpr_at_tpr_interval,
    positives_needed,
    price_of_certifying,
)
from rankreg.operating.guarantees import NotEnoughPositives, certified_rank
from rankreg.operating.units import Per, Trials, UnitSizes
from rankreg.pool import cores
from rankreg.report import Model, Settings, write
from rankreg.scores import Scores
from rankreg.terminal import progress_bar
from rankreg.train import TrainConfig
from rankreg.train.folder import write_json

Rows = NDArray[np.int64]
ThresholdName = Literal["auto", "certified", "cross-fitted"]

CALIBRATION = 0.2  # the share that certifies a threshold
NETWORK = "network"
LARGE = 500_000  # numbers in a table
FROZEN = "frozen"
TPRS = (0.98, 0.95, 0.90)
PARTS_HINT = "groups and copies are too large: use more data, or try another --seed"


@dataclass(frozen=True)
class RacedLearner:
    """How one learner did out of fold.

    Args:
        name: of the learner, or "average".
        fpr: at the target TPR, with its interval.
        weight: in the average, between 0 and 1.
        seconds: of training.
    """

    name: str
    fpr: Interval
    weight: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"name": self.name, "fpr": self.fpr.to_dict(), "weight": self.weight, "seconds": self.seconds}


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of `fit`.

    Args:
        folder: where everything was written.
        bundle: the model, ready to score.
        judged: how it did on samples that the judging members had not seen: all but the test part.
        test: how it did on the untouched test part; None without one.
        race: every learner out of fold, the best first; then their average.
        folds: how many members each learner has.
        other_fpr: the FPR that the other kind of threshold would have; None if it is not known.
        report: the path of the report, or why there is none.
    """

    folder: Path
    bundle: Bundle
    judged: Evaluation
    test: Evaluation | None
    race: tuple[RacedLearner, ...]
    folds: int
    other_fpr: float | None
    report: str

    @property
    def threshold(self) -> Threshold:
        """The threshold, and what it promises."""
        return self.bundle.card.threshold


def fit(
    source: Source | OwnData,
    out: Path | str,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    per: Per = "row",
    learners: Sequence[str] = (),
    folds: int | None = None,
    threshold: ThresholdName = "auto",
    calibration: float = CALIBRATION,
    test: float = 0.0,
    seed: int = 0,
    config: TrainConfig | None = None,
    backbone: str | None = None,
    progress: bool | None = None,
) -> Fitted | None:
    """Cross-fit an average of learners, choose its threshold, judge it, and save it all in one folder.

    Every learner trains one member per fold, and every sample is judged by members that have not seen it.
    The model is the average of all members. The folder gets bundle/ (the model), run/ (what a fit that was
    stopped goes on from), report.html, summary.json and the scores.

    Args:
        source: where the data are and what is critical in them, or data from `read_source`.
        out: the folder to write to.
        tpr: the share of positives that must raise an alarm, default 0.95.
        confidence: that the recall is reached, and of the intervals, default 0.95.
        per: "row" speaks of new positives. "unit" speaks of new units with positives, each of which raises an
            alarm on at least one of them. Units are the copies and groups of the data.
        learners: names, see `rankreg.fit.LEARNERS`; "network" is the network that `config` describes, "frozen" a
            linear model on the features of the backbone. Default: all of `LEARNERS` for a table; for images
            the backbone's features, or the network where there is no backbone.
        folds: how many; by default 5, dealt twice with fewer than 200 positives.
        threshold: "certified" holds a part of the data out and proves the recall. "cross-fitted" uses the
            out-of-fold scores of all positives. "auto" certifies where a fifth of the positives suffices.
        calibration: the share that is held out to certify, default 0.2.
        test: the share that is set aside and looked at once, default none.
        seed: decides every random choice, default 0.
        config: how networks are trained, from `settings`.
        backbone: images: a pretrained network, "efficientnet-lite0", whose features the learner "frozen" takes;
            "none" for no such network. By default it is used if its package is installed.
        progress: show a bar; by default when standard error is a terminal.

    Returns:
        The bundle, how it did and where everything is; None in all processes but the first.

    Raises:
        ValueError: the data are too few, the target makes no sense, the certificate that was asked for is out
            of reach, or the folder holds the fit of other data.

    >>> from rankreg.fit import Source
    >>> rows = [f"{k % 5 // 4 + k % 7 / 4 + k / 1e4},{int(k % 5 == 4)}" for k in range(400)]
    >>> _ = Path("claims.csv").write_text("amount,fraud\\n" + "\\n".join(rows))
    >>> claims = Source(Path("claims.csv"), target="fraud")
    >>> fitted = fit(claims, "model", learners=["logistic"], progress=False)
    >>> fitted.threshold.kind, fitted.threshold.calibration_positives
    ('cross-fitted', 80)
    """
    home = Path(out)
    check_request(home, tpr=tpr, confidence=confidence, calibration=calibration, test=test)
    data = read_source(source, home / "decoded") if isinstance(source, Source) else source
    parts = _parts(data, tpr, confidence, per, threshold, calibration, test, seed)
    frozen = _backbone(data, backbone, learners)
    names = tuple(learners) or (tuple(LEARNERS) if data.kind == "table" else (FROZEN if frozen else NETWORK,))
    config = config or settings(data.kind, tpr, size=_side(data))
    prepared = data.prepared(parts["train"])
    if frozen is not None and FROZEN in names:
        assert data.images is not None
        prepared = replace(prepared, features=frozen.features(data.images, progress=progress))
    crossed = _cross_fitted(data, prepared, parts["train"], names, folds, tpr, seed, config, home, progress)
    if crossed is None:
        return None
    ensemble = crossed.ensemble
    if any(learner.view == "features" for learner in ensemble.learners):
        ensemble = replace(ensemble, backbone=frozen)
    judged = _judged(data, prepared, parts, crossed, ensemble, per)
    chosen, other = _threshold(judged, "calibration" in parts, tpr, confidence, per)
    evaluations = {
        name: _evaluated(scores, chosen.value, tpr, confidence)
        for name, scores in {"judged": judged["all"], "test": judged.get("test")}.items()
        if scores is not None
    }
    race = _race(crossed, data.labels[parts["train"]], _units(data, parts["train"]), tpr, confidence)
    bundle = _save(home, data, prepared, parts, crossed, ensemble, chosen, evaluations, race, names, config, seed)
    for name, scores in judged.items():
        if name != "all":
            write_scores(home / f"{name}-scores.csv", scores)
    summary = {
        "threshold": bundle.card.threshold.model_dump(mode="json"),
        "judged": evaluations["judged"].to_dict(),
        "test": evaluations["test"].to_dict() if "test" in evaluations else None,
        "learners": [one.to_dict() for one in race],
        "folds": crossed.folds.count,
        "other_fpr": other,
        "parts": bundle.card.parts,
    }
    write_json(home / "summary.json", json_value(summary))
    report = write_report(home / "report.html", data, judged, parts, bundle, race)
    return Fitted(
        home,
        bundle,
        evaluations["judged"],
        evaluations.get("test"),
        race,
        crossed.folds.count,
        other,
        report,
    )


def check_request(
    out: Path, *, tpr: float, confidence: float, calibration: float = CALIBRATION, test: float = 0.0
) -> None:
    """Refuse a target, a share or a folder that cannot be, before anything is read or trained."""
    positives_needed(tpr, confidence)
    if not 0 < calibration <= 0.8:
        raise ValueError(f"the calibration share must lie above 0 and be at most 0.8, got {calibration!r}")
    if not 0 <= test <= 0.5:
        raise ValueError(f"the test share must lie between 0 and 0.5, got {test!r}")
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise ValueError(f"{place} is a file, but a folder is needed: choose another --out")
            return


def _parts(
    data: OwnData,
    tpr: float,
    confidence: float,
    per: Per,
    threshold: ThresholdName,
    calibration: float,
    test: float,
    seed: int,
) -> dict[str, Rows]:
    """The rows that train, those that certify and those that test; the last two only if they are wanted."""
    wanted = {"train": 1.0 - test} | ({"test": test} if test else {})
    if threshold == "cross-fitted":
        return _cut(data, wanted, seed)
    held = calibration * (1.0 - test)
    with_calibration = wanted | {"train": 1.0 - test - held, "calibration": held}
    try:
        parts = _cut(data, with_calibration, seed)
    except ValueError:
        if threshold == "certified":
            raise
        return _cut(data, wanted, seed)
    trials = _trials(data, parts["calibration"], per)
    if certified_rank(trials, tpr, confidence):
        return parts
    if threshold == "certified":
        shortage = NotEnoughPositives(trials, tpr, confidence)
        raise ValueError(
            f"{shortage}. Use --threshold cross-fitted, which needs no calibration part, a larger --calibration,"
            " or a lower --tpr"
        )
    return _cut(data, wanted, seed)


def _cut(data: OwnData, shares: Mapping[str, float], seed: int) -> dict[str, Rows]:
    if len(shares) == 1:
        return {"train": np.arange(len(data.labels))}
    units = np.arange(len(data.labels)) if data.units is None else data.units
    return own_parts(data.labels, data.labels, units, shares, seed=seed, member=0, hint=PARTS_HINT)


def _trials(data: OwnData, rows: Rows, per: Per) -> Trials:
    """How many independent positives these rows have, or the sizes of their units."""
    positive = rows[data.labels[rows] == 1]
    if data.units is None:
        return len(positive)
    sizes = np.unique(data.units[positive], return_counts=True)[1]
    return len(sizes) if per == "unit" else UnitSizes.of(sizes)


def _units(data: OwnData, rows: Rows) -> NDArray[np.int64] | None:
    return None if data.units is None else data.units[rows]


def _side(data: OwnData) -> int | None:
    return None if data.images is None else max(data.images.shape[1:3])


def _cross_fitted(
    data: OwnData,
    prepared: PreparedData,
    rows: Rows,
    names: Sequence[str],
    folds: int | None,
    tpr: float,
    seed: int,
    config: TrainConfig,
    home: Path,
    progress: bool | None,
) -> CrossFitted | None:
    """The learners, cross-fitted on these rows; None in all processes but the first."""
    units, labels, views = _units(data, rows), data.labels[rows], prepared.views(rows)
    threads = cores() if prepared.inputs.size > LARGE else 1  # on small tables a second thread only waits
    rounds = 1 if NETWORK in names else None  # networks take long
    dealt = replace(folds_for(labels, units, folds, seed, rounds=rounds), threads=threads)
    finished = FinishedLearners.open(home / "run", data, prepared, rows, dealt)
    known: dict[str, Learner] = {FROZEN: frozen_learner()} if data.kind == "image" else {**LEARNERS, **RANKED}
    known[NETWORK] = network_learner(
        config, finished.folder / NETWORK, images=data.kind == "image", units=units, progress=progress
    )
    chosen = chosen_learners(known, names)
    world = join(config.device)
    found: dict[str, OutOfFold] = {}
    ordered = sorted(chosen, key=lambda name: name != NETWORK)  # processes that only help with it are done first
    with progress_bar(shown=progress if NETWORK not in chosen else False) as bar:
        task = bar.add_task("cross-fitting", total=len(chosen))
        for name in ordered:
            if world.rank != 0 and name != NETWORK:
                break
            bar.update(task, description=f"cross-fitting {name}")
            learner = chosen[name]
            members = finished.members(name, learner) if name != NETWORK else None
            found[name] = cross_fit(learner, name, views, labels, dealt, members=members)
            if world.rank == 0 and name != NETWORK:
                found[name] = finished.keep(name, learner, found[name])
            bar.advance(task)
    if world.rank != 0:
        return None
    return averaged({name: found[name] for name in chosen}, labels, dealt, tpr=tpr)


def _judged(
    data: OwnData,
    prepared: PreparedData,
    parts: Mapping[str, Rows],
    crossed: CrossFitted,
    ensemble: Ensemble,
    per: Per,
) -> dict[str, Scores]:
    """Scores by members that have not seen the sample: out of fold, calibration, test, and all but the test."""

    def scores(rows: Rows, values: NDArray[np.float32]) -> Scores:
        units = _units(data, rows)
        if units is None and per == "unit":
            units = rows  # every sample is a unit of its own
        return Scores(data.ids[rows], data.labels[rows], values, units)

    found = {"out-of-fold": scores(parts["train"], crossed.scores)}
    for name in ("calibration", "test"):
        if name in parts:
            found[name] = scores(parts[name], ensemble.score(prepared.views(parts[name])))
    rows = np.concatenate([parts[name] for name in ("train", "calibration") if name in parts])
    values = np.concatenate([found[name].values for name in ("out-of-fold", "calibration") if name in found])
    return found | {"all": scores(rows, values)}


def _threshold(
    judged: Mapping[str, Scores], certified: bool, tpr: float, confidence: float, per: Per
) -> tuple[ChosenThreshold, float | None]:
    """The threshold, and the FPR that the other kind would have."""
    promise: dict[str, Any] = {"tpr": tpr, "confidence": confidence, "per": per}
    everyone = judged["all"]
    if certified:
        held = judged["calibration"]
        chosen = choose_threshold(held.labels, held.values, units=held.units, **promise)
        crossed = cross_fitted_threshold(everyone.labels, everyone.values, units=everyone.units, **promise)
        return chosen, float(np.mean(everyone.values[everyone.labels == 0] >= crossed.value))
    chosen = cross_fitted_threshold(everyone.labels, everyone.values, units=everyone.units, **promise)
    if everyone.units is not None:
        return chosen, None
    return chosen, price_of_certifying(everyone.labels, everyone.values, tpr=tpr, confidence=confidence)


def _evaluated(scores: Scores, threshold: float, tpr: float, confidence: float) -> Evaluation:
    return evaluate_scores(
        scores.labels,
        scores.values,
        threshold=threshold,
        confidence=confidence,
        tprs=sorted({tpr, *TPRS}, reverse=True),
        units=scores.units,
    )


def _race(
    crossed: CrossFitted, labels: Rows, units: NDArray[np.int64] | None, tpr: float, confidence: float
) -> tuple[RacedLearner, ...]:
    """Every learner out of fold, the best first, then the average if there are several."""

    def rate(values: NDArray[np.floating[Any]]) -> Interval:
        return fpr_at_tpr_interval(labels, values, tpr=tpr, confidence=confidence, units=units)

    found = [
        RacedLearner(name, rate(one.mean_levels), float(crossed.weights[name].mean()), one.seconds)
        for name, one in crossed.learners.items()
    ]
    found.sort(key=lambda one: one.fpr.estimate)
    if len(found) > 1:
        found.append(RacedLearner("average", rate(crossed.scores), 1.0, sum(one.seconds for one in found)))
    return tuple(found)


def _save(
    home: Path,
    data: OwnData,
    prepared: PreparedData,
    parts: Mapping[str, Rows],
    crossed: CrossFitted,
    ensemble: Ensemble,
    chosen: ChosenThreshold,
    evaluations: Mapping[str, Evaluation],
    race: Sequence[RacedLearner],
    names: Sequence[str],
    config: TrainConfig,
    seed: int,
) -> Bundle:
    cards = [
        learner_card(
            fitted,
            model=network_shape(config, prepared.inputs) if fitted.name == NETWORK else shape_of(fitted),
            settings=_settings_of(fitted.name, config),
        )
        for fitted in ensemble.learners
    ]
    return save_ensemble(
        home / INNER,
        ensemble,
        cards,
        name=data.name,
        preprocessing=dict(prepared.preprocessing),
        classes=data.classes,
        threshold=Threshold.of(chosen),
        training={"learners": list(names), "folds": crossed.folds.count, "seed": seed},
        parts={name: _counted(data, rows) for name, rows in parts.items()},
        metrics=json_value(
            {name: one.to_dict() for name, one in evaluations.items()}
            | {"learners": [one.to_dict() for one in race]}
        ),
        versions=versions_of("rankreg", "torch", "lightgbm", "scikit-learn", "numpy", "pandas", "safetensors"),
    )


def _backbone(data: OwnData, name: str | None, learners: Sequence[str]) -> FrozenBackbone | None:
    """The pretrained network, if it is asked for or there."""
    if data.kind == "table":
        if name is not None:
            raise ValueError(f"{data.name} is a table, for which there is no --backbone")
        return None
    if name == "none" or (learners and FROZEN not in learners):
        if FROZEN in learners:
            raise ValueError("the learner frozen needs a backbone: leave --backbone none out")
        return None
    shape = BackboneShape()
    if name is not None and name != shape.name:
        raise ValueError(f"--backbone must be {shape.name} or none, got {name!r}")
    try:
        return FrozenBackbone(load_backbone(shape.name), shape)
    except ValueError:
        if name is not None or FROZEN in learners:
            raise
        return None


def _settings_of(name: str, config: TrainConfig) -> Mapping[str, Any]:
    if name == NETWORK:
        return config.model_dump(mode="json", exclude_none=True)
    return dict({**LEARNERS, **RANKED, FROZEN: frozen_learner()}[name].settings)


def _counted(data: OwnData, rows: Rows) -> dict[str, int]:
    """Samples, positives and, where samples share them, the units of the positives."""
    positive = rows[data.labels[rows] == 1]
    found = {"samples": len(rows), "positives": len(positive)}
    return found if data.units is None else found | {"positive_units": len(np.unique(data.units[positive]))}


def race_table(race: Sequence[RacedLearner], tpr: float) -> list[tuple[str, ...]]:
    """A header, then every learner and the average."""
    header = ("learner", f"FPR at {percent(tpr)} TPR", "weight", "seconds")
    rows = [(one.name, bounded(one.fpr), f"{one.weight:.2f}", f"{one.seconds:.1f}") for one in race]
    return [header, *rows]


def write_report(
    path: Path,
    data: OwnData,
    judged: Mapping[str, Scores],
    parts: Mapping[str, Rows],
    bundle: Bundle,
    race: Sequence[RacedLearner],
) -> str:
    """Write the report, and return its path, or why there is none, e.g. because all scores are equal."""
    threshold = bundle.card.threshold
    held = "calibration" if threshold.certified else "all"
    rows = (
        parts["calibration"]
        if threshold.certified
        else np.concatenate([parts[name] for name in ("train", "calibration") if name in parts])
    )
    images = data.images
    image = None if images is None else (lambda place: Image.fromarray(images[rows[place]]))
    model = Model.of(data.name, judged[held], image=image, threshold=threshold.value)
    chosen = Settings(
        tprs=(threshold.tpr,),
        confidence=threshold.confidence,
        per=threshold.per,
        title=f"Operating point of {data.name}",
        config=bundle.card.training,
        basis="held-out" if threshold.certified else "out-of-fold",
        learners=tuple(race_table(race, threshold.tpr)),
    )
    try:
        return str(write(path, [model], chosen))
    except ValueError as error:
        return f"none: {error}"
