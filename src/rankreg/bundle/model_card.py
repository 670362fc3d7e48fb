"""What bundle.json says, in words: the model card (README.md), and what the threshold promises.

Nothing of it is read back. The verdict comes first, and never more than is proven or simulated.
"""

import re
from collections.abc import Sequence
from itertools import chain
from math import ceil, floor, log10
from typing import Any

from rankreg.bundle.card import BundleCard, ImageInputs, TableInputs, Threshold, read_inputs
from rankreg.bundle.evaluation import per_thousand
from rankreg.notation import Lines, percent, rounded_threshold, share
from rankreg.operating import Interval, PromisedPoint, Review
from rankreg.operating.points import assumption
from rankreg.report import promise_text
from rankreg.report.text import GIVE_PREVALENCE
from rankreg.terminal import printable

FILE = "README.md"
MOST_NAMES, LONGEST_NAME = 60, 80  # columns in a list, and signs of a name
FEW = 200  # positives: below, every number about them is rough
KINDS = {"linear": "linear model", "trees": "trees", "network": "neural network"}
PARTS = {
    "train": "trains",
    "calibration": "certifies",
    "validation": "chooses the epoch",
    "test": "tests",
}
MEANINGS = {
    "certified": "The threshold was chosen on positives from which the model has not learned. This is proven,"
    " whatever the scores look like.",
    "cross-fitted": "Every positive was scored by models that had not learned from it, and these scores chose the"
    " threshold. In simulations the recall held as often as stated. The proof is about the average only.",
    "expected": "Every positive was scored by models that had not learned from it, and these scores chose the"
    " threshold. There are too few of them for a confidence.",
    "empirical": "The threshold is where the samples at hand reached the target. New data may do worse.",
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
        "Promise": _bullets(_promise(card)),
        "Price": _bullets(_price(card)),
        "Intended use": _use(inputs),
        "Known limits": [f"- {limit}" for limit in _limits(card, inputs)],
        "Data": [*_parts(card), "", *_columns(inputs)],
        "Model": _learners(card),
        "Load and predict": _steps(card, inputs),
        "Words": _bullets(_words(card)),
        "Provenance": _bullets(_provenance(card)),
    }
    pages = [f"# Model card: {code(card.name)}", "\n".join(_purpose(card, inputs))]
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


def rounded(interval: Interval) -> str:
    """A share in percent with the digits that its interval leaves; bounds are rounded outwards.

    >>> rounded(Interval(0.503, 0.4228, 0.5833, 0.95)), rounded(Interval(0.0312, 0.0301, 0.0324, 0.95))
    ('50 % (42 % to 59 %)', '3.12 % (3.01 % to 3.24 %)')
    >>> rounded(Interval(1.0, 0.9549, 1.0, 0.95))
    '100 % (95.4 % to 100 %)'
    >>> rounded(Interval(0.0004, 0.0001, 0.02, 0.95))
    '0.1 % (0 % to 2.0 %)'
    """
    width = max(interval.high - interval.low, 1e-6)
    digits = min(4, max(0, ceil(-1 - log10(width))))
    step = 100 * 10**digits
    low, high = floor(interval.low * step + 1e-9), ceil(interval.high * step - 1e-9)
    seen = min(high, max(low, round(interval.estimate * step)))
    if interval.estimate < 1 and seen == step:
        seen = max(low, step - 1)  # not all
    if interval.estimate > 0 and seen == 0:
        seen = min(high, 1)  # not none
    ends = {0: "0 %", step: "100 %"}
    said, least, most = (ends.get(value, f"{value / 10**digits:.{digits}f} %") for value in (seen, low, high))
    return f"{said} ({least} to {most})"


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


def _purpose(card: BundleCard, inputs: ImageInputs | TableInputs) -> list[str]:
    what = "rows of a table" if isinstance(inputs, TableInputs) else "images"
    negative, positive = map(code, card.classes)
    where = f" in the column {code(inputs.target)}" if isinstance(inputs, TableInputs) else ""
    return [
        f"This model raises an alarm for {what} that look like {positive}{where}: the positives.",
        f"All others ({negative}) are the negatives.",
    ]


