"""The fit: read, cross-fit, choose the threshold, judge, save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError

from rankreg.backbones import TimmShape, load_backbone
from rankreg.bundle import Bundle, Evaluation, Threshold
from rankreg.bundle.card import Fingerprint, versions_of
from rankreg.bundle.ensemble import Ensemble, FrozenBackbone, learner_card
from rankreg.bundle.evaluation import evaluate_scores, write_scores
from rankreg.bundle.storage import CARD, INNER, save_ensemble
from rankreg.datasets.splits import OwnData, OwnImages
from rankreg.datasets.table import OwnTable
from rankreg.distributed import join
from rankreg.fit.crossfit import (
    CrossFitted,
    FinishedLearners,
    OutOfFold,
    RacedLearner,
    averaged,
    claim_folder,
    cross_fit,
    folds_for,
    race_of,
)
from rankreg.fit.learners import LEARNERS, RANKED, Learner, network_learner, network_shape, shape_of
from rankreg.fit.learners import frozen as frozen_learner
from rankreg.fit.sources import (
    ALONE,
    CALIBRATION,
    PreparedData,
    Rows,
    Source,
    ThresholdName,
    check_request,
    cut_parts,
    prepare,
    read_source,
)
from rankreg.models import BackboneShape
from rankreg.names import look_up
from rankreg.notation import json_value
from rankreg.operating import (
    ChosenThreshold,
    PromisedThreshold,
    Promises,
    choose_threshold,
    cross_fitted_threshold,
    price_of_certifying,
    promised_threshold,
)
from rankreg.operating.units import Per
from rankreg.pool import cores, return_freed_memory
from rankreg.report import Model, Settings, write
from rankreg.safe_files import write_json
from rankreg.scores import Scores
from rankreg.terminal import SparseLog, progress_bar
from rankreg.train import TrainConfig
from rankreg.train.defaults import settings

NETWORK, PLAIN = "network", "network-plain"
NETWORKS = (NETWORK, PLAIN)
LARGE = 500_000  # numbers in a table
MANY_ROWS = 10_000  # with fewer, trees are built in steps so short that threads mostly wait for each other
FROZEN = "frozen"
TPRS = (0.98, 0.95, 0.90)


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
        replaced: whether the folder held another model before.
    """

    folder: Path
    bundle: Bundle
    judged: Evaluation
    test: Evaluation | None
    race: tuple[RacedLearner, ...]
    folds: int
    other_fpr: float | None
    report: str
    replaced: bool = False

    @property
    def threshold(self) -> Threshold:
        """The threshold, and what it promises."""
        return self.bundle.card.threshold


