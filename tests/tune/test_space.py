"""What is searched, by what it is judged, and what is written: before any search is run."""

import tomllib
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FrozenTrial, TrialState, create_trial

from rankreg.datasets import load
from rankreg.fit import settings
from rankreg.train import TrainConfig, train
from rankreg.train.run import epochs
from rankreg.tune import AlmGrid, Space, rank_trials
from rankreg.tune.results import config_toml, result_lines
from rankreg.tune.search import claim_study, value_of
from rankreg.tune.search_data import NamedData, judged_parts
from rankreg.tune.space import GRID, LOSSES, METHODS, plan_search

DIGITS = NamedData("digits", ratio=50)
TWO = [judged_parts(load("digits", seed=seed)) for seed in (0, 1)]


@pytest.mark.parametrize("kind", ["table", "image"])
def test_a_method_by_default_is_what_fit_trains(kind: str) -> None:
    base = settings(kind, 0.98, size=32)
    space = Space(base)
    for method in METHODS:
        assert space.of(space.defaults(method)) == settings(kind, 0.98, size=32, method=method, loss="bce")


@given(st.integers(0, 2**32 - 1))
def test_a_finished_trial_tells_its_config(seed: int) -> None:
    space = Space(settings("table", 0.9), losses=tuple(LOSSES))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    trial = study.ask()
    config = space.sampled(trial)
    assert space.of(trial.params) == config
    assert config.epochs <= space.base.epochs


def test_every_method_loss_and_setting_of_the_space_can_be_reached() -> None:
    space = Space(settings("table", 0.9), losses=tuple(LOSSES))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen: dict[str, set[Any]] = {}
    for _ in range(300):
        trial = study.ask()
        space.sampled(trial)
        for name, value in trial.params.items():
            seen.setdefault(name, set()).add(value)
    assert seen["method"] == set(METHODS)
    assert seen["loss"] == set(LOSSES)
    assert seen["rankreg.space"] == {"score", "probability"}
    assert seen["rankreg.among"] == {"negatives", "all"}
    assert seen["sampling"] == {"shuffled", "balanced"}
    assert seen["buffer.base_over"] == {"union", "batch"}
    assert {"rankreg.score.reach", "rankreg.probability.reach", "rankreg.weight", "alm.mu"} <= seen.keys()


def test_the_baseline_is_always_searched_and_first() -> None:
    assert Space(TrainConfig(), methods=("rankreg",)).methods == ("none", "rankreg")


@pytest.mark.parametrize(("sampling", "other"), [("shuffled", "balanced"), ("balanced", "shuffled")])
def test_the_baseline_is_tried_with_the_other_sampling_too_and_a_buffer_replaces_sampling(
    sampling: str, other: str
) -> None:
    base = TrainConfig.model_validate({"sampling": sampling})
    search = Space(base, methods=("rankreg",))
    configs = {name: search.of(params) for name, params in search.wanted([]).items()}
    assert list(configs) == ["none by default", f"none, {other}", "rankreg by default"]
    assert [config.sampling for config in configs.values()] == [sampling, other, sampling]
    assert configs[f"none, {other}"].method.name == "none"
    assert "sampling" not in search.defaults("rankreg")


def test_a_search_of_other_knobs_is_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study()
    claim_study(study, Space(TrainConfig()).settings())
    monkeypatch.setattr("rankreg.tune.space.KNOBS", "those of an older version")
    with pytest.raises(ValueError, match="differs in knobs"):
        claim_study(study, Space(TrainConfig()).settings())


def test_unknown_methods_and_losses_are_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'rankreg'"):
        Space(TrainConfig(), methods=("rankrek",))
    with pytest.raises(ValueError, match="did you mean 'a-fl'"):
        Space(TrainConfig(), losses=("afl",))


def test_the_config_of_a_trial_survives_the_file_that_fit_reads(tmp_path: Path) -> None:
    space = Space(settings("table", 0.9), losses=tuple(LOSSES))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(30):
        config = space.sampled(study.ask())
        file = tmp_path / "best.toml"
        file.write_text(config_toml(config, ["a comment"]), encoding="utf-8")
        assert TrainConfig.from_toml(file).model_copy(update={"tpr": config.tpr}) == config  # `fit --tpr` says it
        assert settings("table", 0.9, file=file) == config


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False, min_value=1e-300))
def test_any_word_and_number_survives_toml(word: str, number: float) -> None:
    config = TrainConfig.model_construct(augmentation=word, learning_rate=number)
    read = tomllib.loads(config_toml(config))
    assert read["augmentation"] == word
    assert read["learning_rate"] == number