def _use(inputs: ImageInputs | TableInputs) -> list[str]:
    what = "row" if isinstance(inputs, TableInputs) else "image"
    return [
        f"- The model gives each {what} a score. A higher score is more critical. A score is not a probability.",
        "- It is meant for new data from the same source as the data below.",
        "- rankreg cannot know who uses the model and for which decision. Please add it here. rankreg wrote this"
        " page from `bundle.json` and never reads it back.",
    ]


def _promise(card: BundleCard) -> Lines:
    ((heading, said),) = answer_lines(card.threshold)
    return [
        *promise_lines(card.threshold),
        ("What this means", MEANINGS[card.threshold.kind]),
        (heading, f"{said} (rounded; exact in `bundle.json`)"),
    ]


def _price(card: BundleCard) -> Lines:
    """False alarms on the test part if there is one, else on samples judged by members that have not seen them."""
    unseen = "the data below, each sample scored only by models that had not learned from it"
    for name, where in (("test", "the test part"), ("judged", unseen)):
        found = card.metrics.get(name)
        if isinstance(found, dict) and "fpr" in found:
            fpr, recall = Interval(**found["fpr"]), Interval(**found["recall"])
            two = card.threshold.alarm_from is None
            heading, answered = ("False alarms", "") if two else ("Not dismissed", " alarms and reviews")
            return [
                (heading, f"expect {per_thousand(fpr)}{answered} per 1,000 negatives"),
                ("Caught", f"{rounded(recall)} of the positives at hand"),
                *_real(found),
                ("Measured on", f"{found['positives']:,} positives and {found['negatives']:,} negatives: {where}"),
                (
                    "In brackets",
                    f"the range that these data leave open ({percent(fpr.confidence)} intervals)",
                ),
            ]
    certificate = card.threshold.certificate or {}
    if {"fpr", "fpr_at_most", "fpr_confidence", "negatives"} <= certificate.keys():
        seen, most, sure = (certificate[name] for name in ("fpr", "fpr_at_most", "fpr_confidence"))
        bound = f"at most {1000 * most:.0f} with {percent(sure)} confidence"
        said = f"expect {1000 * seen:.0f} per 1,000 negatives, {bound}"
        counted = f"{certificate['negatives']:,} negatives of the calibration part"
        return [("False alarms", said), ("Measured on", counted)]
    return [("False alarms", "not measured: use `rankreg evaluate` with labelled data")]


def _real(found: dict[str, Any]) -> Lines:
    """The share of alarms that are real: it depends on how frequent positives are."""
    answers = found.get("answers") or {}
    precision = answers.get("precision") if answers else found.get("precision")
    if precision is None:
        return []
    frequent = share(found["positives"] / (found["positives"] + found["negatives"]))
    return [
        (
            "Real alarms",
            f"{rounded(Interval(**precision))} of the alarms, if {frequent} of all samples are positive, as here."
            " Where positives are rarer, fewer alarms are real.",
        )
    ]


def _parts(card: BundleCard) -> list[str]:
    judges = " and judges" if "judged" in card.metrics else ""
    rows = [
        [
            PARTS.get(name, "other") + (judges if name == "train" else ""),
            *(f"{part.get(count, 0):,}" for count in ("samples", "positives")),
            share(part.get("positives", 0) / max(1, part.get("samples", 0))),
        ]
        for name, part in card.parts.items()
    ]
    return _table(["part", "samples", "positives", "share"], rows)


