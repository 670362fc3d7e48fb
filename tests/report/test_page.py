"""The page as text: what it draws, what it says, how large it is, and what it refuses."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import binomtest
from sklearn.metrics import roc_curve

from rankreg import __version__
from rankreg.metrics import roc
from rankreg.notation import rounded_threshold
from rankreg.operating import Interval, certify, compare
from rankreg.report import Model, Settings, write
from rankreg.report.charts import histogram, roc_frames, roc_path
from rankreg.report.page import render
from rankreg.report.text import cards
from rankreg.scores import Scores
from tests.report.conftest import made_model

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Tags(HTMLParser):
    """The text, the tags, and every address the page mentions."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names, self.addresses, self.texts = list[str](), list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_the_drawn_curve_never_leaves_the_real_one_by_more_than_a_hair() -> None:
    model = made_model("a", 3000, 30_000, gap=1.5)
    fpr, tpr, _ = roc_curve(model.labels, model.scores, drop_intermediate=False)
    for frame in roc_frames(0.98, 0.5):
        numbers = np.array(
            re.findall(r"[\d.-]+", roc_path(roc(model.labels, model.scores), frame)), dtype=float
        ).reshape(-1, 2)
        assert len(numbers) < 3000
        x, y = frame.x.at(fpr), frame.y.at(tpr)
        inside = (x <= frame.x.stop) & (y <= frame.y.start)
        points = np.column_stack([x, y])[inside][::7]
        assert len(points) > 100
        assert distances(points, numbers).max() <= 0.25


def distances(points: NDArray[np.float64], line: NDArray[np.float64]) -> NDArray[np.float64]:
    """From each point to the nearest place on a line of many pieces."""
    start, step = line[:-1], np.diff(line, axis=0)
    nearest = np.full(len(points), np.inf)
    for a, d in zip(start, step, strict=True):
        along = np.clip((points - a) @ d / (d @ d), 0, 1)
        nearest = np.minimum(nearest, np.linalg.norm(points - a - along[:, None] * d, axis=1))
    return nearest


def test_the_page_says_what_certify_and_compare_return() -> None:
    first, second = made_model("old", 400, 1600), made_model("new", 400, 1600, gap=3.5)
    text = Tags(render([first, second], Settings(prevalence=0.006, per_day=2000))).text
    for model in (first, second):
        assert repr(certify(model.labels, model.scores).threshold) in text
        assert rounded_threshold(certify(model.labels, model.scores).threshold, 4) in text
    found = compare(first.labels, first.scores, second.scores)
    assert f"p = {found.fpr.p_value:.2g}." in text
    assert "new is better than old (old − new: " in text
    assert "alarms per day" in text


@pytest.mark.parametrize("positives", [400, 40])
def test_a_threshold_in_use_is_shown_everywhere_instead_of_another(positives: int) -> None:
    model = made_model("a", positives, 1600)
    highest = float(np.sort(model.scores[model.labels == 1])[0])
    lower = replace(model, threshold=highest - 1e-4)
    page = render([lower], Settings(tprs=(0.98,)))
    shown = re.findall(r'(?:data-value="threshold" data-as="text"|id="exact-0")>([^<]+)<', page)
    assert shown == [repr(lower.threshold)] * 2
    (card,) = cards([lower], (0.98,), 0.95, None)
    assert rounded_threshold(float(lower.threshold or 0)) in card.text
    if card.json is not None:
        alarms = np.count_nonzero(model.scores[model.labels == 0] >= highest - 1e-4)
        found = json.loads(card.json)
        assert (found["threshold"], found["recall"], found["fpr"]) == (lower.threshold, 1.0, alarms / 1600)
    with pytest.raises(ValueError, match="serves one TPR"):
        render([lower], Settings(tprs=(0.9, 0.98)))


def test_a_threshold_that_these_scores_do_not_certify_is_refused() -> None:
    model = made_model("a", 400, 1600)
    certified = certify(model.labels, model.scores, tpr=0.98).threshold
    with pytest.raises(ValueError, match="higher than"):
        render([replace(model, threshold=certified + 1e-9)], Settings(tprs=(0.98,)))


def test_the_page_names_its_sources_and_refers_to_nothing_outside() -> None:
    model = made_model("a", 200, 300)
    sourced = Model("a", model.labels, model.scores, source={"file": "a.csv", "sha256": "c0ffee"})
    page = Tags(render([sourced], Settings(config={"label": "y"})))
    assert page.addresses == ["data:,"]
    for part in ("a.csv", "c0ffee", '"label": "y"', f"rankreg {__version__}", "500 samples"):
        assert part in page.text
    assert "sha256 of labels and scores" in Tags(render([model])).text


