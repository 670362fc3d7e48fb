"""Train, certify, test, save: each step once, in this order, from parts of the data that never meet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import ValidationError

from rankreg.bundle import Bundle, Evaluation, Threshold
from rankreg.bundle.card import versions_of
from rankreg.bundle.evaluation import evaluate_scores, write_scores
from rankreg.bundle.storage import INNER, save_bundle
from rankreg.datasets.splits import Samples, Splits
from rankreg.distributed import join
from rankreg.names import look_up
from rankreg.notation import json_value
from rankreg.operating import choose_threshold, positives_needed
from rankreg.operating.units import Per
from rankreg.report import Model, Settings, write
from rankreg.scores import Scores
from rankreg.train import Run, TrainConfig, train
from rankreg.train.config import DEFAULTS, SMALL, faults
from rankreg.train.folder import write_json
from rankreg.train.inference import score_samples

NAMED = ("loss", "method", "model", "optimizer")  # a name and settings that belong to it


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of `fit`.

    Args:
        folder: where everything was written.
        bundle: the model, ready to score.
        test: how it did on the untouched test part.
        epochs: how many epochs were trained.
        best_epoch: which of them was kept, from 0.
        report: the path of the report, or why there is none.
    """

    folder: Path
    bundle: Bundle
    test: Evaluation
    epochs: int
    best_epoch: int
    report: str

    @property
    def threshold(self) -> Threshold:
        """The threshold, certified or not."""
        return self.bundle.card.threshold


def fit(
    splits: Splits,
    config: TrainConfig,
    out: Path | str,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    per: Per = "row",
    progress: bool | None = None,
) -> Fitted | None:
    """Train a model, choose its threshold, measure it once, and save it all in one folder.

    The model trains on the training part, and the validation part chooses the epoch. The calibration
    part certifies the threshold. The test part is looked at once. The folder gets bundle/ (the model),
    run/ (the training), report.html, summary.json and the scores of both parts.

    A fit that was stopped goes on where it stopped and gives the same bundle. With another TPR or
    confidence a finished run is only certified anew. Too few positives for the guarantee leave the
    threshold uncertified; the bundle and the summary say so. Under torchrun every process calls this.

    Args:
        splits: the data in parts, from `load_source`.
        config: the settings of the training, from `settings`.
        out: the folder to write to.
        tpr: the share of positives that must raise an alarm, default 0.95.
        confidence: of the certificate and of the intervals, default 0.95.
        per: "row" promises that this share of new positives raises an alarm. "unit" promises that this
            share of new units with positives does, on at least one of them. Units are the copies and
            groups of the data.
        progress: show a bar; by default when standard error is a terminal.

    Returns:
        The bundle, the evaluation on the test part and where they are; None in all processes but the first.

    Raises:
        ValueError: if the target makes no sense, the folder holds another run, or training diverges.

    >>> from rankreg.fit import Source, load_source
    >>> rows = [f"{k % 5 // 4 + k % 7 / 4},{int(k % 5 == 4)}" for k in range(400)]
    >>> _ = Path("claims.csv").write_text("amount,fraud\\n" + "\\n".join(rows))
    >>> claims = Source(Path("claims.csv"), target="fraud", keep_copies_together=False)
    >>> config = settings("table", 0.7, epochs=1)
    >>> fitted = fit(load_source(claims, Path("cache")), config, "model", tpr=0.7, progress=False)
    >>> fitted.threshold.certified, fitted.threshold.calibration_positives
    (True, 12)
    """
    home = Path(out)
    check_request(home, tpr=tpr, confidence=confidence)
    run = train(splits, config, home / "run", score_parts=(), progress=progress)
    if join(config.device).rank != 0:
        return None
    run.model.cpu()
    scores = {part: score_samples(run.model, splits[part], precision="float32") for part in ("calibration", "test")}
    if per == "unit":
        scores = {part: _with_units(found) for part, found in scores.items()}
    held = scores["calibration"]
    chosen = choose_threshold(held.labels, held.values, tpr=tpr, confidence=confidence, units=held.units, per=per)
    threshold = Threshold.of(chosen)
    test = evaluate_scores(
        scores["test"].labels,
        scores["test"].values,
        threshold=threshold.value,
        confidence=confidence,
        tprs=sorted({tpr, 0.98, 0.95, 0.90}, reverse=True),
        units=scores["test"].units,
    )
    for part, values in scores.items():
        write_scores(home / f"{part}-scores.csv", values)
    bundle = save_bundle(home / INNER, run.model, **_card(splits, run, threshold, test))
    summary = {"threshold": threshold.model_dump(mode="json"), "test": test.to_dict(), "parts": bundle.card.parts}
    write_json(home / "summary.json", json_value(summary))
    report = write_report(home / "report.html", splits, held, run.config, threshold)
    return Fitted(home, bundle, test, len(run.history), run.best_epoch, report)


