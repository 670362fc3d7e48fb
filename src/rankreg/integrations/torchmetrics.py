"""FPR at a TPR as a torchmetrics metric."""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from rankreg._checks import at_least_float32, check_binary, one_against_rest
from rankreg.metrics import fpr_at_tpr
from rankreg.names import look_up, renamed

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ModuleNotFoundError as error:
    if error.name != "torchmetrics":
        raise
    raise ImportError("FPRAtTPR needs torchmetrics: pip install 'rankreg[lightning]'") from error


class FPRAtTPR(Metric):
    """The share of negatives that raise an alarm where the share `tpr` of the positives does.

        FPR = |{j ∈ N : s_j ≥ t}| / |N|,    t the k-th highest positive score, k = ⌈tpr · |P|⌉

    It is exact, over all samples of all processes, as `rankreg.metrics.fpr_at_tpr`. Scores s are raw
    and never squashed. They are kept in float32 unless `set_dtype(torch.float64)` was called.

    Args:
        tpr: the share of positives that must raise an alarm. Default 0.95.
        positive: the index of the positive (critical) class, for logits (N, K) and class labels.
            Default: scores are binary.
        undefined: what happens without positives or without negatives. "raise" is an error. "nan"
            suits single batches of a rare class and Lightning's sanity check.
        **settings: those of `torchmetrics.Metric`.

    Raises:
        ValueError: tpr is not in (0, 1], or `undefined` is unknown.

    Example:
        >>> import torch
        >>> from rankreg.integrations import FPRAtTPR
        >>> metric = FPRAtTPR(0.9)
        >>> metric.update(torch.tensor([0.1, 0.6, 0.5, 0.9]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    scores: list[Tensor]
    labels: list[Tensor]

    @renamed(critical="positive")
    def __init__(
        self,
        tpr: float = 0.95,
        *,
        positive: int | None = None,
        undefined: Literal["raise", "nan"] = "raise",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        if not (isinstance(tpr, (int, float)) and 0 < tpr <= 1):
            raise ValueError(f"tpr must lie in (0, 1], got {tpr!r}: write 0.95 for 95 %")
        self.raises = look_up({"raise": True, "nan": False}, undefined, "undefined")
        self.tpr, self.positive = tpr, positive
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        # Numbers, not flags: a process without samples sends an empty tensor of the metric's dtype.
        self.add_state("labels", default=[], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Take in a batch.

        Args:
            preds: raw scores (N,); with `positive`, logits (N, K).
            target: labels, 0 or 1; with `positive`, class indices.
        """
        preds, target = one_against_rest(preds, target, self.positive)
        check_binary(preds, target)
        dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.scores.append(preds.detach().to(dtype))
        self.labels.append(target.to(dtype))

    def compute(self) -> Tensor:
        """The FPR over everything since the last reset."""
        scores = at_least_float32(dim_zero_cat(self.scores)) if len(self.scores) else torch.empty(0)
        labels = dim_zero_cat(self.labels) if len(self.labels) else torch.empty(0)
        if not len(labels) or bool((labels == labels[0]).all()):
            if self.raises:
                raise ValueError(
                    f"undefined over {len(labels)} samples that are not of both classes: call `update` on batches"
                    " and `compute` once for all, or pass undefined='nan'"
                )
            return torch.tensor(math.nan, device=self.device)
        value = fpr_at_tpr(labels.cpu().numpy(), scores.cpu().numpy(), self.tpr)
        return torch.tensor(value, dtype=torch.float32, device=self.device)

    def extra_repr(self) -> str:
        positive = "" if self.positive is None else f", positive={self.positive}"
        return f"{self.tpr}{positive}"
