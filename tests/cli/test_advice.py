"""What the tool prints to be typed is typed here: every command, option and expression must work as it stands."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from rankreg import PositiveBuffer, RankReg
from rankreg.metrics import auc
from tests.conftest import Run
from tests.own_data import write_images, write_table

COMMAND = re.compile(r"(?:^\s*|`|: )(rankreg [a-z]+ [^`\n;]+)", re.MULTILINE)  # a name alone is a mention
EXPRESSION = re.compile(r"y_score(?:\.ravel\(\)|\[:, 1\](?: - y_score\[:, 0\])?)")


def commands(*texts: str) -> list[list[str]]:
    """All commands in what was printed, as the shell would split them."""
    return [shlex.split(found)[1:] for text in texts for found in COMMAND.findall(text)]


def type_all(run: Run, *texts: str, **files: Path) -> list[str]:
    """Type every command that was printed, with these files for words in capitals; returns their names."""
    found = commands(*texts)
    for words in found:
        status, _, error = run(*(str(files.get(word, word)) for word in words))
        assert status == 0, (words, error)
    return [words[0] for words in found]


def fit(data: Path, *options: str) -> tuple[str, ...]:
    return "fit", str(data), "--target", "sick", "--epochs", "1", "--folds", "2", *options


def threshold_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())["threshold"]
    return found


def confirmed(scores: Path, out: Path) -> Path:
    """A file of confirmed positives: those of the scores that a fit wrote."""
    table = pd.read_csv(scores)
    table[table.label == 1].to_csv(out, index=False)
    return out


@pytest.mark.parametrize(("tpr", "kind"), [(0.7, "certified"), (0.9, "cross-fitted"), (0.99, "expected")])
def test_the_steps_after_a_fit_can_be_typed(run: Run, tmp_path: Path, tpr: float, kind: str) -> None:
    data, out = write_table(tmp_path / "data.csv"), tmp_path / "my model"
    given = ("fit", str(data), "--target", "sick", "--id", "name", "--learner", "logistic")
    status, said, _ = run(*given, "--tpr", str(tpr), "--confidence", "0.9", "--out", str(out))
    assert status == 0
    found = threshold_of(out)
    assert (found["kind"], found["tpr"], found["confidence"]) == (kind, tpr, 0.9)
    scores = "calibration-scores.csv" if kind == "certified" else "out-of-fold-scores.csv"
    files = {"NEW_DATA": data, "LABELLED_DATA": data, "CONFIRMED.csv": confirmed(out / scores, tmp_path / "c.csv")}
    assert type_all(run, said, **files) == ["predict", "evaluate", "monitor"]
    (monitor,) = [words for words in commands(said) if words[0] == "monitor"]
    monitored = json.loads(run(*(str(files.get(word, word)) for word in monitor), "--json")[1])
    assert monitored["threshold"] == found["value"]
    for place in (out, out / "bundle"):
        again = run(
            "recertify", str(out / scores), "--label", "label", "--score", "score", "--point", str(place), "--json"
        )
        assert json.loads(again[1])["deployed_threshold"] == found["value"]


def test_image_fits_print_steps_that_can_be_typed(run: Run, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images")
    given = (
        "fit",
        str(images),
        "--positive",
        "bad",
        "--size",
        "16",
        "--epochs",
        "1",
        "--learner",
        "network",
        "--folds",
        "2",
        "--tpr",
        "0.4",
        "--out",
        "out",
    )
    _, said, _ = run(*given)
    scores = tmp_path / "out/calibration-scores.csv"
    files = {"CONFIRMED.csv": confirmed(scores, tmp_path / "c.csv")}
    steps = type_all(run, said, NEW_DATA=images / "bad", LABELLED_DATA=images, **files)
    assert steps == ["predict", "evaluate", "monitor"]


@pytest.mark.slow
def test_a_search_prints_fits_that_can_be_typed(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    data = write_table(tmp_path / "data.csv")
    options = (
        "--target",
        "sick",
        "--id",
        "name",
        "--tpr",
        "0.9",
        "--epochs",
        "1",
        "--trials",
        "3",
        "--splits",
        "1",
    )
    status, said, _ = run("tune", str(data), *options, "--out", "my search")
    assert status == 0
    assert set(type_all(run, said)) == {"fit"}


def test_bench_hints_name_commands_that_are_understood(run: Run, tmp_path: Path) -> None:
    """What they would train takes hours, so the runs are listed, not trained."""
    from rankreg_bench.grids import plans_of

    records = str(tmp_path / "no records")
    hints = [
        run("bench", "status", "--records", records)[1],
        run("bench", "figure", "roc", "--records", records)[2],
        run("bench", "figure", "roc", "--records", records, "--only", "bce", "--splits", "2")[2],
        run("bench", "table", "cifar100-100", "--format", "md", "--records", records)[1],
        run("bench", "compare", "rankreg", "buffer", "--records", records)[2],
    ]
    found = [commands(hint) for hint in hints]
    assert [len(one) for one in found] == [1] * len(hints)
    for (words,) in found:
        assert words[0] == "bench"
        assert words[words.index("--records") + 1] == records
        if words[1] != "run":
            assert run(*words)[0] == 0
            continue
        names = words[2 : next(place for place, word in enumerate(words) if word.startswith("--"))]
        options = list(zip(words[2 + len(names) :: 2], words[3 + len(names) :: 2], strict=True))
        only = [value for name, value in options if name == "--only"]
        (preset,) = [value for name, value in options if name == "--preset"]
        assert all(plans_of(name, preset, only=only) for name in names)


HOME = Path(__file__).parents[2]
README = (HOME / "README.md").read_text()
GUIDE = (HOME / "docs/guide/operating-point.md").read_text()


def test_the_operating_point_commands_of_guide_and_readme_can_be_typed(run: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([1, 0], [300, 1500])
    for name in ("scores", "old", "new", "newer"):
        frame = pd.DataFrame({"y": labels, "s": generator.standard_normal(1800) + 2 * labels})
        frame["patient"], frame["day"] = np.arange(1800) // 2, "2025-01-31"
        frame["site"] = np.where(np.arange(1800) % 2, "north", "south")
        frame = frame.sample(frac=1, random_state=0)  # positives come at any time
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    frame[frame.y == 1].to_csv(tmp_path / "confirmed.csv", index=False)
    frame.to_parquet(tmp_path / "scores.parquet")
    (tmp_path / "scores").mkdir()
    frame.to_csv(tmp_path / "scores" / "2025-01.csv", index=False)
    chapter = README.split("## The operating point")[1].split("##")[0]
    typed = []
    for words in commands(GUIDE, chapter):
        if words[0] == "evaluate":  # needs a bundle: the help's examples are typed with one
            continue
        goes_to = words[words.index(">") + 1] if ">" in words else None
        status, out, error = run(*(words[: words.index(">")] if goes_to else words))
        assert status == 0, (words, error)
        if goes_to:
            (tmp_path / goes_to).write_text(out)
        typed.append(words[0])
    assert set(typed) == {"certify", "compare", "report", "monitor", "recertify"}


@pytest.mark.parametrize("columns", [1, 2])
def test_the_expression_that_a_message_names_mends_the_scores(columns: int) -> None:
    labels = np.array([0, 0, 1, 1, 1])
    right = np.array([-2.0, 1.0, 0.5, 3.0, 2.0])
    y_score = right[:, None] if columns == 1 else np.column_stack([[5.0, 9.0, 1.0, 2.0, 3.0], right])
    if columns == 2:
        y_score[:, 1] += y_score[:, 0]  # logits: their difference is the score
    with pytest.raises(ValueError, match="one shape") as refused:
        auc(labels, y_score)
    mended = [eval(text, {"y_score": y_score}) for text in EXPRESSION.findall(str(refused.value))]
    assert auc(labels, mended[-1]) == auc(labels, right)
    assert len(mended) == columns


def test_the_expression_that_torch_messages_name_mends_the_scores() -> None:
    labels = torch.tensor([0, 1, 1])
    scores = torch.tensor([[0.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match=r"pass scores\.squeeze\(1\)"):
        RankReg()(scores, labels)
    with pytest.raises(ValueError, match=r"pass labels\.squeeze\(1\)"):
        RankReg()(scores.squeeze(1), labels[:, None])
    with pytest.raises(ValueError, match=r"pass scores\.squeeze\(1\)"):
        PositiveBuffer(capacity=2).update(torch.zeros(3, 1), labels, scores)
    with pytest.raises(ValueError, match=r"scores\[:, 1\] - scores\[:, 0\]"):
        RankReg()(nn.functional.pad(scores, (1, 0)), labels)


def test_the_progress_bar_speaks_of_the_tpr_that_was_asked_for(run: Run, tmp_path: Path) -> None:
    from rankreg.fit import settings
    from rankreg.train.run import epoch_summary

    config = settings("table", 0.9)
    record = {"epoch": 0, "validation": {"auc": 0.9, "fpr": 0.5}}
    assert "at 90 % TPR" in epoch_summary(record, config)
    data = write_table(tmp_path / "data.csv")
    given = fit(data, "--id", "name", "--out", "out")
    assert run(*given, "--tpr", "0.7")[0] == 0
    (last, *_) = sorted((tmp_path / "out/run").glob("*/network/member-*/last.pt"))
    weights = last.stat().st_mtime_ns
    assert run(*given, "--tpr", "0.6")[0] == 0  # another TPR only certifies anew
    assert last.stat().st_mtime_ns == weights
    (tmp_path / "by-fpr.toml").write_text('selection = "fpr"\n')
    by_fpr = fit(data, "--id", "name", "--config", "by-fpr.toml", "--out", "by fpr")
    assert run(*by_fpr, "--tpr", "0.7")[0] == 0
    status, _, error = run(*by_fpr, "--tpr", "0.6")
    assert (status, "tpr" in error) == (2, True)