def fit(
    source: Source | OwnTable | OwnImages,
    out: Path | str,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    per: Per = "row",
    learners: Sequence[str] = (),
    folds: int | None = None,
    best: int | None = None,
    threshold: ThresholdName = "auto",
    calibration: float = CALIBRATION,
    test: float = 0.0,
    promises: Promises = ALONE,
    seed: int = 0,
    config: TrainConfig | None = None,
    backbone: str | None = None,
    force: bool = False,
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
        learners: names, see `rankreg.fit.LEARNERS`; "network" is the network that `config` describes. For images
            there are also "network-plain", the same with images as they come instead of oversampled, and "frozen",
            a linear model on the features of the backbone. Default: all of `LEARNERS` for a table. For images
            "frozen" and "network"; where there is no backbone, both networks, or "network" alone if `config` does
            not oversample.
        folds: how many; by default 5, dealt twice with fewer than 200 positives.
        best: average only so many learners: those with the fewest false alarms out of fold, chosen for every
            fold by the other folds. Default: all.
        threshold: "certified" holds a part of the data out and proves the recall. "cross-fitted" uses the
            out-of-fold scores of all positives. "auto" certifies where a fifth of the positives suffices.
        calibration: the share that is held out to certify, default 0.2.
        test: the share that is set aside and looked at once, default none.
        promises: what is promised beside the recall, with the same confidence for all: an FPR, a precision, a
            number of alarms, or a precision with a review. If they cannot be kept, the threshold keeps the recall
            alone and says why. Default: nothing.
        seed: decides every random choice, default 0.
        config: how networks are trained, from `settings`.
        backbone: images: a pretrained network whose features the learner "frozen" takes: "efficientnet-lite0", or
            a model of timm where timm is installed; "none" for no such network. By default the first is used
            if its package is installed.
        force: replace the fit of other data that the folder holds.
        progress: show a bar; by default when standard error is a terminal.

    Returns:
        The bundle, how it did and where everything is; None in all processes but the first.

    Raises:
        ValueError: the data are too few, the target makes no sense, the certificate that was asked for is out
            of reach, or the folder holds the fit of other data and `force` is not given.

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
    parts = cut_parts(data, tpr, confidence, per, threshold, calibration, test, seed, promises)
    train, certified = parts["train"], "calibration" in parts
    _check_promises(data, promises, per)
    frozen = _backbone(data, backbone, learners)
    side = max(data.images.shape[1:3]) if isinstance(data, OwnImages) else None
    config = config or settings(data.kind, tpr, size=side, samples=len(data.labels))
    names = tuple(learners) or _usual_learners(data, config, with_features=frozen is not None)
    known = (*LEARNERS, *RANKED, NETWORK) if data.kind == "table" else (FROZEN, *NETWORKS)
    for name in names:  # before anything is computed or written
        look_up(dict.fromkeys(known), name, "learner")
    if {*NETWORKS} <= {*names} and config.sampling == "shuffled":
        raise ValueError(
            f"{NETWORK} and {PLAIN} would be the same, since the settings of {NETWORK} do not oversample: leave one"
            " of them out"
        )
    claim_folder(home, data, force=force)
    prepared = prepare(data, train, release=data is not source or data.temporary)
    if isinstance(data, OwnImages) and frozen is not None and FROZEN in names:
        prepared = replace(prepared, features=frozen.features(data.images, progress=progress))
    crossed = _cross_fitted(data, prepared, train, names, folds, best, tpr, seed, config, home, progress)
    if crossed is None:
        return None
    ensemble = crossed.ensemble
    if any(learner.view == "features" for learner in ensemble.learners):
        ensemble = replace(ensemble, backbone=frozen)
    judged = judged_scores(data, prepared, parts, crossed, ensemble, per)
    promise: dict[str, Any] = {"tpr": tpr, "confidence": confidence, "per": per}
    found: ChosenThreshold | PromisedThreshold
    other: float | None = None  # the FPR of the other kind of threshold, which may not keep promises
    if promises:
        held = judged["calibration" if certified else "all"]
        found = promised_threshold(
            held.labels, held.values, promises=promises, held_out=certified, units=held.units, **promise
        )
    else:
        found, other = threshold_of(judged, certified, **promise)
    chosen = Threshold.of(found)
    evaluations = {
        name: evaluate_scores(
            judged[place].labels,
            judged[place].values,
            threshold=chosen,
            confidence=confidence,
            tprs=sorted({tpr, *TPRS}, reverse=True),
            units=judged[place].units,
        )
        for name, place in (("judged", "all"), ("test", "test"))
        if place in judged
    }
    # the judged samples chose the threshold: only others can say whether a promise is kept
    evaluations["judged"] = replace(evaluations["judged"], promises=())
    tested, count = evaluations.get("test"), crossed.folds.count
    race = race_of(crossed, data.labels[train], data.units_of(train), tpr, confidence)
    untimed = [{key: value for key, value in one.to_dict().items() if key != "seconds"} for one in race]
    card = home / INNER / CARD
    before = card.read_bytes() if card.exists() else None
    bundle = save_ensemble(
        home / INNER,
        ensemble,
        [
            learner_card(
                learner,
                model=network_shape(config, prepared.inputs) if learner.name in NETWORKS else shape_of(learner),
                settings=crossed.learners[learner.name].settings,
            )
            for learner in ensemble.learners
        ],
        name=data.name,
        preprocessing=dict(prepared.preprocessing),
        classes=data.classes,
        threshold=chosen,
        training={"learners": list(names), "folds": count, "seed": seed},
        fitted_on=Fingerprint.of(prepared.inputs, data.labels),
        parts={name: _counted(data, rows) for name, rows in parts.items()},
        # without seconds: a bundle does not depend on how long a fit took
        metrics=json_value({name: one.to_dict() for name, one in evaluations.items()} | {"learners": untimed}),
        versions=versions_of("torch", "lightgbm", "scikit-learn", "numpy", "pandas", "safetensors"),
    )
    for name in ("out-of-fold", "calibration", "test"):
        file = home / f"{name}-scores.csv"
        if name in judged:
            write_scores(file, judged[name])
        else:  # of another fit
            file.unlink(missing_ok=True)
    summary = {
        "threshold": bundle.card.threshold.model_dump(mode="json"),
        "judged": evaluations["judged"].to_dict(),
        "test": None if tested is None else tested.to_dict(),
        "learners": [one.to_dict() for one in race],
        "folds": count,
        "other_fpr": other,
        "parts": bundle.card.parts,
    }
    write_json(home / "summary.json", json_value(summary))
    report = write_report(home / "report.html", data, judged, parts, bundle, race)
    replaced = before not in (None, card.read_bytes())
    return Fitted(home, bundle, evaluations["judged"], tested, race, count, other, report, replaced)


def _cross_fitted(
    data: OwnData,
    prepared: PreparedData,
    rows: Rows,
    names: Sequence[str],
    folds: int | None,
    best: int | None,
    tpr: float,
    seed: int,
    config: TrainConfig,
    home: Path,
    progress: bool | None,
) -> CrossFitted | None:
    """The learners, cross-fitted on these rows; None in all processes but the first."""
    units, labels, views = data.units_of(rows), data.labels[rows], prepared.views(rows)
    threads = threads_for(len(rows), prepared.inputs.size)
    rounds = 1 if {*NETWORKS} & {*names} else None  # networks take long
    dealt = replace(folds_for(labels, units, folds, seed, rounds=rounds), threads=threads)
    finished = FinishedLearners.open(home / "run", prepared, rows, dealt)
    known: dict[str, Learner] = {FROZEN: frozen_learner()} if data.kind == "image" else {**LEARNERS, **RANKED}
    for name in NETWORKS:
        own = config if name == NETWORK else config.model_copy(update={"sampling": "shuffled"})
        known[name] = network_learner(
            own, finished.folder / name, images=data.kind == "image", units=units, progress=progress
        )
    chosen = {name: known[name] for name in names}
    world = join(config.device)
    found: dict[str, OutOfFold] = {}
    ordered = sorted(chosen, key=lambda name: name not in NETWORKS)  # processes that only help there are done first
    log = SparseLog()
    with progress_bar(shown=progress if not {*NETWORKS} & {*chosen} else False) as bar:
        task = bar.add_task("cross-fitting", total=len(chosen))
        for place, name in enumerate(ordered, 1):
            if world.rank != 0 and name not in NETWORKS:
                break
            bar.update(task, description=f"cross-fitting {name}")
            if bar.disable and progress is not False and world.rank == 0:
                log.note(f"cross-fitting {name}, learner {place} of {len(ordered)}")
            members = finished.members(name, chosen[name]) if name not in NETWORKS else None
            found[name] = cross_fit(chosen[name], name, views.anew(), labels, dealt, members=members)
            return_freed_memory()
            if world.rank == 0 and name not in NETWORKS:
                found[name] = finished.keep(found[name])
            bar.advance(task)
    if world.rank != 0:
        return None
    return averaged({name: found[name] for name in chosen}, labels, dealt, tpr=tpr, best=best)


def threads_for(rows: int, numbers: int) -> int:
    """How many threads a learner may use: on a small table a second one only waits."""
    return cores() if rows >= MANY_ROWS and numbers > LARGE else 1


def judged_scores(
    data: OwnData,
    prepared: PreparedData,
    parts: Mapping[str, Rows],
    crossed: CrossFitted,
    ensemble: Ensemble,
    per: Per,
) -> dict[str, Scores]:
    """Scores by members that have not seen the sample: out of fold, calibration, test, and all but the test."""

    def scores(rows: Rows, values: NDArray[np.float32]) -> Scores:
        units = data.units_of(rows)
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


def _usual_learners(data: OwnData, config: TrainConfig, *, with_features: bool) -> tuple[str, ...]:
    """What is averaged by default (docs/decisions/0066)."""
    if data.kind == "table":
        return tuple(LEARNERS)
    if with_features:
        return (FROZEN, NETWORK)
    return NETWORKS if config.sampling == "balanced" else (NETWORK,)


def _check_promises(data: OwnData, promises: Promises, per: Per) -> None:
    """Refuse promises that these data cannot judge, before anything is trained."""
    if per == "unit" and promises.precision is not None:
        raise ValueError("a precision is a share of rows: it does not go with --per unit")
    if data.units is not None and promises.precision is not None and promises.prevalence is None:
        raise ValueError(
            "some rows are copies or belong to one group: then a precision needs --prevalence, the share of"
            " positives where the model is used. If equal rows occur by chance, --split-copies takes them as"
            " independent"
        )


def threshold_of(
    judged: Mapping[str, Scores], certified: bool, tpr: float, confidence: float, per: Per
) -> tuple[ChosenThreshold, float | None]:
    """The threshold that keeps the recall, and the FPR that the other kind would have."""
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
    shape: BackboneShape | TimmShape = BackboneShape()
    if name is not None and name != shape.name:
        try:
            shape = TimmShape(name=name)
        except ValidationError as error:
            raise ValueError(f"{name!r} is not the name of a network") from error
    try:
        return FrozenBackbone(load_backbone(shape.name), shape)
    except ValueError:
        if name is not None or FROZEN in learners:
            raise
        return None


def _counted(data: OwnData, rows: Rows) -> dict[str, int]:
    """Samples, positives and, where samples share them, the units of the positives."""
    positive = rows[data.labels[rows] == 1]
    found = {"samples": len(rows), "positives": len(positive)}
    return found if data.units is None else found | {"positive_units": len(np.unique(data.units[positive]))}


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
    used = ("calibration",) if threshold.certified else ("train", "calibration")
    rows = np.concatenate([parts[name] for name in used if name in parts])
    image = None
    if isinstance(data, OwnImages):
        images = data.images
        image = lambda place: Image.fromarray(images[rows[place]])  # noqa: E731
    beside = ("out-of-fold", "test") if threshold.certified else ("test",)
    others = {name: judged[name] for name in beside if name in judged}
    model = Model.of(data.name, judged[held], image=image, threshold=threshold.value, others=others)
    chosen = Settings(
        tprs=(threshold.tpr,),
        confidence=threshold.confidence,
        per=threshold.per,
        title=f"Operating point of {data.name}",
        config=bundle.card.training,
        basis="held-out" if threshold.certified else "out-of-fold",
        learners=tuple((one.name, one.fpr, one.weight, one.seconds) for one in race),
    )
    try:
        return str(write(path, [model], chosen, [] if threshold.promised is None else [threshold.promised]))
    except ValueError as error:
        return f"none: {error}"