def check_request(out: Path, *, tpr: float, confidence: float) -> None:
    """Refuse a target or a folder that cannot be, before anything is read or trained."""
    positives_needed(tpr, confidence)
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise ValueError(f"{place} is a file, but a folder is needed: choose another --out")
            return


def _card(splits: Splits, run: Run, threshold: Threshold, test: Evaluation) -> Mapping[str, Any]:
    return {
        "name": splits.name,
        "model": run.config.model,
        "preprocessing": dict(splits.preprocessing),
        "classes": splits.classes,
        "threshold": threshold,
        "training": run.config.model_dump(mode="json") | {"best_epoch": run.best_epoch},
        "parts": {name: _counted(part) for name, part in splits.parts.items()},
        "metrics": json_value(test.to_dict()),
        "versions": versions_of("rankreg", "torch", "numpy", "pandas", "pillow", "safetensors"),
    }


def _with_units(scores: Scores) -> Scores:
    """Units that are named, also where every sample is one of its own."""
    return scores if scores.units is not None else replace(scores, units=np.arange(len(scores)))


def _counted(part: Samples) -> dict[str, int]:
    """Samples, positives and, where samples share them, the units of the positives."""
    positive = part.labels == 1
    found = {"samples": len(part), "positives": int(np.count_nonzero(positive))}
    return found if part.units is None else found | {"positive_units": len(np.unique(part.units[positive]))}


def write_report(path: Path, splits: Splits, calibration: Scores, config: TrainConfig, threshold: Threshold) -> str:
    """Write the report, and return its path, or why there is none, e.g. because all scores are equal."""
    inputs = splits["calibration"].inputs
    pictures = splits.preprocessing.get("kind") == "image"
    image = (lambda place: Image.fromarray(inputs(np.array([place]))[0])) if pictures else None
    model = Model.of(splits.name, calibration, image=image, threshold=threshold.value)
    settings = Settings(
        tprs=(threshold.tpr,),
        confidence=threshold.confidence,
        per=threshold.per,
        title=f"Operating point of {splits.name}",
        config=config.model_dump(mode="json", exclude_none=True),
    )
    try:
        return str(write(path, [model], settings))
    except ValueError as error:
        return f"none: {error}"


def settings(
    kind: str, tpr: float, *, size: int | None = None, file: Path | None = None, **options: Any
) -> TrainConfig:
    """The settings of a training: the defaults, then a TOML file, then the options that are not None.

    Args:
        kind: "table" or "image".
        tpr: the target TPR, which the choice of an epoch by FPR uses.
        size: the side of the images in pixels, which decides the network's stem unless the file does.
        file: a TOML file with keys of `TrainConfig`.
        options: keys of `TrainConfig`, e.g. epochs, seed, loss, method or model; a name alone will do.

    Returns:
        The complete settings.

    Raises:
        ValueError: if a key or a value is wrong; names the nearest valid one.

    >>> settings("table", 0.95, epochs=3, method="buffer").method.name
    'buffer'
    """
    chosen = look_up(DEFAULTS, kind, "kind of data")
    if file is not None:
        said = TrainConfig.from_toml(file).model_dump(exclude_unset=True)
        if "tpr" in said:
            raise ValueError(f"{file}: the target is --tpr, not a line of the file: remove tpr from it")
        chosen = _merged(chosen, said)
    given = {key: value for key, value in options.items() if value is not None}
    chosen = _merged(chosen, {key: {"name": value} if key in NAMED else value for key, value in given.items()})
    if kind == "image" and size is not None and "stem" not in chosen["model"]:
        chosen = chosen | {"model": chosen["model"] | {"stem": "cifar" if size <= SMALL else "imagenet"}}
    try:
        return TrainConfig.model_validate(chosen | {"tpr": tpr})
    except ValidationError as error:
        raise ValueError(faults(error)) from error


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Keys of `above` win; settings of a named choice are kept as long as the new choice has them too."""
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        if key in NAMED and isinstance(value, dict) and isinstance(before, dict) and _alike(before, value):
            value = before | value
        merged[key] = value
    return merged


def _alike(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """The same name, or two sizes of one kind of network."""
    first, second = str(before.get("name")), str(after.get("name", before.get("name")))
    return first == second or (first.startswith("resnet") and second.startswith("resnet"))
