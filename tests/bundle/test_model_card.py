"""The model card that every bundle carries: its numbers are the bundle's, and no name from the data is obeyed."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from markdown_it import MarkdownIt

from rankreg.bundle import BundleCard, Threshold, load_bundle, predict
from rankreg.bundle.card import LearnerCard, Weights
from rankreg.bundle.model_card import FILE, LONGEST_NAME, MOST_NAMES, code, model_card
from rankreg.bundle.storage import save_bundle
from rankreg.estimators import RankRegClassifier
from rankreg.models import build_model
from tests.bundle.test_storage import TABLE, contents
from tests.conftest import Run
from tests.estimators.rare_data import cancer
from tests.own_data import write_table

HOSTILE = (
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "https://evil.example",
    "<https://evil.example>",
    "`</code><img src=x onerror=alert(1)>`",
    "``` \n# heading",
    "a\n\n<iframe src=//evil.example>\n\n",
    "| a | b |",
    "&lt;b&gt;",
    "\\`<b>",
    " ",
    "[x]: https://evil.example",
)


class Page(HTMLParser):
    """What a renderer that passes HTML through makes of Markdown: its tags, and the text of every code span."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.codes: list[str] = []
        self._inside = False
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag == "code":
            self._inside = True
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "code":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.codes[-1] += data


