"""Promises on the page: every number is that of the result handed over, in the text and in a real browser."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from rankreg.notation import number, percent, rounded_threshold, share
from rankreg.operating import (
    PromisedGroups,
    PromisedPoint,
    Promises,
    Review,
    ReviewGroups,
    certify_promises,
    certify_review,
    promised_threshold,
)
from rankreg.report import Model, Settings, write
from rankreg.report.page import render
from rankreg.report.promise_rows import shown_promises
from rankreg.report.promise_text import Promised, promise_lines, promise_table, review_lines
from rankreg.scores import Scores
from tests.browser import Open
from tests.conftest import Run
from tests.report.conftest import made_model
from tests.report.test_page import HOSTILE

MODELS = [made_model("old", 600, 3000), made_model("new", 600, 3000, gap=3.5)]
SITES = np.where(np.arange(3600) % 120 == 0, "tiny", np.array(["north", "south", "west"])[np.arange(3600) % 3])


def kept(**asked: Any) -> list[Promised]:
    """The promises of both models."""
    return [certify_promises(model.labels, model.scores, **asked) for model in MODELS]


def reviewed(**asked: Any) -> list[Promised]:
    return [certify_review(model.labels, model.scores, **asked) for model in MODELS]


def texts(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("\u00a0", " ").split())


def test_a_kept_promise_shows_its_price_and_its_threshold() -> None:
    (found, _) = kept(tpr=0.8, fpr=0.3, prevalence=0.05)
    assert isinstance(found, PromisedPoint)
    shown = shown_promises(MODELS[:1], [found], "certified")
    assert shown is not None
    (row,) = shown.rows
    assert (row.tone, row.tpr, row.missed) == ("good", 0.8, 1 - (found.recall or 0))
    assert row.false_alarms == pytest.approx(1000 * 0.95 * (found.fpr or 0))
    bound = next(one.bound for one in found.promises if one.name == "fpr")
    assert row.at_most == pytest.approx(1000 * 0.95 * (bound or 0))
    assert row.answers == (("alarm", rounded_threshold(found.threshold or 0, 4), repr(found.threshold)),)
    page = render(MODELS[:1], Settings(prevalence=0.05), [found])
    assert f'id="promised-0-alarm">{found.threshold!r}<' in page
    assert json.loads(shown.cards[0].json or "")["threshold"] == found.threshold


@pytest.mark.parametrize(
    ("shift", "tone"),
    [(2.5, "good"), (1.5, "warn"), (0.3, "bad")],
)
def test_a_promise_is_coloured_by_its_price_too(shift: float, tone: str) -> None:
    model = made_model("a", 600, 3000, gap=shift)
    found = certify_promises(model.labels, model.scores, tpr=0.8)
    shown = shown_promises([model], [found], "certified")
    assert shown is not None
    assert shown.rows[0].tone == tone


def test_a_conflict_says_which_pair_the_closest_and_how_many_more() -> None:
    model = made_model("a", 100, 1000, gap=2.0)
    found = certify_promises(model.labels, model.scores, tpr=0.85, fpr=0.19)
    (conflict,) = found.conflicts
    text = texts(render([model], None, [found]))
    assert "Recall at least 85 % and FPR at most 19 % cannot be kept together" in text
    for one in conflict.closest:
        assert share(one.target, up=one.name == "fpr") in text
    counts = conflict.more_positives, conflict.more_negatives
    for count in filter(None, counts):
        assert f"bout {count:,} more" in text
    assert "Nothing is promised here" in text


def test_every_group_of_every_model_has_a_row() -> None:
    found = kept(tpr=0.7, fpr=0.3, groups=SITES)
    shown = shown_promises(MODELS, found, "certified")
    assert shown is not None
    assert [(row.group, row.name) for row in shown.groups] == [
        (group, name) for group in ("north", "south", "west", "tiny") for name in ("old", "new")
    ]
    for row in shown.groups:
        result = found[row.model]
        assert isinstance(result, PromisedGroups)
        if row.group == "tiny":
            assert (row.tone, row.answers, row.false_alarms) == ("bad", (), None)
            continue
        point = result.points[row.group or ""]
        assert row.missed == 1 - (point.recall or 0)
        assert row.false_alarms == pytest.approx(1000 * (1 - point.prevalence) * (point.fpr or 0))
        assert row.answers[0][2] == repr(point.threshold)
    for row, result in zip(shown.rows, found, strict=True):
        assert isinstance(result, PromisedGroups)
        assert row.tone == "warn"  # a group is left out
        assert result.everyone is not None
        assert row.answers[0][2] == repr(result.everyone.threshold)


def test_a_review_shows_three_answers_and_its_load() -> None:
    found = reviewed(precision=0.8, tpr=0.9)
    shown = shown_promises(MODELS, found, "certified")
    assert shown is not None
    for row, review in zip(shown.rows, found, strict=True):
        assert not isinstance(review, PromisedPoint | PromisedGroups | ReviewGroups)
        exact = {name: value for name, _, value in row.answers}
        assert exact["alarm"] == repr(review.alarm_from)
        if review.alarm_from != review.review_from:
            assert exact["review"] == repr(review.review_from)
        assert (row.reviews, row.reviews_at_most) == (review.review_per_1000, review.review_per_1000_at_most)
        model = MODELS[row.model]
        negatives = model.scores[model.labels == 0]
        assert row.worked == pytest.approx(np.mean(negatives >= review.review_from))
        false = np.mean((model.scores >= (review.alarm_from or np.inf)) & (model.labels == 0))
        assert row.false_alarms == pytest.approx(1000 * false)


def test_a_load_without_a_bound_is_an_estimate() -> None:
    model = MODELS[0]
    asked = Promises(precision=0.8, review=True)
    made = promised_threshold(model.labels, model.scores, promises=asked, held_out=False, tpr=0.9)
    assert isinstance(made.found, Review)
    assert made.found.review_per_1000_at_most is None
    for found in (made.found, replace(made.found, review_per_1000_at_most=1000.0)):  # as older cards have it
        shown = shown_promises(MODELS[:1], [found], "cross-fitted")
        assert shown is not None
        assert shown.rows[0].reviews_at_most is None
        assert "1,000 reviews" not in shown.cards[0].text
        assert "at most" not in dict(review_lines(found))["Price"]


def test_of_many_groups_without_a_promise_a_few_are_listed() -> None:
    model = MODELS[0]
    groups = np.arange(len(model.labels)) // 5
    found = certify_promises(model.labels, model.scores, fpr=0.2, groups=groups)
    assert len(found.uncertified) > 100
    assert len(promise_lines(found)) < 30
    assert len(promise_table(found) or ()) < 30


def test_reviews_in_groups_show_the_range_of_their_loads() -> None:
    (found, _) = reviewed(precision=0.7, tpr=0.8, groups=SITES)
    assert isinstance(found, ReviewGroups)
    shown = shown_promises(MODELS[:1], [found], "certified")
    assert shown is not None
    loads = [one.review_per_1000 for one in found.points.values()]
    assert (shown.rows[0].reviews, shown.rows[0].reviews_to) == (min(loads), max(loads))
    assert shown.rows[0].reviews_at_most == max(one.review_per_1000_at_most or 0 for one in found.points.values())


def test_other_samples_stand_beside_those_that_chose_the_threshold() -> None:
    test = made_model("test", 200, 900, seed=3)
    others = {"test": Scores(np.arange(1100).astype(str), test.labels, test.scores)}
    model = Model("a", MODELS[0].labels, MODELS[0].scores, others=others)
    found = certify_promises(model.labels, model.scores, tpr=0.8, fpr=0.3)
    missed = int(np.sum(test.scores[test.labels == 1] < found.threshold))
    assert f'data-other="test"><em>test:</em> {missed} of 200 (' in render([model], None, [found])


def test_reversed_scores_promise_nothing_on_the_page() -> None:
    model = Model("a", MODELS[0].labels, -MODELS[0].scores)
    found = certify_promises(model.labels, model.scores, tpr=0.8)
    shown = shown_promises([model], [found], "certified")
    assert shown is not None
    assert (shown.rows[0].tone, shown.rows[0].answers) == ("bad", ())
    by_site = certify_promises(model.labels, model.scores, tpr=0.8, groups=SITES)
    shown = shown_promises([model], [by_site], "certified")
    assert shown is not None
    assert {(row.tone, row.answers) for row in shown.groups} == {("bad", ())}
    assert [card.json for card in shown.cards] == [None]


def test_names_of_groups_become_no_part_of_the_page() -> None:
    groups = np.where(np.arange(3600) % 2, HOSTILE, "plain")
    found = certify_promises(MODELS[0].labels, MODELS[0].scores, tpr=0.8, fpr=0.3, groups=groups)
    page = render(MODELS[:1], None, [found])
    assert page.count("<script") == 2
    assert "<img" not in page


def test_results_that_do_not_fit_the_models_are_refused() -> None:
    with pytest.raises(ValueError, match="one result per model"):
        render(MODELS, None, kept(fpr=0.1)[:1])
    with pytest.raises(ValueError, match="one function for all"):
        render(MODELS, None, [*kept(fpr=0.1)[:1], *reviewed(precision=0.8)[:1]])


def test_the_command_writes_what_certify_finds(run: Run, tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": MODELS[0].labels, "old": MODELS[0].scores, "new": MODELS[1].scores, "site": SITES})
    frame.to_csv("scores.csv", index=False)
    columns = ("scores.csv", "--label", "y", "--score", "old", "--score", "new")
    asked = ("--tpr", "0.7", "--fpr", "0.3", "--group", "site")
    assert run("report", *columns, *asked, "--out", "report.html")[0] == 0
    page = Path("report.html").read_text(encoding="utf-8")
    for place, found in enumerate(kept(tpr=0.7, fpr=0.3, groups=SITES)):
        assert isinstance(found, PromisedGroups)
        for point in found.points.values():
            assert f">{point.threshold!r}<" in page
        content = re.search(rf'id="promise-json-{place}" hidden>(.*?)</pre>', page, flags=re.DOTALL)
        assert content is not None
        saved = json.loads(content.group(1).replace("&#34;", '"').replace("&#39;", "'"))
        assert saved == json.loads(json.dumps(found.to_dict()))
    for more, message in (
        (("--fpr", "0.3", "--tpr", "0.9", "--tpr", "0.8"), "once for each"),
        (("--review",), "--review takes --precision"),
        (("--fpr", "3"), "fpr must lie"),
        (("--group", "nowhere"), "nowhere"),
    ):
        Path("report.html").unlink(missing_ok=True)
        status, out, error = run("report", *columns, *more, "--out", "report.html")
        assert (status, out, message in error) == (2, "", True)
        assert not Path("report.html").exists()


@pytest.fixture(scope="module")
def groups_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, promises in groups."""
    return write(
        tmp_path_factory.mktemp("groups") / "report.html", MODELS, None, kept(tpr=0.7, fpr=0.3, groups=SITES)
    )


