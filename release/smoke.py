"""Tried in an empty environment with rankreg installed: the commands of a first hour, with values checked.

It needs the standard library and rankreg alone, and runs in an empty folder.
"""

import csv
import json
import os
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it fails
import rankreg.metrics, rankreg.operating, rankreg.report, rankreg.score_files
from rankreg.cli import main
sys.argv = ["rankreg", *sys.argv[1:]]
main()
"""


def rankreg(*words: str) -> str:
    """What a command prints; it must succeed."""
    script = Path(sys.executable).with_name("rankreg")
    wide = os.environ | {"COLUMNS": "200"}
    done = subprocess.run([script, *words], capture_output=True, text=True, encoding="utf-8", env=wide, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def write(name: str, rows: list[dict[str, object]]) -> None:
    """A CSV file."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def check_version() -> None:
    import rankreg as package

    assert "site-packages" in str(package.__file__), package.__file__
    assert rankreg("--version").strip() == f"rankreg {package.__version__}"
    assert metadata.version("rankreg") == package.__version__


def check_scores_alone() -> None:
    """With 59 positives, the lowest score of a positive is certified at 95 % TPR with 95 % confidence."""
    rows: list[dict[str, object]] = [{"y": 1, "s": 10 + k} for k in range(59)]
    write("scores.csv", rows + [{"y": 0, "s": k / 100} for k in range(1050)])
    given = ["certify", "scores.csv", "--label", "y", "--score", "s", "--tpr", "0.95", "--json"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_TORCH, *given], capture_output=True, text=True, check=True
    )
    for said in (done.stdout, rankreg(*given)):
        assert json.loads(said)["threshold"] == 10, said
    rankreg("report", "scores.csv", "--label", "y", "--score", "s", "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    script = resources.files("rankreg.report") / "templates" / "page.js"
    assert script.read_text(encoding="utf-8").strip().splitlines()[-1] in page


def check_fit() -> None:
    """A table that one column separates: every positive raises an alarm, no negative does."""
    rows = [
        {"size": k % 5 // 4 * 10 + k % 7 / 10, "colour": "rg"[k % 2], "sick": "ny"[k % 5 // 4]} for k in range(400)
    ]
    write("table.csv", [dict(row) for row in rows])
    given = ["--target", "sick", "--positive", "y", "--learner", "logistic", "--learner", "boosting"]
    said = rankreg("fit", "table.csv", *given, "--out", "model")
    assert "Recall" in said, said
    assert "Price" in said, said
    rankreg("predict", "model", "table.csv", "--out", "predicted.csv")
    with Path("predicted.csv").open(encoding="utf-8") as file:
        alarms = [row["alarm"] for row in csv.DictReader(file)]
    assert len(alarms) == len(rows)
    for row, alarm in zip(rows, alarms, strict=True):
        assert (alarm == "1") == (row["sick"] == "y"), (row, alarm)
    assert sorted(path.name for path in Path("model/bundle").glob("*.md")) == ["README.md"]


def check_bench() -> None:
    from rankreg_bench.grids import EXPERIMENTS

    listed = rankreg("bench", "list")
    assert [name for name in EXPERIMENTS if name not in listed] == []
    for name in ("main.csv", "ablations.csv"):
        assert (resources.files("rankreg_bench") / "published" / name).read_text(encoding="utf-8").count("\n") > 10


if __name__ == "__main__":
    for check in (check_version, check_scores_alone, check_fit, check_bench):
        check()
        print(f"{check.__name__.removeprefix('check_').replace('_', ' ')}: good", flush=True)
