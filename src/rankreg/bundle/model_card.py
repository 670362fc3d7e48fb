"""The model card of a bundle: README.md, for people. It comes from bundle.json and is never read back."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from rankreg.bundle.card import BundleCard, ImageInputs, TableInputs, read_inputs
from rankreg.bundle.card_text import Lines, answer_lines, promise_lines
from rankreg.bundle.evaluation import bounded, per_thousand
from rankreg.notation import percent
from rankreg.operating import Interval
from rankreg.report.text import rounded_threshold
from rankreg.terminal import printable

FILE = "README.md"
MOST_NAMES, LONGEST_NAME = 60, 80  # columns in a list, and signs of a name
FEW = 200  # positives: below, every number about them is rough
KINDS = {"linear": "linear model", "trees": "trees", "network": "neural network"}
PARTS = {
    "train": "trains and judges",
    "calibration": "certifies",
    "validation": "chooses the epoch",
    "test": "tests",
}
NOT_CERTIFIED = {
    "cross-fitted": "The recall is not certified. It was seen in simulations, and is proven on average only.",
    "expected": "The recall has no confidence: there are too few positives for one.",
    "empirical": "No recall is promised.",
}


def model_card(card: BundleCard) -> str:
    """The page as Markdown. Texts of the data are in code spans, where no HTML, link or picture is obeyed.

    Args:
        card: what bundle.json says.

    >>> code("a`b <i>")
    '``a`b <i>``'
    """
    inputs = read_inputs(card.preprocessing)
    sections: dict[str, Sequence[str]] = {
        "Intended use": _use(card, inputs),
        "Threshold and promise": _bullets(_promise(card)),
        "Price": _bullets(_price(card)),
        "Data": [*_parts(card), "", *_columns(inputs)],
        "Model": _learners(card),
        "Known limits": [f"- {limit}" for limit in _limits(card, inputs)],
        "Load and predict": _steps(card, inputs),
        "Provenance": _bullets(_provenance(card)),
    }
    pages = [f"# Model card: {code(card.name)}", "Made from `bundle.json`. rankreg does not read this page."]
    pages += ["\n".join([f"## {title}", "", *lines]) for title, lines in sections.items()]
    return "\n\n".join(pages) + "\n"


def code(text: str) -> str:
    """Text of any origin as a code span of one line."""
    shown = printable(" ".join(str(text).split()))
    if len(shown) > LONGEST_NAME:
        shown = shown[: LONGEST_NAME - 1] + "…"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if not shown or shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{space}{shown}{space}{fence}"


def names(of: Sequence[str]) -> str:
    """Many names, and how many more there are."""
    rest = len(of) - MOST_NAMES
    more = [f"and {rest:,} more, which `bundle.json` lists"] if rest > 0 else []
    return ", ".join(chain(map(code, of[:MOST_NAMES]), more))


def _bullets(lines: Lines) -> list[str]:
    return [f"- **{heading}:** {sentence}" for heading, sentence in lines]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells must hold no vertical bar."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _use(card: BundleCard, inputs: ImageInputs | TableInputs) -> list[str]:
    what = "rows of a table" if isinstance(inputs, TableInputs) else "images"
    negative, positive = map(code, card.classes)
    return [
        f"The model gives {what} a score. A higher score is more critical.",
        f"It raises an alarm for those that look like {positive} (positive), and none for {negative} (negative).",
        "It is meant for new data that come from the same source as the data below.",
        "Its scores are not probabilities.",
    ]


def _promise(card: BundleCard) -> Lines:
    at = [("Threshold", f"raise an alarm when score ≥ {rounded_threshold(card.threshold.value)}")]
    if card.threshold.alarm_from is not None:
        at = answer_lines(card.threshold)
    return [*at, *promise_lines(card.threshold)]


def _price(card: BundleCard) -> Lines:
    """False alarms on the test part if there is one, else on samples judged by members that have not seen them."""
    for name, where in (("test", "the test part"), ("judged", "samples that the judging members had not seen")):
        found = card.metrics.get(name)
        if isinstance(found, dict) and "fpr" in found:
            fpr, recall = Interval(**found["fpr"]), Interval(**found["recall"])
            counted = f"{found['positives']:,} positives and {found['negatives']:,} negatives: {where}"
            return [
                ("False alarms", f"expect {per_thousand(fpr)} per 1,000 negatives"),
                ("Caught", f"{bounded(recall)} of these positives"),
                ("Measured on", f"{counted}; in brackets {percent(fpr.confidence)} intervals"),
            ]
    certificate = card.threshold.certificate or {}
    if {"fpr", "fpr_at_most", "fpr_confidence", "negatives"} <= certificate.keys():
        seen, most, sure = (certificate[name] for name in ("fpr", "fpr_at_most", "fpr_confidence"))
        bound = f"at most {1000 * most:.0f} with {percent(sure)} confidence"
        said = f"expect {1000 * seen:.0f} per 1,000 negatives, {bound}"
        counted = f"{certificate['negatives']:,} negatives of the calibration part"
        return [("False alarms", said), ("Measured on", counted)]
    return [("False alarms", "not measured: use `rankreg evaluate` with labelled data")]


def _parts(card: BundleCard) -> list[str]:
    rows = [
        [PARTS.get(name, "other"), *(f"{part.get(count, 0):,}" for count in ("samples", "positives"))]
        for name, part in card.parts.items()
    ]
    return _table(["part", "samples", "positives"], rows)


def _columns(inputs: ImageInputs | TableInputs) -> list[str]:
    if isinstance(inputs, ImageInputs):
        return [f"- **Images:** resized to {inputs.height} × {inputs.width} pixels."]
    number, category = ([one.name for one in kind] for kind in (inputs.numeric, inputs.categorical))
    lines = [
        ("Target", f"{code(inputs.target)}, positive: {code(inputs.positive)}"),
        ("Numbers used", f"{len(number):,}: {names(number)}"),
        ("Categories used", f"{len(category):,}: {names(category)}"),
        ("Not learned from", f"{len(inputs.unused):,}: {names(inputs.unused)}"),
    ]
    return _bullets([line for line in lines if not line[1].startswith("0: ")])


def _learners(card: BundleCard) -> list[str]:
    if card.model is not None:
        return [f"One neural network: {code(card.model.name)}."]
    raced = {one["name"]: one["fpr"] for one in card.metrics.get("learners", ())}
    total = sum(sum(one.weights) for one in card.learners)
    rows = [
        [
            one.name,
            KINDS[one.kind],
            f"{one.members}",
            percent(round(sum(one.weights) / total, 3)),
            bounded(Interval(**raced[one.name])) if one.name in raced else "not measured",
        ]
        for one in card.learners
    ]
    if "average" in raced and len(rows) > 1:
        rows.append(["average", "", "", "100 %", bounded(Interval(**raced["average"]))])
    head = ["learner", "kind", "members", "share", f"FPR at {percent(card.threshold.tpr)} TPR"]
    backbone = (
        [] if card.backbone is None else ["", f"Features come from the frozen network {code(card.backbone.name)}."]
    )
    return ["The score is the average of these learners:", "", *_table(head, rows), *backbone]


def _limits(card: BundleCard, inputs: ImageInputs | TableInputs) -> list[str]:
    """What this model does not promise, and why."""
    threshold = card.threshold
    trained = card.parts.get("train", {}).get("positives", 0)
    useless = [one["sentence"] for one in card.metrics.get("judged", {}).get("findings", ())]
    limits = [
        *useless,
        *([NOT_CERTIFIED[threshold.kind]] if threshold.kind in NOT_CERTIFIED else []),
        "Data from another source, or of another time, may break the promise. `rankreg monitor` watches it, and"
        " `rankreg recertify` tests the threshold on new data.",
    ]
    if threshold.units is None and threshold.kind != "empirical":
        limits.append(
            "Every row counts as independent. If several rows belong to one patient, fit again and say so."
        )
    if 0 < trained < FEW:
        limits.append(f"Few positives trained the model ({trained:,}). Numbers about positives are rough.")
    if "judged" in card.metrics and "test" not in card.metrics:
        limits.append("No test part was set aside. The judging members had not seen the samples that they judge.")
    if isinstance(inputs, TableInputs):
        limits.append("A row that cannot be read or scored raises an alarm, and its problem is named.")
    return limits


def _steps(card: BundleCard, inputs: ImageInputs | TableInputs) -> list[str]:
    new = "new.csv" if isinstance(inputs, TableInputs) else "images"
    python = [
        "from rankreg.bundle import load_bundle, predict",
        "",
        f'predict(load_bundle("bundle"), "{new}", "scores.csv")',
    ]
    if "estimator" in card.training:
        python = ["from rankreg import RankRegClassifier", "", 'classifier = RankRegClassifier.load("bundle")']
    shell = [f"rankreg predict bundle {new} --out scores.csv"]
    return [
        "`bundle` is this folder. Nothing in it is executed.",
        "",
        "```sh",
        *shell,
        "```",
        "",
        "```python",
        *python,
        "```",
    ]


def _provenance(card: BundleCard) -> Lines:
    versions = ", ".join(code(f"{name} {version}") for name, version in card.versions.items())
    said: dict[str, Any] = {
        name: card.training[name] for name in ("learners", "folds", "seed") if name in card.training
    }
    settings = [("Settings", code(", ".join(f"{name} {value}" for name, value in said.items())))] if said else []
    return [
        ("Versions", versions),
        *settings,
        ("Format", f"rankreg-bundle, version {card.version}"),
        ("Weights", f"`{card.weights.file}`, sha256 `{card.weights.sha256}`"),
    ]
