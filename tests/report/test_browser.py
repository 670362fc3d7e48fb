"""The report in a real browser, opened from its file: numbers are Python's, and nothing leaves the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from rankreg.notation import number, percent, rounded_threshold, share
from rankreg.operating import OperatingPoint, certify
from rankreg.report import Model, Settings, write
from rankreg.report.page import FORMATS
from rankreg.report.sliders import price
from tests.browser import Open
from tests.report.conftest import made_model
from tests.report.test_page import HOSTILE
from tests.report.test_sliders import SHARED

MODELS = [made_model("old", 400, 1600), made_model("new", 400, 1600, gap=3.2, ties=16)]
PREVALENCE = 0.006


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on the same samples, one of them with many ties."""
    folder = tmp_path_factory.mktemp("two")
    return write(folder / "report.html", MODELS, Settings(prevalence=PREVALENCE, per_day=2000))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Too few positives for the target."""
    return write(tmp_path_factory.mktemp("few") / "report.html", [made_model("few", 40, 500)])


def shown(page: Page, name: str, model: int = 0) -> str:
    """What the table of numbers says."""
    found = page.locator(f".numbers td[data-model='{model}'] [data-value={name}]").locator("visible=true")
    return found.first.inner_text()


def check_shown(page: Page, tpr: float, confidence: float, prevalence: float) -> None:
    """Every number in the table is the one `certify` returns, as sentences write it."""
    for place, model in enumerate(MODELS):
        point = certify(model.labels, model.scores, tpr=tpr, confidence=confidence, prevalence=prevalence)
        expected = {
            "threshold": repr(point.threshold),
            "rank": f"{point.rank}",
            "tpr": percent(tpr),
            "recall": share(point.recall),
            "fpr": share(point.fpr),
            "fpr_at_most": share(point.fpr_at_most, up=True),
            "rounded": rounded_threshold(point.threshold, 4),
            "false_alarms_per_1000": number(1000 * (1 - prevalence) * point.fpr),
            "alarms_per_1000": number(point.alarms_per_1000),
            "alarms_per_1000_at_most": number(point.alarms_per_1000_at_most, up=True),
            "ppv": share(point.ppv),
            "ppv_at_least": share(point.ppv_at_least or 0.0, up=False),
            "npv_at_least": share(point.npv_at_least or 0.0, up=False),
            "extra_alarms_per_1000": number(point.extra_alarms_per_1000),
            "alarms_per_day": number(point.alarms_per_1000 * 2),
            "misses_per_year": number(365 * 2000 * prevalence * (1 - point.recall)),
            "misses_per_year_at_most": number(365 * 2000 * prevalence * (1 - tpr), up=True),
        }
        assert {name: shown(page, name, place) for name in expected} == expected


def setting(page: Page) -> tuple[float, float, float]:
    """TPR, confidence and prevalence where the sliders stand."""
    script = """() => { const { stops } = window.rankreg.data;
        const at = (id, values) => values[Number(document.getElementById(id).value)];
        return [at('tpr', stops.tprs), at('confidence', stops.confidences),
            at('prevalence', stops.prevalences)]; }"""
    tpr, confidence, prevalence = page.evaluate(script)
    return tpr, confidence, prevalence


def test_the_page_opens_on_what_was_fixed(open_page: Open, two: Path) -> None:
    page = open_page(two)
    check_shown(page, 0.95, 0.95, PREVALENCE)
    assert "if it had been fixed" not in page.locator(".numbers").inner_text()
    assert page.locator("#state-fixed").is_visible()
    assert not page.locator("#state-exploratory").is_visible()
    assert not page.locator("#reset").is_visible()


def test_the_keyboard_moves_the_sliders(open_page: Open, two: Path) -> None:
    page = open_page(two)
    page.locator("#tpr").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert setting(page)[0] == 0.945
    assert page.locator("#tpr").get_attribute("aria-valuetext") == "94.5 %"
    assert page.locator("#state-exploratory").is_visible()
    assert not page.locator("#state-fixed").is_visible()
    assert page.locator(".numbers .good:visible").count() == 0
    assert "at least 94.5 % if it had been fixed" in page.locator(".numbers").inner_text()
    check_shown(page, 0.945, 0.95, PREVALENCE)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    tpr, confidence, prevalence = setting(page)
    assert (tpr, confidence) == (0.945, 0.94)
    assert prevalence > PREVALENCE
    check_shown(page, tpr, confidence, prevalence)
    page.locator("#reset").press("Enter")
    check_shown(page, 0.95, 0.95, PREVALENCE)
    assert page.locator("#state-fixed").is_visible()


def test_the_mouse_moves_the_sliders(open_page: Open, two: Path) -> None:
    page = open_page(two)
    for name, target in (("tpr", 0.6), ("confidence", 0.25), ("prevalence", 0.8)):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] / 2, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + target * box["width"], middle, steps=3)
        page.mouse.up()
        check_shown(page, *setting(page))
    assert setting(page) != (0.95, 0.95, PREVALENCE)
    marker = page.locator("svg.roc").first.locator(".marker circle").first.get_attribute("cx")
    point = certify(MODELS[0].labels, MODELS[0].scores, tpr=setting(page)[0], confidence=setting(page)[1])
    assert float(marker or "nan") == pytest.approx(
        56 + 352 * (np.log10(point.fpr) + 4) / 4, abs=0.01
    )  # from 0.01 %


def test_moving_the_prevalence_alone_leaves_the_guarantee(open_page: Open, two: Path) -> None:
    page = open_page(two)
    page.locator("#prevalence").press("End")
    assert setting(page)[2] == 0.5
    assert page.locator("#state-fixed").is_visible()
    check_shown(page, 0.95, 0.95, 0.5)


def test_every_number_is_pythons_to_the_last_bit(open_page: Open, two: Path) -> None:
    page = open_page(two)
    stops = page.evaluate("window.rankreg.data.stops")
    sizes = [len(stops["tprs"]), len(stops["confidences"]), len(stops["prevalences"]), 2]
    places = np.random.default_rng(0).integers(0, sizes, size=(150, 4)).tolist()
    found = page.evaluate(
        """places => places.map(([tpr, confidence, prevalence, model]) =>
            window.rankreg.valuesAt(model, { tpr, confidence, prevalence, per_day: null }))""",
        places,
    )
    certified = 0
    for (tpr, confidence, prevalence, model), values in zip(places, found, strict=True):
        if not values["certified"]:
            continue
        point: OperatingPoint = certify(
            MODELS[model].labels,
            MODELS[model].scores,
            tpr=stops["tprs"][tpr],
            confidence=stops["confidences"][confidence],
            prevalence=stops["prevalences"][prevalence],
        )
        assert {name: values[name] for name in SHARED} == {name: point.to_dict()[name] for name in SHARED}
        assert float(values["threshold"]) == point.threshold
        assert values["price"] == price(point.recall, point.fpr, point.fpr_at_most)
        certified += 1
    assert certified > 100


def test_numbers_are_written_as_python_writes_them(open_page: Open, few: Path) -> None:
    page = open_page(few)
    generator = np.random.default_rng(1)
    values = [
        *generator.random(300),
        *(1 - 10.0 ** generator.uniform(-6, -1, 100)),
        *10.0 ** generator.uniform(-9, 11, 300),
    ]
    values += [
        *(generator.integers(0, 4000, 300) / 1600),
        *(generator.integers(0, 1000, 100) / 8),
        1.125e9,
        3.375e10,
        0.0,
        1.0,
        1e9,
        0.5,
    ]
    floats = [float(value) for value in values]
    for name in ("percent", "rounded", "share", "share_up", "share_down", "number", "number_up"):
        found = page.evaluate("([name, values]) => values.map(window.rankreg.formats[name])", [name, floats])
        assert found == [FORMATS[name](value) for value in floats]
    whole = [0, 7, 999, 1000, 1_234_567]
    assert page.evaluate("values => values.map(window.rankreg.formats.count)", whole) == [
        f"{one:,}" for one in whole
    ]


def test_too_few_positives_say_so_and_what_they_could_do(open_page: Open, few: Path) -> None:
    page = open_page(few)
    said = page.locator("#state-uncertified").inner_text()
    assert re.findall(r"\d[\d.]*\b", said) == ["40", "59", "40", "92.7"]
    assert "not guaranteed" in page.locator(".numbers").inner_text()
    page.locator("#tpr").press("Home")
    assert page.locator("#state-exploratory").is_visible()
    model = made_model("few", 40, 500)
    assert shown(page, "threshold") == repr(certify(model.labels, model.scores, tpr=0.5).threshold)
    assert "not guaranteed" not in page.locator(".numbers").inner_text()


def test_a_threshold_that_alarms_on_everything_is_no_success_and_has_no_chance_beside_it(
    open_page: Open, tmp_path: Path
) -> None:
    """The lowest 5 of 40 positives lie below all negatives: at high TPRs everything alarms, at lower ones not."""
    labels = np.repeat([1, 0], [40, 100])
    scores = np.concatenate([np.linspace(-2, -1, 5), np.linspace(4, 5, 35), np.linspace(0, 3, 100)])
    page = open_page(write(tmp_path / "report.html", [Model("low", labels, scores)], Settings(tprs=(0.9,))))
    useless = page.locator(".numbers .chip.bad:text-is('useless')")
    assert useless.is_visible()
    assert page.locator("main .good:visible:not(.colours *)").count() == 0
    assert page.locator("header > *").nth(1).locator("[data-finding=useless]").is_visible()
    page.locator("#tpr").press("End")
    assert "not guaranteed" in page.locator(".numbers").inner_text()
    assert "with a chance of" not in page.locator(".numbers").inner_text()
    page.locator("#tpr").press("Home")
    assert not useless.is_visible()
    assert "with a chance of" in page.locator(".numbers").inner_text()


def test_samples_per_day_can_be_typed(open_page: Open, few: Path) -> None:
    page = open_page(few)
    assert "Misses per 100,000 samples" in page.locator(".numbers").inner_text()
    page.locator("#per-day").fill("500")
    text = page.locator(".numbers").inner_text()
    assert "All alarms per day" in text
    assert "Misses per 100,000 samples" not in text
    assert shown(page, "alarms_per_day") == number(
        page.evaluate("""() => window.rankreg.valuesAt(0,
        window.rankreg.data.setting).alarms_per_1000""")
        / 2
    )
    page.locator("#per-day").fill("-3")
    assert "All alarms per day" not in page.locator(".numbers").inner_text()


@pytest.mark.parametrize("name", ["two", "few"])
def test_without_javascript_the_page_says_the_same(
    open_page: Open, request: pytest.FixtureRequest, name: str
) -> None:
    path = request.getfixturevalue(name)
    with_it, without = (
        open_page(path, java_script_enabled=enabled).locator("main").inner_text() for enabled in (True, False)
    )
    assert with_it == without.replace("\nBack to the fixed target", "")


def test_the_card_is_copied(open_page: Open, two: Path) -> None:
    page = open_page(two, permissions=["clipboard-read", "clipboard-write"])
    point = certify(MODELS[0].labels, MODELS[0].scores, prevalence=PREVALENCE)
    page.locator("button[data-copy=json-0]").press("Enter")
    page.locator(".card .copied").first.get_by_text("Copied.").wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == point.to_dict() | {"findings": []}
    page.locator("button[data-copy=card-1]").click()
    page.locator(".card .copied").nth(1).get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("new, certified on 400 positives")


def test_the_card_can_be_copied_where_the_clipboard_is_out_of_reach(open_page: Open, two: Path) -> None:
    page = open_page(two)
    page.evaluate("delete Navigator.prototype.clipboard")
    page.locator("button[data-copy=card-0]").click()
    page.locator(".card .copied").first.get_by_text("Copied.").wait_for()
    assert page.evaluate("getSelection().toString()").startswith("old, certified")


@pytest.mark.parametrize("clipboard", [True, False])
def test_the_exact_threshold_is_copied_and_the_headline_is_rounded(
    open_page: Open, two: Path, clipboard: bool
) -> None:
    page = open_page(two, permissions=["clipboard-read", "clipboard-write"])
    if not clipboard:
        page.evaluate("delete Navigator.prototype.clipboard")
    threshold = certify(MODELS[0].labels, MODELS[0].scores).threshold
    row = page.locator(".verdicts tbody tr").first
    assert row.locator("td").last.locator("b").inner_text() == rounded_threshold(threshold, 4)
    row.locator("button").press("Enter")
    row.locator(".copied").get_by_text("Copied.").wait_for()
    if clipboard:
        assert page.evaluate("navigator.clipboard.readText()") == repr(threshold)
    else:
        assert page.evaluate("getSelection().toString()") == repr(threshold)
    page.locator("#tpr").press("ArrowLeft")
    moved = certify(MODELS[1].labels, MODELS[1].scores, tpr=setting(page)[0]).threshold
    button = page.locator("button[data-copy=threshold-1]")
    button.click()
    button.locator("xpath=../span[@role='status']").get_by_text("Copied.").wait_for()
    if clipboard:
        assert page.evaluate("navigator.clipboard.readText()") == repr(moved)


@pytest.mark.parametrize("width", [390, 1400])
def test_sliders_have_ends_ticks_and_a_stated_scale(open_page: Open, two: Path, width: int) -> None:
    """A tick stands where the middle of the thumb is at its stop, and no label touches another."""
    page = open_page(two, width)
    for name, plural in (("tpr", "tprs"), ("confidence", "confidences"), ("prevalence", "prevalences")):
        stops = page.evaluate(f"window.rankreg.data.stops.{plural}")
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        marks = page.locator(f"#{name} + .scale span").all()
        labels = [mark.inner_text().replace("\u00a0", " ") for mark in marks]
        assert (labels[0], labels[-1]) == (percent(stops[0]), percent(stops[-1]))
        assert sum(map(bool, labels)) >= 4
        right_end = -np.inf
        for mark, label in zip(marks, labels, strict=True):
            found = mark.bounding_box()
            assert found is not None
            if label:
                assert found["x"] > right_end + 3
                right_end = found["x"] + found["width"]
            if label and mark not in (marks[0], marks[-1]):
                place = [percent(stop) for stop in stops].index(label) / (len(stops) - 1)
                middle = box["x"] + 10 + place * (box["width"] - 20)
                assert found["x"] + found["width"] / 2 == pytest.approx(middle, abs=1)
        assert "scale" in page.locator(f"#{name}-hint").inner_text()


CONTRAST = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, k) => {
        const part = [r, g, b][k] / 255;
        return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); }, 0);
    const ground = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const colour = parse(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    return [...document.querySelectorAll('main *')].filter((e) => e.getClientRects().length && !e.ownerSVGElement
        && [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())).map((e) => {
            const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
            return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 80)]; }).sort((x, y) => x[0] - y[0])[0]; }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["two", "few"])
def test_every_text_stands_out_from_what_is_behind_it(
    open_page: Open, request: pytest.FixtureRequest, name: str, scheme: str
) -> None:
    page = open_page(request.getfixturevalue(name), color_scheme=scheme)
    page.locator("#tpr").press("ArrowLeft")
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


def test_a_hostile_file_stays_text(open_page: Open, tmp_path: Path) -> None:
    model = made_model("a", 200, 300)
    ids = np.array([f"{HOSTILE}{row}" for row in range(500)], dtype=object)
    hostile = Model(HOSTILE, model.labels, model.scores, ids, source={"file": HOSTILE})
    page = open_page(write(tmp_path / "report.html", [hostile], Settings(title=HOSTILE)))
    page.locator("#tpr").press("ArrowLeft")
    assert page.locator("h1").inner_text() == HOSTILE


@pytest.mark.parametrize("width", [390, 1400])
def test_everything_fits_the_width_and_can_be_read(open_page: Open, two: Path, width: int) -> None:
    page = open_page(two, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('main p, main small, main td, main th, svg text')]
            .filter(e => e.getClientRects().length && !e.closest('.hidden'))
            .map(e => parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ?
                e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width : 1))"""
    )
    assert min(sizes) >= 11


def test_everything_has_a_name_for_those_who_listen(open_page: Open, two: Path) -> None:
    page = open_page(two)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input')].filter(e => !e.labels.length)
            .concat([...document.querySelectorAll('svg:not([aria-hidden]), [role=region]')]
                .filter(e => !e.getAttribute('aria-label')))
            .concat([...document.querySelectorAll('img')].filter(e => !e.alt)).map(e => e.outerHTML)"""
    )
    assert unnamed == []
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.dataset.copy ?? document.activeElement.id"))
    assert reached[:6] == ["exact-0", "exact-1", "tpr", "confidence", "prevalence", "per-day"]


def test_paper_shows_the_setting_instead_of_the_sliders(open_page: Open, two: Path) -> None:
    page = open_page(two, color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#tpr").is_visible()
    assert not page.locator("button").first.is_visible()
    setting_line = page.locator(".print-only").inner_text()
    assert re.findall(r"[\d.,]+(?= %| samples)", setting_line) == ["95", "95", "0.6", "2,000"]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('section, footer, table, figure, .verdicts tr, .alerts li, .card')]
            .filter(e => !e.getClientRects().length).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert hidden == []
    page.set_viewport_size({"width": 680, "height": 900})  # of A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.pdf().startswith(b"%PDF")