def grid_trial(number: int, name: str, params: dict[str, Any], value: float) -> FrozenTrial:
    kinds = {"method": optuna.distributions.CategoricalDistribution(("alm", "none"))} | {
        f"alm.{key}": optuna.distributions.CategoricalDistribution(knob.values) for key, knob in GRID.items()
    }
    trial = create_trial(
        params=params,
        distributions={key: kinds[key] for key in params},
        value=value,
        user_attrs={"fixed": name},
        state=TrialState.COMPLETE,
    )
    trial.number = number
    return trial


def test_the_grid_of_alm_is_the_papers() -> None:
    plan = AlmGrid(TrainConfig())
    first = plan.wanted([])
    points = [(p["alm.rho"], p["alm.mu"]) for p in first.values() if p["method"] == "alm"]
    assert len(points) == 16
    assert set(points) == set(product((2, 3), (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)))
    assert {p["alm.delta"] for p in first.values() if p["method"] == "alm"} == {0.25}

    done = [grid_trial(k, name, params, 0.5) for k, (name, params) in enumerate(first.items())]
    best = next(k for k, t in enumerate(done) if (t.params.get("alm.rho"), t.params.get("alm.mu")) == (3, 1e-6))
    done[best].value = 0.1
    second = {name: params for name, params in plan.wanted(done).items() if name not in first}
    assert [(p["alm.rho"], p["alm.mu"], p["alm.delta"]) for p in second.values()] == [
        (3, 1e-6, delta) for delta in (0.1, 0.5, 1.0)
    ]  # with 0.25 of the first step, the paper's four
    assert plan.total == len(first) + len(second)
    assert plan.wanted(done[:-1]) == first  # the second step waits for all of the first


def test_the_grid_stands_in_the_protocol(protocol: Path) -> None:
    text = protocol.read_text(encoding="utf-8")
    assert "ρ ∈ {2, 3}, μ₀ ∈ {1e-2 … 1e-9}; then δ ∈ {0.1, 0.25, 0.5, 1.0}; by validation AUC" in text
    assert AlmGrid(TrainConfig()).judge == "auc"


def test_a_grid_point_changes_the_method_alone() -> None:
    base = settings("table", 0.98, loss="a-fl")
    config = AlmGrid(base).of({"method": "alm", "alm.rho": 3.0, "alm.mu": 1e-9, "alm.delta": 1.0})
    assert config.method.model_dump(include={"name", "rho", "mu", "delta"}) == {
        "name": "alm",
        "rho": 3.0,
        "mu": 1e-9,
        "delta": 1.0,
    }
    assert config.model_copy(update={"method": base.method}) == base


def found(fpr: float, auc: float) -> dict[str, float]:
    return {"fpr": fpr, "auc": auc}


@given(st.lists(st.tuples(st.integers(0, 243), st.floats(0, 1)), min_size=4, max_size=4))
def test_false_alarms_decide_and_auc_breaks_ties_only(pairs: list[tuple[int, float]]) -> None:
    parts = TWO  # of 243 validation negatives each
    ours, theirs = ([found(count / 243, auc) for count, auc in half] for half in (pairs[:2], pairs[2:]))
    first, second = (value_of(half, Space(TrainConfig()), parts) for half in (ours, theirs))
    rates = [sum(count for count, _ in half) for half in (pairs[:2], pairs[2:])]
    aucs = [np.mean([auc for _, auc in half]) for half in (pairs[:2], pairs[2:])]
    if rates[0] != rates[1]:
        assert (first < second) == (rates[0] < rates[1])
    elif abs(aucs[0] - aucs[1]) > 1e-9:
        assert (first < second) == (aucs[0] > aucs[1])