def test_no_text_of_the_data_becomes_part_of_the_page() -> None:
    model = made_model("a", 200, 300)
    hostile = Model(
        HOSTILE,
        model.labels,
        model.scores,
        ids=np.array([f"{HOSTILE}{row}" for row in range(500)], dtype=object),
        details=lambda places: {HOSTILE: [HOSTILE] * len(places)},
        source={HOSTILE: HOSTILE},
    )
    page = Tags(render([hostile], Settings(title=HOSTILE, config={HOSTILE: HOSTILE})))
    assert page.names.count("script") == 2
    assert "img" not in page.names
    assert page.text.count("alert(1)") > 20


def test_the_verdict_says_for_which_prevalence_it_is() -> None:
    model = made_model("a", 200, 1800)
    assert "at a prevalence of 10.0 %, as in this file." in Tags(render([model])).text
    assert "at a prevalence of 0.6 %." in Tags(render([model], Settings(prevalence=0.006))).text


def test_the_page_names_no_option_of_the_command_line() -> None:
    for models in ([made_model("a", 200, 1800)], [made_model("a", 40, 500), made_model("b", 40, 500, gap=3)]):
        page = render(models).split("<body>")[1].split("<script")[0]
        assert re.findall(r"(?<!\w)--[a-z]+", Tags(page).text) == []


def test_other_parts_stand_beside_the_samples_that_chose_the_threshold() -> None:
    model, other = made_model("a", 200, 1800), made_model("b", 40, 460, seed=5)
    test = Scores(np.arange(500).astype(str), other.labels, other.scores)
    page = render([replace(model, others={"test": test})], Settings(prevalence=0.1))
    threshold = certify(model.labels, model.scores).threshold
    missed = int(np.count_nonzero(other.scores[other.labels == 1] < threshold))
    false = int(np.count_nonzero(other.scores[other.labels == 0] >= threshold))
    price, recall = (Tags(part).text for part in re.findall(r'data-other="test">(.*?)</small>', page))
    interval = binomtest(false, 460).proportion_ci()
    expected = [900 * value for value in (false / 460, interval.low, interval.high)]
    assert [float(one) for one in re.findall(r"[\d.]+", price)] == pytest.approx(expected, rel=0.01)
    assert recall.startswith(f"test: {missed} of 40 (")
    assert 'data-other="' not in render([model])


def test_the_race_of_learners_is_shown_with_its_intervals() -> None:
    race = (("forest", Interval(0.2, 0.1, 0.4), 0.3, 2.0), ("average", Interval(0.15, 0.12, 0.3), 1.0, 2.0))
    page = render([made_model("a", 200, 300)], Settings(learners=race))
    table = re.findall(r"<table class=\"learners.*?</table>", page, flags=re.DOTALL)[0]
    assert re.findall(r"M([\d.]+) 4H([\d.]+)", table.replace("M0 4H100", "")) == [
        ("10.0", "40.0"),
        ("12.0", "30.0"),
    ]
    assert "15.0 % (12.0 % to 30.0 %)" in Tags(table).text.replace("\u00a0", " ")
    assert "race" not in Tags(render([made_model("a", 200, 300)])).text


@pytest.mark.parametrize(
    ("gap", "positives", "tones"),
    [(6.0, 200, ["good"]), (2.5, 200, ["warn"]), (1.0, 200, ["bad"]), (0.0, 200, ["bad"]), (6.0, 40, ["bad"])],
)
def test_a_verdict_has_the_colour_of_its_price_and_of_its_guarantee(
    gap: float, positives: int, tones: list[str]
) -> None:
    model = made_model("a", positives, 2000, gap=gap)
    page = render([model])
    assert re.findall(r'<tr class="(good|warn|bad)">', page) == tones
    usual = certify(model.labels, model.scores, tpr=0.95 if positives == 200 else 0.9)
    nothing_told_apart = usual.fpr >= min(usual.recall, 0.95)  # alarms at random do as well
    assert ('data-finding="useless"' in page) == nothing_told_apart == (gap == 0)


