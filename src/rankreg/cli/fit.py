"""`rankreg fit`, `evaluate`, `predict` and `export`: data in, a model and its scores out."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankreg.cli import options as opt
from rankreg.cli.data import Groups, Negative, RestNegative, Size, takes_table_options
from rankreg.notation import Lines, percent, short_name, short_quotes
from rankreg.safe_files import is_stream
from rankreg.terminal import say, show_lines, show_table

if TYPE_CHECKING:
    from rankreg.datasets.splits import OwnData
    from rankreg.datasets.table import TableOptions
    from rankreg.fit.crossfit import RacedLearner
    from rankreg.fit.pipeline import Fitted

Data = Annotated[Path, typer.Argument(help="A table (CSV, Parquet) or a folder of images.", show_default=False)]
BundleFolder = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="The folder that `fit --out` wrote.", show_default=False)
]
LONGEST_PROBLEM = 300  # characters
CONFIG_HELP = "TOML file with any setting of the training, e.g. batch_size = 32; `rankreg tune` writes such files."


_training = partial(opt.option, panel="Training")
_network = partial(opt.option, panel="The learner network")
_images = partial(opt.option, panel="Images")


@takes_table_options
def fit(
    data: Data,
    columns: "TableOptions",
    out: Annotated[Path | None, opt.option("Folder for the model and all files.")] = None,
    tpr: opt.Tpr = opt.TPR,
    fpr: opt.Fpr = None,
    precision: opt.Precision = None,
    alarms: opt.Alarms = None,
    per_day: opt.PerDay = None,
    review: opt.ReviewOption = False,
    prevalence: opt.Prevalence = None,
    confidence: opt.Confidence = 0.95,
    per: opt.Per = "row",
    threshold: Annotated[
        Literal["auto", "certified", "cross-fitted"],
        typer.Option(
            help="certified holds samples out and proves the recall; cross-fitted uses every positive;"
            " auto certifies where a fifth of the positives suffices."
        ),
    ] = "auto",
    calibration: Annotated[float, typer.Option(help="Share held out to certify the threshold.")] = 0.2,
    test: Annotated[float, typer.Option(help="Share set aside and looked at once, at the end.")] = 0.0,
    describe: Annotated[bool, typer.Option("--describe", help="Say how each column is read, and stop.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the model of other data in --out.")] = False,
    learner: Annotated[
        list[str] | None,
        _training(
            "Learner to use instead of the average of all, e.g. boosting (images: frozen, network, network-plain);"
            " repeatable; several are averaged."
        ),
    ] = None,
    best: Annotated[
        int | None, _training("Average only the best N learners, chosen inside the folds (default: all).")
    ] = None,
    folds: Annotated[int | None, _training("Folds (default: 5, dealt twice with few positives).")] = None,
    seed: Annotated[int | None, _training("Decides the folds and the training (default: 0).")] = None,
    loss: Annotated[str | None, _network("Base loss, e.g. bce, a-fl, w-bce (default: bce).")] = None,
    method: Annotated[
        str | None,
        _network("rankreg, buffer, alm or none (default: buffer; images: none, half of each batch positives)."),
    ] = None,
    model: Annotated[str | None, _network("mlp, resnet10 or resnet18 (default: mlp; images resnet10).")] = None,
    epochs: Annotated[
        int | None, _network("How often every sample is seen (default: 40; images: up to 30, about 300 steps).")
    ] = None,
    config: Annotated[Path | None, _network(CONFIG_HELP)] = None,
    backbone: Annotated[
        str | None,
        _images(
            "Pretrained network whose features are learned from: efficientnet-lite0 (extra `pretrained`), a model"
            " of timm where it is installed, or none (default: the first, if installed)."
        ),
    ] = None,
    size: Size = None,
    groups: Groups = None,
) -> None:
    """Train on a table or a folder of images, choose a threshold that keeps the TPR, and say what it costs.

    Every positive trains the model, and every positive judges it. Each learner trains one member per fold. A sample
    is judged by members that have not seen it. The model is the average of all members. For a table, an option of
    the network, such as --epochs or --config, trains the learner "network" alone; --learner adds others.

    --fpr, --precision, --alarms and --review promise more than the TPR, with one --confidence for all, judged on
    the samples that judge the recall. Exit status 1: they cannot be kept. The model is then saved with the
    threshold of the TPR alone, and it is said which promises conflict and what would help.

    If a fit is stopped, the same command goes on. A fit of other data in --out is replaced only with --force. To
    train networks in two processes, type `torchrun --nproc-per-node 2 -m rankreg fit` in place of `rankreg fit`.

    Examples:
        rankreg fit claims.csv --target fraud --positive yes --out model
        rankreg fit claims.csv --target fraud --positive yes --describe
        rankreg fit claims.csv --target fraud --positive yes --group customer --out m
        rankreg fit claims.csv --target fraud --positive yes --precision 0.3 --out p
        rankreg fit lesions --positive melanoma --tpr 0.9 --out model
    """
    import torch

    from rankreg.fit import Source, read_source, settings
    from rankreg.fit import fit as run_fit
    from rankreg.fit.pipeline import NETWORK, NETWORKS
    from rankreg.fit.sources import check_request
    from rankreg.train import Interrupted

    with _one_voice():
        source = Source(data, groups=groups, size=size, **vars(columns))
        if out is None and not describe:
            raise ValueError("say where to write the model with --out FOLDER, or use --describe to stop before it")
        home = Path() if out is None else out
        check_request(home, tpr=tpr, confidence=confidence, calibration=calibration, test=test)
        asked = opt.PromiseOptions(
            (tpr,), fpr, precision, alarms, per_day, review, per=per, confidence=confidence, prevalence=prevalence
        )
        if per_day is not None and alarms is None:
            raise ValueError("--per-day says how many rows come per day for --alarms: give both")
        if prevalence is not None and precision is None and alarms is None:
            raise ValueError("--prevalence is for --precision and --alarms: give one of them")
        promises = asked.beside()
        kind = "image" if source.is_images else "table"
        options: dict[str, Any] = {"loss": loss, "method": method, "model": model, "epochs": epochs, "seed": seed}
        chosen = settings(kind, tpr, size=source.side, file=config, **options)
        own = any(value is not None for value in (loss, method, model, epochs, config))
        learners = tuple(learner or ([NETWORK] if own and kind == "table" else []))
        if own and learners and not {*NETWORKS} & {*learners}:
            raise ValueError(
                "--loss, --method, --model, --epochs and --config are for networks: add --learner network"
            )
        found = read_source(replace(source, seed=chosen.seed), home / "decoded")
        chosen = settings(kind, tpr, size=source.side, samples=len(found.labels), file=config, **options)
        if _is_first():
            _show_columns(found)
        if describe:
            return
        if kind == "table":
            torch.set_num_threads(1)  # threads cost a table's small network more than they give
        try:
            fitted = run_fit(
                replace(found, temporary=True),
                home,
                tpr=tpr,
                confidence=confidence,
                per=per,
                learners=learners,
                folds=folds,
                best=best,
                threshold=threshold,
                calibration=calibration,
                test=test,
                promises=promises,
                seed=chosen.seed,
                config=chosen,
                backbone=backbone,
                force=force,
            )
        except Interrupted as stopped:
            if _is_first():
                say(f"rankreg: {stopped}", err=True)
            raise typer.Exit(130) from stopped
        except KeyboardInterrupt as stopped:
            say(f"rankreg: stopped; finished learners are kept, the same command goes on in {home}", err=True)
            raise typer.Exit(130) from stopped
    if fitted is not None:
        show_lines(_summary_lines(fitted))
        say("")
        show_table(_race_table(fitted.race, fitted.threshold.tpr))
        show_commands("Next", _next_steps(fitted))
        if not fitted.threshold.kept:
            raise typer.Exit(1)


def _show_columns(found: "OwnData") -> None:
    """How a table was read, before training; images whose names suggest that several show one thing."""
    from rankreg.datasets.images import suspected_groups
    from rankreg.datasets.table import OwnTable, describe

    if isinstance(found, OwnTable):
        for line in describe(found):
            say(short_quotes(line))
        say("")
    elif found.units is None and (suspicion := suspected_groups(found.ids.tolist())) is not None:
        say(f"Beware: {suspicion}", err=True)


def _summary_lines(fitted: "Fitted") -> Lines:
    """Headings and sentences: the verdict and its price, then the details and what to do next."""
    from rankreg.bundle.evaluation import evaluation_lines, per_thousand
    from rankreg.bundle.model_card import answer_lines, promise_lines
    from rankreg.report.text import finding_lines

    card, threshold, test = fitted.bundle.card, fitted.threshold, fitted.test
    lines = finding_lines(fitted.judged.findings)
    if test is not None:  # what the test part alone shows to be useless
        known = {one.name for one in fitted.judged.findings}
        fresh = [one for one in test.findings if one.name not in known]
        lines += finding_lines([replace(one, sentence=f"Test part: {one.sentence}") for one in fresh])
    lines += promise_lines(threshold, advice=True)
    if threshold.promised is None or not threshold.kept:  # promises that are kept have named their price already
        fpr = (fitted.judged if test is None else test).fpr
        lines.append(("Price", f"expect {per_thousand(fpr)} false alarms per 1,000 negatives"))
    if threshold.promised is None and (otherwise := _otherwise(threshold.certified, fitted.other_fpr)):
        lines.append(("Otherwise", otherwise))
    lines += answer_lines(threshold)
    purposes = {"train": "train and judge", "calibration": "certify", "test": "test"}
    parts = [
        f"{part['samples']:,} {purposes[name]} ({part['positives']:,} {card.classes[1]!r})"
        for name, part in card.parts.items()
    ]
    lines.append(("Data", f"{card.name}: {', '.join(parts)}"))
    if unused := card.preprocessing.get("unused", ()):
        what = "if one names the rows, pass it as --id; otherwise --drop silences this; --describe says why"
        lines.append(("Not learned from", f"{', '.join(map(repr, unused))}: {what}"))
    held = ", calibration samples by all members" if threshold.certified else ""
    lines.append(("Judged", f"every sample by members that have not seen it ({fitted.folds} folds{held}):"))
    lines += evaluation_lines(fitted.judged)
    if test is not None:
        lines.append(("Tested", "once, on the test part; nothing was chosen by it:"))
        lines += evaluation_lines(test)
    images = " decoded/ the images as the network sees them (may be removed),"
    decoded = images if card.preprocessing["kind"] == "image" else ""
    files = f"{fitted.folder}: bundle/ is the model,{decoded} run/ lets a stopped fit go on, summary.json"
    look = f"open {fitted.report} in a browser" if fitted.report.endswith(".html") else fitted.report
    before = [("Replaced", f"the model that {fitted.folder} held before")] if fitted.replaced else []
    return [*lines, ("Files", files), *before, ("Look at it", look)]


def _otherwise(certified: bool, other: float | None) -> str:
    """What the other kind of threshold would cost."""
    if other is None:
        few = "half of these positives are too few to certify the target (--threshold certified)"
        return "" if certified else few
    if certified:
        return f"a cross-fitted threshold, not proven, would raise {1000 * other:.0f} per 1,000"
    return f"to hold positives out and certify would raise about {1000 * other:.0f} per 1,000, or more"


def _race_table(race: "Sequence[RacedLearner]", tpr: float) -> list[tuple[str, ...]]:
    """A header, then every learner and the average."""
    from rankreg.bundle.evaluation import bounded

    header = ("learner", f"FPR at {percent(tpr)} TPR", "weight", "seconds")
    rows = [(one.name, bounded(one.fpr), f"{one.weight:.2f}", f"{one.seconds:.1f}") for one in race]
    return [header, *rows]


def _next_steps(fitted: "Fitted") -> list[str]:
    """Commands to type; capitals stand for the user's own files."""
    home = shlex.quote(str(fitted.folder))
    return [
        f"rankreg predict {home} NEW_DATA --out scores.csv",
        f"rankreg evaluate {home} LABELLED_DATA",
        f"rankreg monitor CONFIRMED.csv --score score --point {shlex.quote(str(fitted.folder / 'summary.json'))}",
    ]