def test_a_trial_trains_as_train_does(tmp_path: Path) -> None:
    splits = load("digits", ratio=50)
    config = TrainConfig.model_validate({"epochs": 3, "batch_size": 64, "method": "rankreg", "tpr": 0.9, "seed": 4})
    records = list(epochs(judged_parts(splits), config))
    run = train(splits, config, tmp_path, progress=False)
    assert [record["validation"] for record in records] == [record["validation"] for record in run.history]
    assert [record["better"] for record in records] == [record["better"] for record in run.history]


def test_nothing_but_training_and_validation_samples_is_handed_on() -> None:
    splits = load("digits")
    kept = judged_parts(splits)
    assert list(kept.parts) == ["train", "validation"]
    assert np.array_equal(kept["validation"].rows, splits["validation"].rows)


def test_a_tuning_pool_judges_too_where_there_is_one() -> None:
    splits = load("digits")
    with_pool = replace(splits, parts={**splits.parts, "tuning": splits["test"]})
    pooled = judged_parts(with_pool)["validation"]
    assert set(pooled.ids) == {*splits["validation"].ids, *splits["test"].ids}


def test_a_file_that_names_a_loss_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('loss = { name = "a-fl", settings = { gamma = 3.0 } }\nbatch_size = 16\n')
    plan = plan_search(DIGITS, file=file, trials=7)
    config = plan.of({"method": "none", "sampling": "balanced", "learning_rate": 0.1, "epochs": 5})
    assert config.loss is not None
    assert (config.loss.name, config.loss.settings, config.batch_size) == ("a-fl", {"gamma": 3.0}, 16)
    assert plan.total == 7


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"preset": "grid"}, "choose 'default' or 'alm'"),
        ({"preset": "alm", "trials": 3}, "the grid of --preset alm is fixed"),
        ({"preset": "alm", "methods": ("none",)}, "the grid of --preset alm is fixed"),
        ({"preset": "alm", "losses": ("bce", "a-fl")}, "give one --loss"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_what_cannot_be_asked_is_said(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_search(DIGITS, **asked)


def test_a_file_that_names_a_method_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('method = "rankreg"\n')
    with pytest.raises(ValueError, match="which the search chooses"):
        plan_search(DIGITS, file=file)


def finished(number: int, name: str, params: dict[str, Any], fpr: float) -> FrozenTrial:
    trial = create_trial(
        params=params,
        distributions={
            key: optuna.distributions.CategoricalDistribution((value,)) for key, value in params.items()
        },
        value=fpr,
        user_attrs={"fixed": name, "splits": [{"fpr": fpr, "auc": 1 - fpr}] * 2},
        state=TrialState.COMPLETE,
    )
    trial.number = number
    return trial


def test_a_winner_is_held_against_the_better_of_shuffled_and_oversampled_batches() -> None:
    plan = Space(TrainConfig(), methods=("buffer",))
    fprs = {"none by default": 0.5, "none, balanced": 0.21, "buffer by default": 0.2}
    trials = [finished(k, name, params, fprs[name]) for k, (name, params) in enumerate(plan.wanted([]).items())]
    result = rank_trials(trials, plan)
    assert result.best.config.method.name == "buffer"
    assert result.baseline is not None
    assert result.baseline.config.sampling == "balanced"
    assert result.baseline.fpr == pytest.approx(0.21)
    said = dict(result_lines(result, plan, TWO, 0.9))
    assert "oversampled: FPR 21.0 %" in said["Baseline"]
    assert "the better of two" in said["Beware"]

    alone = rank_trials(trials[2:], plan)  # the others diverged
    assert alone.baseline is None
    assert "nothing to compare with" in dict(result_lines(alone, plan, TWO, 0.9))["Beware"]


def test_a_baseline_that_was_lost_is_owed_even_when_enough_trials_are_done() -> None:
    plan = Space(TrainConfig(), methods=("buffer",), total=4)
    done = [finished(k, name, params, 0.1) for k, (name, params) in enumerate(plan.wanted([]).items())]
    assert plan.left(done) == 1
    drawn = finished(3, "", done[0].params, 0.2)
    del drawn.user_attrs["fixed"]
    assert plan.left([*done, drawn]) == 0
    assert plan.left([*done[1:], drawn, drawn]) == 1
    assert Space(TrainConfig(), total=1).left(done[:1]) == 0