def test_several_models_and_targets_are_one_table() -> None:
    models = [made_model("a", 400, 900), made_model("b", 400, 900, gap=3)]
    page = render(models, Settings(tprs=(0.9, 0.95, 0.98)))
    (table,) = re.findall(r"<table class=\"verdicts.*?</table>", page, flags=re.DOTALL)
    assert page.index("<h1") < page.index(table) < page.index("<h2")
    found = [Tags(row).text for row in re.findall(r"<tr class=.*?</tr>", table, flags=re.DOTALL)]
    assert [(row.split()[0], row.split()[1]) for row in found] == [
        (model, tpr) for model in "ab" for tpr in ("90", "95", "98")
    ]


def test_a_good_curve_uses_its_box() -> None:
    """Between 10 and 90 % TPR the curve of a good model must not hug the left edge."""
    model = made_model("a", 2000, 20_000, gap=3.4)
    curve = roc(model.labels, model.scores)
    for least, wide in ((None, False), (1 / 20_000, True)):
        frame = roc_frames(0.95, 0.1, least)[0]
        low, high = frame.x.at(np.interp([0.1, 0.9], curve.tpr, curve.fpr))
        assert (high - low > 0.4 * (frame.x.stop - frame.x.start)) == wide
        assert frame.x.scale in frame.title or not wide
    page = render([model])
    assert "false positive rate on a log scale" in page
    assert "false positive rate on a log scale" not in render([made_model("a", 200, 900, gap=1)])


def test_heights_of_negatives_are_logarithms_and_one_sample_can_be_seen() -> None:
    labels = np.repeat([1, 0], [100, 1111])
    model = Model(
        "a", labels, np.concatenate([np.linspace(5, 6, 100), np.repeat([0, 2.0, 4, 6], [1000, 100, 10, 1])])
    )
    drawn = histogram(model, model.bins(5.0))
    heights = [312 - float(top) for top in re.findall(r"V([\d.]+)H", drawn.negatives)]
    steps = -np.diff(heights)
    assert steps == pytest.approx([steps[0]] * 3, abs=0.15)  # a factor of ten each
    assert heights[-1] > 5
    assert [label for _, label in drawn.down.ticks] == ["1", "10", "100", "1,000"]


def test_the_page_opens_on_the_strictest_target() -> None:
    page = render([made_model("a", 400, 900)], Settings(tprs=(0.9, 0.98, 0.95)))
    assert 'for="tpr">98 %</output>' in page
    assert '>at least <span data-value="tpr" data-as="percent">98 %</span>' in page


def test_no_line_ends_between_a_number_and_its_per_cent() -> None:
    models = [made_model("a", 400, 900), made_model("b", 400, 900, gap=3)]
    page = render(models, Settings(tprs=(0.9, 0.98))).split("<body>")[1].split("<script")[0]
    for kept_whole in (r"<pre.*?</pre>", r"<svg.*?</svg>", r"<span data-value.*?</span>", r"<output.*?</output>"):
        page = re.sub(kept_whole, "", page, flags=re.DOTALL)
    assert "\u00a0%" in page
    assert re.findall(r".{20}\d %", page) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crowded", [False, True])
def test_no_bar_stands_on_both_sides_of_the_threshold(seed: int, crowded: bool) -> None:
    model = made_model("a", 300, 900, seed=seed, gap=4)
    scores = 1 / (1 + np.exp(6 - 4 * model.scores)) if crowded else model.scores
    model = Model("a", model.labels, scores)
    threshold = certify(model.labels, scores).threshold
    drawn = histogram(model, model.bins(threshold))
    cut = drawn.start_of(repr(threshold))
    for path in (drawn.positives, drawn.negatives):
        lefts, rights = (np.array(re.findall(end + r"([\d.]+)", path), dtype=float) for end in "MH")
        assert np.all((rights <= cut) | (lefts >= cut))
    lowest = drawn.start_of(repr(float(model.positives[0])))  # the threshold with 0 missed
    assert min(map(float, re.findall(r"M([\d.]+)", drawn.positives))) >= lowest - 0.01
    assert drawn.x.scale == ("logit" if crowded else "linear")


def test_too_few_positives_are_a_page_that_says_so() -> None:
    text = Tags(render([made_model("a", 40, 500)])).text
    assert "not certified" in text
    assert re.search(r"\b59\b.+\b92\.7 %", text)
    assert Tags(render([made_model("a", 1, 1)])).text.count("not certified") > 0
    assert "cannot be compared" in Tags(render([made_model("a", 1, 9), made_model("b", 1, 9, gap=3)])).text