OWN_TAGS = {
    *("h1", "h2", "p", "ul", "li", "strong", "code", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def hostile_card() -> BundleCard:
    """Every text that comes from data or from its user is hostile."""
    names = [f"{k}{text}" for k, text in enumerate(HOSTILE)]
    numeric = [{"name": f"n{name}", "median": 0.0, "mean": 0.0, "scale": 1.0, "may_miss": False} for name in names]
    categorical = [{"name": f"c{name}", "values": names} for name in names]
    return BundleCard(
        name=HOSTILE[0],
        version=2,
        learners=(LearnerCard(name="logistic", kind="linear", view="normal", members=1, weights=(1.0,)),),
        preprocessing=TABLE
        | {"numeric": numeric, "categorical": categorical, "unused": names}
        | {"target": HOSTILE[1], "positive": HOSTILE[2]},
        classes=(HOSTILE[5], HOSTILE[2]),
        threshold=contents()["threshold"],
        training={"learners": list(HOSTILE), "folds": 5},
        parts={HOSTILE[8]: {"samples": 3, "positives": 1}},
        metrics={},
        versions={HOSTILE[7]: HOSTILE[6]},
        weights=Weights(sha256="0" * 64),
    )


def test_no_name_of_the_data_becomes_html_a_link_or_a_heading() -> None:
    page = Page(model_card(hostile_card()))
    assert page.tags <= OWN_TAGS
    shown = [" ".join(text.split()) for text in page.codes]
    for name in HOSTILE:
        assert any(" ".join(name.split()) in text for text in shown)


@pytest.mark.parametrize("text", [*HOSTILE, "", "`", "a`", "``a", "plain", "a``b`c"])
def test_a_code_span_shows_the_text_and_nothing_else(text: str) -> None:
    page = Page(f"before {code(text)} after")
    assert page.tags <= {"p", "code"}
    (shown,) = page.codes
    assert shown.strip() == " ".join(text.split())


def test_control_codes_and_long_names_are_shown_and_cut() -> None:
    assert code("a\x1b[31mb") == "`a␛[31mb`"
    assert len(code("x" * 500)) == LONGEST_NAME + 2


def test_many_columns_are_counted_and_not_all_listed() -> None:
    names = [f"column-{k}" for k in range(MOST_NAMES + 40)]
    numeric = [{"name": name, "median": 0.0, "mean": 0.0, "scale": 1.0, "may_miss": False} for name in names]
    changed = contents(
        preprocessing=TABLE | {"numeric": numeric, "categorical": []},
        model=contents()["model"].model_copy(update={"features": len(names)}),
        weights=Weights(sha256="0" * 64),
    )
    page = model_card(BundleCard(**changed))
    assert f"({len(names)}):** `column-0`" in page
    assert "and 40 more" in page
    assert "`column-99`" not in page


def test_a_fit_writes_a_card_with_the_numbers_of_its_summary(run: Run, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    given = (
        "fit",
        str(data),
        "--target",
        "sick",
        "--learner",
        "logistic",
        "--learner",
        "boosting",
        "--out",
        "model",
    )
    status, said, _ = run(*given)
    assert status == 0
    page = (tmp_path / "model/bundle" / FILE).read_text(encoding="utf-8")
    summary = json.loads((tmp_path / "model/summary.json").read_text())
    judged = summary["judged"]
    expected, low, high = map(int, re.findall(r"expect (\d+) \((\d+) to (\d+)\) per 1,000", page)[0])
    assert abs(expected - 1000 * judged["fpr"]["estimate"]) <= 0.5
    assert low <= 1000 * judged["fpr"]["low"] <= 1000 * judged["fpr"]["high"] <= high
    threshold = float(re.findall(r"score ≥ (\S+)", page)[0])
    assert 0 <= summary["threshold"]["value"] - threshold < 1e-4
    assert "| trains and judges | 400 | 80 | 20.0 % |" in page
    assert re.findall(r"\((\d+)\):\*\* (`.*)", page) == [
        ("2", "`size`, `weight`"),
        ("1", "`colour`"),
        ("1", "`name`"),
    ]
    real = [
        float(part) / 100
        for part in re.findall(r"Real alarms:\*\* ([\d.]+) % \(([\d.]+) % to ([\d.]+) %\)", page)[0]
    ]
    assert abs(real[0] - judged["precision"]["estimate"]) <= 0.005
    assert real[1] <= judged["precision"]["low"] <= judged["precision"]["high"] <= real[2]
    assert "`folds 5, seed 0`" in page
    assert "- **Target:** `sick`, positive: `1`" in page
    (recall,) = re.findall(r"^Recall +(.*?) +$", said, flags=re.MULTILINE) or re.findall(r"Recall +(.*)", said)
    assert recall.strip() in page
    for one in summary["learners"]:
        row = rf"^\| {one['name']} \|.*\| {1000 * one['fpr']['estimate']:.0f} \("
        assert re.search(row, page, flags=re.MULTILINE)
    card = load_bundle(tmp_path / "model").card
    assert card.weights.sha256 in page
    for name, version in card.versions.items():
        assert f"`{name} {version}`" in page


def test_the_steps_of_the_card_can_be_typed(run: Run, tmp_path: Path) -> None:
    data = write_table(tmp_path / "new.csv")
    assert run("fit", str(data), "--target", "sick", "--learner", "logistic", "--out", ".")[0] == 0
    page = (tmp_path / "bundle" / FILE).read_text(encoding="utf-8")
    (shell,), (python,) = (re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL) for kind in ("sh", "python"))
    assert run(*shell.split()[1:])[0] == 0
    typed = (tmp_path / "scores.csv").read_bytes()
    (tmp_path / "scores.csv").unlink()
    exec(python, {})
    assert (tmp_path / "scores.csv").read_bytes() == typed


@pytest.mark.parametrize("learner", ["logistic", "network"])
def test_a_classifier_writes_a_card_too(learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cancer()  # noqa: N806 - scikit-learn's name
    model = RankRegClassifier(learner=learner, tpr=0.8, random_state=0)
    if learner == "network":
        model.set_params(epochs=1, calibration=0.5)
    model.fit(X, y).save(tmp_path / "bundle")
    page = (tmp_path / "bundle" / FILE).read_text(encoding="utf-8")
    card = load_bundle(tmp_path / "bundle").card
    if card.threshold.certificate is not None:
        assert f"expect {1000 * card.threshold.certificate['fpr']:.0f} per 1,000 negatives" in page
    assert f"{card.threshold.calibration_positives} " in page
    assert "(30):** `x0`, `x1`" in page
    monkeypatch.chdir(tmp_path)
    (python,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(python, names)
    assert names["classifier"].threshold_ == model.threshold_


@pytest.mark.parametrize("change", ["removed", "edited", "not text"])
def test_a_bundle_loads_whatever_became_of_its_card(change: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_bundle(tmp_path / "b", build_model(contents()["model"]), **contents())
    file, before = tmp_path / "b" / FILE, load_bundle(tmp_path / "b").card
    if change == "removed":
        file.unlink()
    else:
        file.write_bytes(b"edited" if change == "edited" else b"\xff\x00")
    loaded = load_bundle(tmp_path / "b")
    assert loaded.card == before
    rows = tmp_path / "rows.csv"
    rows.write_text("age,site\n40,arm\n")
    predict(loaded, rows, tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().count("\n") == 2


@pytest.mark.parametrize(("kind", "expected"), [("empirical", None), ("cross-fitted", 0.97), ("expected", 0.93)])
def test_an_uncertified_threshold_is_a_known_limit(kind: Any, expected: float | None) -> None:
    promise = Threshold(
        value=0.5,
        tpr=0.9,
        confidence=0.95,
        certified=False,
        calibration_positives=30,
        kind=kind,
        expected_recall=expected,
    )
    changed = contents(threshold=promise, weights=Weights(sha256="0" * 64))
    limits = model_card(BundleCard(**changed)).split("## Known limits")[1].split("##")[0]
    assert ("certified" in limits, "no confidence" in limits, "No recall is promised" in limits) == (
        kind == "cross-fitted",
        kind == "expected",
        kind == "empirical",
    )
