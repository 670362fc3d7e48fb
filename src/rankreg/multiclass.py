"""From many classes to one question: how critical is this sample?"""

import torch
from torch import Tensor

from rankreg._checks import at_least_float32


def critical_score(logits: Tensor, critical: int) -> Tensor:
    """One score per sample: the log-odds of the critical class against all others.

        s = z_c − log Σ_{k≠c} exp(z_k),    so that sigmoid(s) = softmax(z)_c

    z: logits (N, K); c: critical, a class index. Half precision is upcast to float32.
    """
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ValueError(f"expected logits (N, K) with at least two classes, got shape {tuple(logits.shape)}")
    if not 0 <= critical < logits.shape[1]:
        raise ValueError(f"critical must be a class index in 0 … {logits.shape[1] - 1}, got {critical}")
    logits = at_least_float32(logits)
    others = torch.cat([logits[:, :critical], logits[:, critical + 1 :]], dim=1)
    return logits[:, critical] - others.logsumexp(dim=1)