@pytest.mark.parametrize(
    "scores", [[-np.inf, 0, 1, np.inf], [-np.inf, 0, np.inf, np.inf], [0, 0, 1, 1], [0, 1e-9, 1, 1]]
)
def test_infinite_and_crowded_scores_are_drawn(scores: list[float]) -> None:
    labels = np.array([0, 1, 0, 1] * 50)
    page = render([Model("a", labels, np.array(scores * 50, dtype=float))])
    assert "NaN" not in page.split("<script")[0]
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", Tags(page.split("<script")[0]).text)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([1, 1], [0.1, 0.2], "bad: undefined without negatives"),
        ([1, 0], [0.1, np.nan], "bad: scores contain NaN"),
        ([1, 0], [0.5, 0.5], "bad: all 2 scores equal 0.5"),
        ([1, 2], [0.1, 0.2], "bad: y_true must be 0 or 1"),
    ],
)
def test_unusable_scores_are_refused_by_name(labels: list[int], scores: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        render([Model("bad", np.array(labels), np.array(scores))])


def test_models_are_matched_by_id_or_refused() -> None:
    model = made_model("a", 200, 300)
    ids, order = np.arange(500).astype(str), np.random.default_rng(0).permutation(500)
    first = Model.of("a", Scores(ids, model.labels, model.scores))
    same = Model.of("b", Scores(ids[order], model.labels[order], model.scores[order]))
    assert "By FPR at 95 % TPR, a and b are equal" in Tags(render([first, same])).text
    for other, message in (
        (Model.of("b", Scores(ids[1:], model.labels[1:], model.scores[1:])), "a and b: the two models were not"),
        (made_model("b", 200, 301), "500 and 501 samples"),
        (made_model("b", 200, 300, seed=9), "their labels differ"),
        (model, "same name"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            render([first, other])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tprs": (98.0,)}, "tpr must lie"),
        ({"tprs": ()}, "at least one"),
        ({"confidence": 95}, "confidence must lie"),
        ({"prevalence": 0.0}, "prevalence must lie"),
        ({"per_day": -1}, "per_day must be"),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**settings)  # type: ignore[arg-type]


def test_the_hardest_are_those_a_sort_finds() -> None:
    model = made_model("a", 300, 400, ties=3)
    rows = list(zip(model.labels.tolist(), model.scores.tolist(), range(700), strict=True))
    positives = sorted((score, row) for label, score, row in rows if label == 1)
    negatives = sorted((-score, row) for label, score, row in rows if label == 0)
    found = model.hardest(12)
    assert found.positives.places.tolist() == [row for _, row in positives[:12]]
    assert found.negatives.places.tolist() == [row for _, row in negatives[:12]]
    assert len(model.hardest(1000).positives.places) == 300


def test_pictures_are_small_and_in_the_page() -> None:
    model = made_model("a", 200, 300)
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), dtype=np.uint8)
    photo = Image.fromarray(noise)
    seen = Model("a", model.labels, model.scores, image=lambda place: photo if place % 2 else None)
    page = render([seen])
    assert 1 <= page.count("data:image/jpeg;base64,") < 24
    assert page.count("no picture") >= 1
    with pytest.raises(ValueError, match="no image of the 24 samples"):
        render([Model("a", model.labels, model.scores, image=lambda place: None)])


def test_the_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made_model("a", 200, 300)
    target = write(tmp_path / "report.html", [model])
    assert target.read_text(encoding="utf-8").endswith("</html>\n")

    def fails(self: Path, other: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "other.html", [model])
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_many_samples_and_six_models_stay_within_six_megabytes() -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random(400_000) < 0.3).astype(np.int64)
    shared = generator.standard_normal(400_000)
    models = [
        Model(f"m{k}", labels, shared + 0.3 * generator.standard_normal(400_000) + (1 + k / 4) * labels)
        for k in range(6)
    ]
    assert len(render(models).encode()) < 3_000_000


def luminance(colour: str) -> float:
    """WCAG 2.1."""
    full = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    parts = [int(full[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_stands_out_from_its_ground_in_light_and_dark(scheme: int) -> None:
    css = resources.files("rankreg.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", css.split(":root")[1 + scheme]))
    pairs = [("ink", "ground", 7), ("faint", "ground", 4.5), ("ink", "panel", 7), ("accent", "ground", 4.5)]
    pairs += [(name, f"{name}-ground", 4.5) for name in ("good", "bad", "warn")]
    pairs += [("ink", f"{name}-ground", 4.5) for name in ("good", "bad", "warn")]
    pairs += [(f"m{number}", "ground", 4.5) for number in range(6)]
    for text, ground, wanted in pairs:
        light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= wanted, (text, ground)
