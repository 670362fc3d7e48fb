"""How numbers, verdicts and cells are written."""

import math

from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg_bench.pages import (
    Number,
    Page,
    Row,
    TableBlock,
    TableEntry,
    bracket,
    limits,
    measure_title,
    rendered,
    verdict,
)


def test_a_verdict_is_what_the_interval_allows() -> None:
    assert verdict(Interval(-1.5, -5.9, 2.9)) == "not told apart"
    assert verdict(Interval(-1.5, -2.0, -1.0)) == "lower"
    assert verdict(Interval(1.5, 1.0, 2.0)) == "higher"
    assert verdict(Interval(-1.5, -math.inf, math.inf)) == "no interval"
    assert verdict(Interval(0.0, 0.0, 0.0)) == "identical"
    assert verdict(Interval(-1.5, -1.5, -1.5)) == "no spread"


def test_numbers_are_written_with_a_real_minus_and_no_negative_zero() -> None:
    assert (plain(-0.04), plain(-1.25), signed(2.0), signed(-2.0)) == ("0.0", "−1.2", "+2.0", "−2.0")
    assert limits(Interval(24.8, -0.2, 49.8)) == "(0 to 50)"
    assert bracket(Interval(2.0, -0.3, 4.3, 0.95)) == "[0 to 4]"
    assert [measure_title(m) for m in ("fpr@98", "auc", "error@80tpr")] == ["FPR@98", "AUC", "error@80"]


def test_latex_escapes_what_it_would_take_for_commands() -> None:
    rows = (Row("a_b & 50 %", (TableEntry("−1.0", "[1–2]", best=True), TableEntry("^3"))),)
    page = Page("t", (TableBlock("b", ("", "FPR@98", "γ"), rows),), ("100 % sure",))
    text = rendered([page], "latex")
    assert r"a\_b \& 50 \% & \underline{$-$1.0} [1--2] & \textasciicircum{}3 \\" in text
    assert r"& $\gamma$ \\" in text
    assert all(line.startswith("%") for line in text.splitlines() if "sure" in line)


def test_empty_values_are_empty_in_csv() -> None:
    number = Number("e", "d", "official", "bce", "base", "auc", "single", 81.25, splits=1)
    assert (
        rendered([Page("", (), (), (number,))], "csv").splitlines()[1]
        == "e,d,official,bce,base,auc,single,81.25,,,1,"
    )
