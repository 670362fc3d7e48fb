"""A row in the tables of the grids adds a data set of one's own, and nothing else is needed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rankreg.cli import app
from rankreg_bench.figures import choose, figure_of
from rankreg_bench.grids import DATA, EXPERIMENTS, Data, Experiment, plans_of
from rankreg_bench.records import RecordFolder, Selection
from rankreg_bench.tables import pages_of
from tests.bench import handmade


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small table, and the two rows that make it an experiment."""
    random = np.random.default_rng(0)
    fraud = np.arange(400) % 10 == 0
    table = pd.DataFrame({"amount": random.normal(size=400) + 2 * fraud, "age": random.normal(size=400)})
    table.assign(fraud=np.where(fraud, "yes", "no")).to_csv(tmp_path / "claims.csv", index=False)
    settings = {"path": "claims.csv", "target": "fraud", "positive": "yes"}
    monkeypatch.setitem(DATA, "claims", Data("Claims", "table", settings, (0.95, 0.90)))
    monkeypatch.setitem(EXPERIMENTS, "claims", Experiment("Claims", ("claims",), {"base": None, "buffer": None}))
    return tmp_path


def test_a_csv_of_ones_own_is_listed_run_and_tabulated(claims: Path) -> None:
    runner, folder = CliRunner(), ["--records", str(claims / "records")]
    assert runner.invoke(app, ["bench", "list"]).exit_code == 0
    run = ["bench", "run", "claims", "--preset", "smoke", "--workers", "1", "--data-dir", str(claims)]
    assert runner.invoke(app, [*run, "--runs", str(claims / "runs"), *folder]).exit_code == 0
    plans, records = plans_of("claims", "smoke"), RecordFolder(claims / "records")
    assert [records.has(plan) for plan in plans] == [True] * 4
    first, second = (records.by_part(plan)["test"] for plan in plans if plan.arm == "base")
    assert np.array_equal(first.ids, second.ids)  # splits share the test part
    assert runner.invoke(app, ["bench", "table", "claims", "--preset", "smoke", *folder]).exit_code == 0
    assert runner.invoke(app, ["bench", "status", *folder]).exit_code == 0


def test_a_preset_without_the_data_is_named_and_another_one_proposed() -> None:
    result = CliRunner().invoke(app, ["bench", "run", "ham10000", "--preset", "converged"])
    assert isinstance(result.exception, ValueError)
    assert "compact" in str(result.exception)


def test_what_stands_in_for_a_data_set_has_its_own_name_and_no_published_values(tmp_path: Path) -> None:
    handmade.write_all(tmp_path, "cifar10-100", "smoke", splits=2, only=("bce",))
    (page, *_) = pages_of(Selection("cifar10-100", "smoke", tmp_path, 2, ("bce",)))
    assert page.title.startswith("digits for CIFAR-10 1:100")
    assert {number.published for number in page.numbers} == {None}
    figure = figure_of(choose(Selection("cifar10-100", "smoke", tmp_path, 2, ("bce",))))
    assert figure.axes[0].get_title().startswith("digits for ")
