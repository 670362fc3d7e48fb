"""Old spellings keep working for one version, with a FutureWarning that names the new one."""

from typing import Any

import pytest
import torch

import rankreg
from rankreg import ALM, RankReg
from rankreg.boosting import RankRegLGBMClassifier
from rankreg.integrations import FPRAtTPR


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


def test_target_tpr_of_boosted_classifiers_is_now_tpr() -> None:
    with pytest.warns(FutureWarning, match="target_tpr is now tpr"):
        model = RankRegLGBMClassifier(target_tpr=0.9)  # type: ignore[call-arg]
    assert model.get_params()["tpr"] == 0.9