def _is_first() -> bool:
    """Whether this process is rank 0 under torchrun, or alone."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def _one_voice() -> Iterator[None]:
    """Under torchrun, an error is printed by the first process of each machine; the others name themselves."""
    try:
        yield
    except (ValueError, OSError) as error:
        if os.environ.get("LOCAL_RANK", "0") == "0" or os.environ.get("RANKREG_TRACEBACK"):
            raise
        rank = os.environ.get("RANK", "?")
        say(f"rankreg: process {rank} stopped, too; RANKREG_TRACEBACK=1 shows why", err=True)
        raise typer.Exit(2) from error


def evaluate(
    bundle: BundleFolder,
    data: Data,
    confidence: opt.Confidence = 0.95,
    out: Annotated[Path | None, typer.Option(help="Also write id, label and score to this CSV file.")] = None,
    negative: Negative = None,
    rest_negative: RestNegative = False,
    as_json: opt.Json = False,
) -> None:
    """Measure a model on labelled data of any size: recall and false alarms at its threshold, with intervals.

    Labels are read as in the fit; --negative adds values. The exit status is 1 if a sample could not be scored.

    Examples:
        rankreg evaluate model labelled.csv
        rankreg evaluate model labelled.csv --out scores.csv --json
    """
    from rankreg.bundle import evaluate as run_evaluate
    from rankreg.bundle import load_bundle
    from rankreg.bundle.evaluation import evaluation_lines
    from rankreg.bundle.model_card import promise_lines
    from rankreg.notation import json_text
    from rankreg.report.text import finding_lines

    model = load_bundle(bundle)
    found = run_evaluate(
        model, data, confidence=confidence, negative=tuple(negative or ()), rest_negative=rest_negative, out=out
    )
    if as_json:
        unreadable = {"left_out": found.left_out, "unreadable": list(found.unreadable)}
        say(json_text(found.evaluation.to_dict() | unreadable))
    else:
        show_lines(
            [
                *finding_lines(found.evaluation.findings),
                *promise_lines(model.card.threshold),
                ("Measured", "on these data:"),
                *evaluation_lines(found.evaluation),
            ]
        )
    _name_unreadable(found.left_out, found.unreadable[:5], "are left out")


def predict(
    bundle: BundleFolder,
    data: Data,
    out: Annotated[
        Path, opt.option("CSV file or pipe to write: id, score, alarm, problem; with three answers also answer.")
    ],
) -> None:
    """Score new data: one row of the output for each row or image, however many there are.

    A sample that cannot be read or scored raises an alarm. Its row names the problem, and the exit status is 1. A
    model that was fitted with --review answers alarm, review or dismiss; the column alarm is then 1 for both alarm
    and review.

    Examples:
        rankreg predict model new.csv --out scores.csv
        rankreg predict model photos --out scores.csv
    """
    from rankreg.bundle import load_bundle
    from rankreg.bundle import predict as run_predict
    from rankreg.bundle.model_card import answer_lines, promise_lines
    from rankreg.notation import rounded_threshold

    model = load_bundle(bundle)
    found = run_predict(model, data, out)
    threshold = model.card.threshold
    lowest = rounded_threshold(threshold.value)
    text = f"{found.out}: {found.samples:,} samples, {found.alarms:,} alarms (score ≥ {lowest})"
    if found.reviews is not None:
        text = (
            f"{found.out}: {found.samples:,} samples, {found.alarms - found.reviews:,} alarms, {found.reviews:,} to"
            f" review, {found.samples - found.alarms:,} dismissed"
        )
    say(text, err=is_stream(found.out))
    if found.reviews is not None:
        show_lines(answer_lines(threshold), err=is_stream(found.out))
    if threshold.kind != "empirical":
        show_lines(promise_lines(threshold), err=is_stream(found.out))
    else:
        say("The threshold is uncertified: no recall is guaranteed.", err=True)
    _name_unreadable(found.unreadable, found.examples, "raise an alarm")


def export(
    bundle: BundleFolder,
    out: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="File to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a model as one ONNX file, which runs without torch and without rankreg.

    The file holds preprocessing, learners and threshold. Its inputs are resized images (uint8), or the numbers and
    texts of a table (NaN and "" where a value is missing). Its outputs are score and alarm of each sample; with
    three answers also answer (0 dismiss, 1 review, 2 alarm).

    The metadata of the file hold classes, threshold and certificate as JSON, and say what the caller must do
    first; examples/onnx_consumer.py reads them. The file is kept only if its scores equal those of the model.

    This needs onnx and onnxruntime, which the extra `onnx` of the package installs.

    Examples:
        rankreg export model model.onnx
        rankreg export model model.onnx --force
    """
    from rankreg.bundle import export_onnx, load_bundle
    from rankreg.bundle.onnx_file import check_onnx_path
    from rankreg.notation import rounded_threshold

    check_onnx_path(out, force=force)
    model = load_bundle(bundle)
    made = export_onnx(model, out, force=force)
    threshold, size = model.card.threshold, made.out.stat().st_size
    outputs = f"score and alarm (score ≥ {rounded_threshold(threshold.value)})"
    if threshold.alarm_from is not None:
        outputs += f", and answer: 2 alarm (score ≥ {rounded_threshold(threshold.alarm_from)}), 1 review, 0 dismiss"
    say(f"{made.out}: {size / 1000:,.0f} kB; outputs {outputs}")
    say(f"Inputs: {made.inputs['words']}")
    say(f"Checked: scores differ from the model's by at most {made.difference:.1g} on {made.samples} samples.")
    if threshold.kind == "empirical":
        say("The threshold is uncertified: no recall is guaranteed.", err=True)


def _name_unreadable(count: int, examples: tuple[str, ...], fate: str) -> None:
    """Say which samples have no score, and leave with a status that scripts see."""
    if count:
        more = ", …" if count > len(examples) else ""
        said = ", ".join(short_name(one, LONGEST_PROBLEM) for one in examples)
        say(f"{count:,} could not be scored and {fate}: {said}{more}", err=True)
        raise typer.Exit(1)


def show_commands(heading: str, commands: list[str]) -> None:
    """Commands to copy: one a line, never broken."""
    say(f"{heading}:")
    for command in commands:
        say(f"  {command}")