def _columns(inputs: ImageInputs | TableInputs) -> list[str]:
    if isinstance(inputs, ImageInputs):
        return [f"- **Images:** resized to {inputs.height} × {inputs.width} pixels."]
    number, category = ([one.name for one in kind] for kind in (inputs.numeric, inputs.categorical))
    lines = [
        (f"Columns of numbers ({len(number):,})", names(number)),
        (f"Columns of categories ({len(category):,})", names(category)),
        (f"Columns not learned from ({len(inputs.unused):,})", names(inputs.unused)),
    ]
    target = ("Target", f"{code(inputs.target)}, positive: {code(inputs.positive)}")
    return _bullets([target, *(line for line in lines if line[1])])


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
            f"{100 * sum(one.weights) / total:.0f} %",
            per_thousand(Interval(**raced[one.name])) if one.name in raced else "not measured",
        ]
        for one in card.learners
    ]
    if "average" in raced and len(rows) > 1:
        rows.append(["average", "", "", "100 %", per_thousand(Interval(**raced["average"]))])
    target = percent(card.threshold.tpr)
    head = ["learner", "kind", "members", "share", f"false alarms per 1,000 negatives at {target} recall"]
    note = [
        "",
        f"To compare learners, the last column uses the threshold that catches just {target} of the positives at"
        " hand. The model's own threshold is another one. Its price is above.",
    ]
    backbone = (
        [] if card.backbone is None else ["", f"Features come from the frozen network {code(card.backbone.name)}."]
    )
    return [
        "The score is the average of these learners:",
        "",
        *_table(head, rows),
        *(note if raced else ()),
        *backbone,
    ]


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
        what, option = ("rows", "--group") if isinstance(inputs, TableInputs) else ("images", "--groups")
        option = "groups=" if "estimator" in card.training else option
        limits.append(
            f"All {what} count as independent. If several {what} belong to one patient, this is wrong: fit again"
            f" with `{option}`."
        )
    if 0 < trained < FEW:
        limits.append(f"Only {trained:,} positives trained the model. Numbers about positives are rough.")
    if "judged" in card.metrics and "test" not in card.metrics:
        limits.append("No test part was set aside. The price comes from the training data, as said there.")
    if isinstance(inputs, TableInputs):
        limits.append("A row that cannot be read or scored raises an alarm, and its problem is named.")
    return limits


def _steps(card: BundleCard, inputs: ImageInputs | TableInputs) -> list[str]:
    new, row = ("new.csv", "row") if isinstance(inputs, TableInputs) else ("images", "image")
    python = [
        "from rankreg.bundle import load_bundle, predict",
        "",
        f'predict(load_bundle("bundle"), "{new}", "scores.csv")',
    ]
    if "estimator" in card.training:
        python = ["from rankreg import RankRegClassifier", "", 'classifier = RankRegClassifier.load("bundle")']
    shell = [f"rankreg predict bundle {new} --out scores.csv"]
    return [
        "`bundle` stands for this folder. It holds data and no code: nothing in it is executed.",
        *([] if "estimator" in card.training else [f"`scores.csv` gets {_answers(card)} for each {row}."]),
        "",
        "```sh",
        *shell,
        "```",
        "",
        "```python",
        *python,
        "```",
    ]


def _answers(card: BundleCard) -> str:
    return "a score and an alarm (1 or 0)" if card.threshold.alarm_from is None else "a score and an answer"


def _words(card: BundleCard) -> Lines:
    """The words of this page that a reader may not know."""
    said = [
        ("Recall", "the share of the positives that raise an alarm. Also: sensitivity, true positive rate."),
        ("False alarm", "an alarm for a negative. The share of the negatives without one is the specificity."),
    ]
    if card.threshold.kind in ("cross-fitted", "expected"):
        said.append(("Out-of-fold", "scored by models that have not learned from this sample."))
    if card.threshold.kind != "empirical":
        said.append(("Confidence", "how often such a statement is true, over many data sets like this one."))
    return said


def _provenance(card: BundleCard) -> Lines:
    versions = ", ".join(code(f"{name} {version}") for name, version in card.versions.items())
    said = {name: card.training[name] for name in ("folds", "seed") if name in card.training}
    settings = [("Settings", code(", ".join(f"{name} {value}" for name, value in said.items())))] if said else []
    return [
        ("Versions", versions),
        *settings,
        ("Format", f"rankreg-bundle, version {card.version}"),
        ("Weights", f"`{card.weights.file}`, sha256 `{card.weights.sha256}`"),
    ]


def promise_lines(threshold: Threshold, *, advice: bool = False) -> Lines:
    """What the threshold promises and on which assumption, or that it promises nothing.

    advice: say also why promises are not kept and what would help.
    """
    if threshold.promised is not None:
        return _kept_lines(threshold, advice) if threshold.kept else _conflict_lines(threshold, advice)
    return _recall_lines(threshold)


