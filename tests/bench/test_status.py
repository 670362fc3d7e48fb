"""How far a folder of records is, as the command line shows it."""

import json
import re
from pathlib import Path

import pytest

from rankreg_bench.grids import plan_run, plans_of
from rankreg_bench.status import status_of
from tests.bench.handmade import write
from tests.conftest import Run


def test_status_counts_runs_and_reckons_the_time_left(run: Run, tmp_path: Path) -> None:
    plans = plans_of("buffer-policy", "compact")
    home = tmp_path / "records"
    for plan in plans[:4]:
        write(home, plan, seconds=100)
    standings, lines = status_of(home, workers=2)
    (one,) = [one for one in standings if one.experiment == "buffer-policy"]
    assert (one.done, one.total, one.seconds) == (4, len(plans), 100.0)
    assert one.hours == pytest.approx((len(plans) - 4) * 100 / 2 / 3600)
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    assert lines[0] == f"{home}: 4 records, {size / 1e6:.2f} MB"
    status, out, _ = run("bench", "status")
    assert status == 0
    assert f"4/{len(plans)}" in out
    assert " MB\n" in out


def test_status_names_damaged_records_and_those_of_changed_settings(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "records"
    plan = plan_run("compact", "cifar100-100", "bce", "base", 0)
    write(home, plan)
    path = home / f"{plan.name}.json"
    record = json.loads(path.read_text())
    path.with_name("bce-base-1-00000000.json").write_text(json.dumps(record))
    path.with_name("bce-base-2-00000000.json").write_text("{")
    _, out, _ = run("bench", "status")
    assert "1 records belong to no experiment" in out
    path.with_name("bce-base-3-00000000.json").write_text('{"format": 1}')
    _, out, _ = run("bench", "status")
    assert len(re.findall(r"damaged: \S*bce-base-[23]-00000000.json [^/]*; delete it and run again", out)) == 2


def test_status_of_nothing_says_how_to_begin(run: Run) -> None:
    status, out, _ = run("bench", "status")
    assert status == 0
    assert "begin with: rankreg bench run" in out
