"""How numbers and names are written: no fewer alarms by rounding, no name that fills the screen."""

from hypothesis import given
from hypothesis import strategies as st

from rankreg.notation import LONGEST_NAME, rounded_threshold, short_name, short_quotes

NUMBERS = st.floats(-1e300, 1e300)


@given(NUMBERS, st.integers(3, 10))
def test_a_threshold_as_printed_is_as_low_or_lower_and_nearly_the_same(value: float, digits: int) -> None:
    low, high = (float(rounded_threshold(value, digits, up=up)) for up in (False, True))
    assert low <= value <= high
    assert abs(value - low) <= 10.0 ** (1 - digits) * abs(value) + 5e-324


@given(st.floats(0.9, 1, exclude_max=True))
def test_nines_are_kept(value: float) -> None:
    lost = 1 - value
    assert 1 - float(rounded_threshold(value)) <= lost * (1 + 1e-5) + 2e-16


@given(NUMBERS)
def test_a_rounded_threshold_stays_as_it_is(value: float) -> None:
    once = rounded_threshold(value)
    assert rounded_threshold(float(once)) == once


@given(st.text() | st.text(min_size=LONGEST_NAME + 1, max_size=3 * LONGEST_NAME))
def test_a_short_name_has_both_ends_of_the_name(name: str) -> None:
    short = short_name(name)
    assert len(short) <= LONGEST_NAME
    if len(name) <= LONGEST_NAME:
        assert short == name
    else:
        gaps = [place for place, letter in enumerate(short) if letter == "…"]  # the name may hold some too
        assert any(name.startswith(short[:gap]) and name.endswith(short[gap + 1 :]) for gap in gaps)


def test_only_what_is_in_quotes_is_shortened() -> None:
    path, prose = "/data/" + "folder/" * 30 + "file.csv", "the model's words and the positives' scores " * 10
    assert short_quotes(f"{path}: {prose}") == f"{path}: {prose}"
    assert len(short_quotes(f"no column {'x' * 5000!r}")) <= LONGEST_NAME + 13