def answer_lines(threshold: Threshold) -> Lines:
    """Where to alarm, and with three answers where to review and to dismiss."""
    lower = rounded_threshold(threshold.value)
    if threshold.alarm_from is None:
        return [("Threshold", f"alarm when score ≥ {lower}")]
    upper = rounded_threshold(threshold.alarm_from)
    if threshold.alarm_from == threshold.value:
        return [("Threshold", f"alarm when score ≥ {upper}, else dismiss: there is nothing to review")]
    return [("Thresholds", f"alarm when score ≥ {upper}, review when score ≥ {lower}, else dismiss")]


def _kept_lines(threshold: Threshold, advice: bool) -> Lines:
    """All promises in one sentence, their price, and the assumption."""
    said = threshold.promised
    assert said is not None
    lines = promise_text.review_lines(said) if isinstance(said, Review) else promise_text.promised_lines(said)
    (_, promised), (_, price), assumed = lines[0], lines[1], lines[-1]
    if threshold.certified:
        verdict = f"certified: {promised} ({_calibration(threshold)})"
    else:
        verdict = (
            f"cross-fitted: {promised} in simulations; proven is only a recall of"
            f" {percent(max(0.0, 2 * threshold.tpr - 1))} on average ({_calibration(threshold)})"
        )
    if not threshold.certified:
        price = price.replace(" (at most 1,000)", "")  # nothing is claimed
    price = price if advice else price.removesuffix(GIVE_PREVALENCE)
    return [("Promised", verdict), ("Price", _of_these_data(price)), (assumed[0], _of_these_data(assumed[1]))]


def _conflict_lines(threshold: Threshold, advice: bool) -> Lines:
    """That the promises are not kept and what would help, then the recall that is."""
    said = threshold.promised
    assert isinstance(said, PromisedPoint)
    (_, verdict), *why, _ = promise_text.promised_lines(said)
    return [
        ("Not kept", verdict),
        *((heading, _of_these_data(sentence)) for heading, sentence in (why if advice else ())),
        ("Instead", "the model is saved with the threshold of the recall alone:"),
        *_recall_lines(threshold),
    ]


def _of_these_data(sentence: str) -> str:
    """A sentence about a file of scores, said of the data of a fit."""
    for file, data in (("as in this file", "as in these data"), ("in this file", "here"), ("The file", "The data")):
        sentence = sentence.replace(file, data)
    return sentence


def _recall_lines(threshold: Threshold) -> Lines:
    """What recall the threshold promises and on which assumption, or that it promises none."""
    if threshold.kind == "empirical":
        return [("Recall", f"UNCERTIFIED: {_shortage(threshold)}")]
    caught = (
        "of new positives raise an alarm"
        if threshold.per == "row"
        else "of new units with positives raise an alarm on at least one of them"
    )
    sure, target = percent(threshold.confidence), percent(threshold.tpr)
    if threshold.kind == "certified":
        verdict = f"certified: at least {target} {caught}, with {sure} confidence ({_calibration(threshold)})"
    elif threshold.kind == "cross-fitted":
        verdict = (
            f"cross-fitted: at least {target} {caught}, with {sure} confidence in simulations; proven is"
            f" {percent(max(0.0, 2 * threshold.tpr - 1))} on average ({_calibration(threshold)})"
        )
    else:
        on_average = share(threshold.expected_recall or 0.0, up=False)
        verdict = (
            f"expected: {on_average} {caught} on average, without a confidence:"
            f" {_calibration(threshold)} are too few, {_needed(threshold)} allow {sure}"
        )
    return [("Recall", verdict), ("Assumption", assumption(threshold))]


def _needed(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    return f"{needed:,}{' units like these' if threshold.units_needed else ''}" if needed else "more"


def _shortage(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    if needed is None:  # the usual threshold of a classifier, or one that was cross-validated
        return "no recall is guaranteed"
    like = " units like these" if threshold.units_needed else ""
    return (
        f"{_calibration(threshold)} are too few to guarantee {percent(threshold.tpr)} with"
        f" {percent(threshold.confidence)} confidence, which takes {needed:,}{like}; the threshold is where"
        f" {percent(threshold.tpr)} of these were caught"
    )


def _calibration(threshold: Threshold) -> str:
    kind = "out-of-fold" if threshold.kind in ("cross-fitted", "expected") else "calibration"
    positives = f"{threshold.calibration_positives:,} {kind} positives"
    if threshold.units in (None, threshold.calibration_positives):
        return positives
    return f"{positives} in {threshold.units:,} independent units"