@pytest.fixture(scope="module")
def review_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, three answers."""
    folder = tmp_path_factory.mktemp("review")
    return write(folder / "report.html", MODELS, Settings(per_day=2000), reviewed(precision=0.9, tpr=0.95))


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["groups_page", "review_page"])
def test_the_page_of_promises_fits_screen_and_paper(
    open_page: Open, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    page = open_page(request.getfixturevalue(name), width, color_scheme=scheme)
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("table.verdicts tbody tr").first.is_visible()
        cut = page.evaluate(
            """() => [...document.querySelectorAll('.verdicts :is(b, small, code, .chip)')].filter((one) => {
                const cell = one.closest('td, th').getBoundingClientRect(), own = one.getBoundingClientRect();
                return own.width && own.right > cell.right + 1; }).map((one) => one.textContent)"""
        )
        assert cut == []


def test_rows_of_groups_say_in_the_browser_what_was_found(open_page: Open, groups_page: Path) -> None:
    page = open_page(groups_page)
    (found, _) = kept(tpr=0.7, fpr=0.3, groups=SITES)
    assert isinstance(found, PromisedGroups)
    for name, point in found.points.items():
        row = page.locator(f"tr[data-group='{name}'][data-name='old']")
        said = row.inner_text().replace("\u00a0", " ")
        assert rounded_threshold(point.threshold or 0, 4) in said
        assert share(1 - (point.recall or 0)) in said
        assert number(1000 * (1 - point.prevalence) * (point.fpr or 0)) in said
        assert percent(1 - 0.7) in said
        row.locator("[data-copy]").first.click()
        expect(row.locator(".copied").first).not_to_be_empty()
    tiny = page.locator("tr[data-group='tiny'][data-name='old']").inner_text()
    assert f"{found.uncertified['tiny'].more_positives:,} more positives" in tiny
    assert page.locator("tr.bad[data-group='tiny']").count() == 2


def test_with_promises_the_sliders_are_exploratory_from_the_start(open_page: Open, review_page: Path) -> None:
    page = open_page(review_page)
    assert page.locator("#state-exploratory").is_visible()
    assert not page.locator("#state-fixed").is_visible()
    assert page.locator(".numbers .good:visible").count() == 0
    before = page.locator("table.verdicts").inner_text()
    assert not page.locator("#reset").is_visible()
    page.locator("#tpr").press("Home")
    assert page.locator("#reset").is_visible()
    assert page.locator("table.verdicts").inner_text() == before
    page.locator("#reset").click()
    assert not page.locator("#reset").is_visible()


def test_promised_thresholds_are_drawn_where_the_scores_are(open_page: Open, review_page: Path) -> None:
    page = open_page(review_page)
    for place, found in enumerate(reviewed(precision=0.9, tpr=0.95)):
        assert not isinstance(found, PromisedPoint | PromisedGroups | ReviewGroups)
        cuts = {found.alarm_from, found.review_from}
        assert page.locator(f"svg.histogram[data-model='{place}'] .promised-cut").count() == len(cuts)
