"""Old spellings keep working for one version, with a FutureWarning that names the new one."""

from typing import Any

import numpy as np
import pytest
import torch

import rankreg
from rankreg import ALM, RankReg
from rankreg.boosting import RankRegLGBMClassifier
from rankreg.datasets import load
from rankreg.integrations import FPRAtTPR
from rankreg.metrics import error_at_tpr
from rankreg.operating.bootstrap import error_at_tpr_intervals


@pytest.mark.parametrize("made", [RankReg, RankReg.published, lambda **given: ALM(5, **given), FPRAtTPR])
def test_critical_is_now_positive(made: Any) -> None:
    with pytest.warns(FutureWarning, match="critical is now positive"):
        assert made(critical=2).positive == 2
    with pytest.raises(TypeError, match="positive was given twice"):
        made(critical=2, positive=2)


def test_critical_score_is_now_positive_score() -> None:
    with pytest.warns(FutureWarning, match=r"rankreg\.positive_score"):
        old = rankreg.critical_score
    logits = torch.randn(4, 3)
    with pytest.warns(FutureWarning, match="critical is now positive"):
        assert torch.equal(old(logits, critical=1), rankreg.positive_score(logits, positive=1))


def test_critical_is_positive_for_the_error_at_a_tpr() -> None:
    labels, logits = [0, 1, 2] * 9, [[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]] * 9
    with pytest.warns(FutureWarning, match="critical is now positive"):
        assert error_at_tpr(labels, logits, 0.9, critical=2) == 0.0  # type: ignore[call-overload]
    with pytest.warns(FutureWarning, match="critical is now positive"):
        (found,) = error_at_tpr_intervals(labels, logits, [0.9], critical=2, draws=10)  # type: ignore[call-arg]
    assert found.estimate == 0.0


@pytest.mark.parametrize("name", ["digits", "digits-lt"])
def test_critical_is_positive_for_data_sets(name: str) -> None:
    with pytest.warns(FutureWarning, match="critical is now positive"):
        old = load(name, critical=3)
    np.testing.assert_array_equal(old["train"].ids, load(name, positive=3)["train"].ids)


def test_target_tpr_of_boosted_classifiers_is_now_tpr() -> None:
    with pytest.warns(FutureWarning, match="target_tpr is now tpr"):
        model = RankRegLGBMClassifier(target_tpr=0.9)  # type: ignore[call-arg]
    assert model.get_params()["tpr"] == 0.9
