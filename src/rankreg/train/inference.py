"""From a network and inputs to scores, in the number format that is fast and on any device."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankreg.datasets.splits import Samples
from rankreg.distributed import World
from rankreg.metrics import column_hint
from rankreg.scores import Scores

Values = NDArray[np.float32]

VALUES_AT_ONCE = 2**18  # of one batch: 85 CIFAR images, thousands of rows; more leave the cache, at half the speed
FEWEST_AT_ONCE = 8
FAST_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # the last one is Arm's name


def score(
    model: nn.Module,
    inputs: NDArray[Any],
    *,
    batch_size: int | None = None,
    precision: str = "auto",
    device: torch.device | str = "cpu",
) -> Values:
    """The network's raw scores of an array of inputs, without labels.

    The network is in evaluation mode meanwhile. Memory does not grow with the number of inputs.

    Args:
        model: a network that returns (N,) scores or (N, K) logits; it must be on `device`.
        inputs: uint8 images (N, H, W, 3) or float32 rows (N, F); may be a memory map.
        batch_size: how many to score at once. Default: as many as is fast.
        precision: "float32", "bfloat16", or "auto": bfloat16 where the hardware is fast in it.
        device: where to compute. Default the CPU.

    Returns:
        float32 scores (N,) or logits (N, K), in the order of the inputs.

    >>> model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    >>> score(model, np.zeros((5, 2), np.float32)).shape
    (5,)
    """
    if isinstance(inputs, Samples):
        warnings.warn("score(model, samples) is now score_samples(model, samples)", FutureWarning, stacklevel=2)
        return score_samples(model, inputs, batch_size=batch_size, precision=precision, device=device)
    return _scored(model, inputs.__getitem__, inputs.shape, batch_size, precision, torch.device(device))


def score_samples(
    model: nn.Module,
    samples: Samples,
    *,
    batch_size: int | None = None,
    precision: str = "auto",
    device: torch.device | str = "cpu",
) -> Scores:
    """As `score`, of one part of a data set: the scores with the samples' ids, labels and units.

    precision: "float32", "bfloat16", or "auto": bfloat16 where the hardware is fast in it.
    """
    shape = (len(samples), *samples.source.shape[1:])
    values = _scored(model, samples.inputs, shape, batch_size, precision, torch.device(device))
    return Scores(samples.ids, samples.labels, values, samples.units)


def _scored(
    model: nn.Module,
    read: Callable[[slice], NDArray[Any]],
    shape: tuple[int, ...],
    batch_size: int | None,
    precision: str,
    device: torch.device,
) -> Values:
    """Read, score and forget one batch after the other."""
    dtype = resolve_precision(precision, device)
    step = batch_size or max(FEWEST_AT_ONCE, VALUES_AT_ONCE // max(1, int(np.prod(shape[1:]))))
    was_training = model.training
    model.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, shape[0], step):
            inputs = as_tensor(read(slice(start, start + step))).to(device)
            with autocast(dtype, device):
                found.append(model(inputs).float().cpu().numpy())
    model.train(was_training)
    return np.concatenate(found) if found else np.empty(0, np.float32)


def as_tensor(inputs: NDArray[np.generic]) -> Tensor:
    """Images (N, H, W, C) become a channels-last view (N, C, H, W); rows stay as they are."""
    tensor = torch.from_numpy(np.ascontiguousarray(inputs))
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor


def score_together(model: nn.Module, samples: Samples, *, precision: str, world: World) -> Scores:
    """The scores of all samples in every process; each process computes its share."""
    own = samples.take(np.array_split(np.arange(len(samples)), world.size)[world.rank])
    parts = world.collect(score_samples(model, own, precision=precision, device=world.device).values)
    values = np.concatenate([part for part in parts if len(part)])
    return Scores(samples.ids, samples.labels, values, samples.units)


def check_model(model: nn.Module, samples: Samples, classes: int, device: torch.device) -> None:
    """Before training: the network takes such samples, and returns (N,) scores or (N, K) logits."""
    probe = samples.inputs(slice(0, 2))
    try:
        values = score(model, probe, precision="float32", device=device)
    except RuntimeError as error:
        kind = "uint8 images (N, 3, H, W), put Pixels() before it" if samples.source.ndim == 4 else "rows (N, F)"
        raise ValueError(f"the model cannot take the data, which are {kind}: {error}") from error
    wanted = (len(probe),) if classes == 2 else (len(probe), classes)
    if values.shape != wanted:
        hint = column_hint(values.shape, "scores", "squeeze(1)") if classes == 2 else ""
        raise ValueError(
            f"the model returned shape {values.shape} for {len(probe)} samples, needed is {wanted},"
            f" {'one raw score each' if classes == 2 else 'one logit per class'}{hint}"
        )


def resolve_precision(precision: str, device: torch.device) -> torch.dtype:
    """The format meant: "auto" is bfloat16 where the hardware multiplies in it, not where it is emulated."""
    if precision == "auto":
        fast = torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else _cpu_is_fast()
        return torch.bfloat16 if fast else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Networks inside run in that format; weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


@cache
def _cpu_is_fast() -> bool:
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # not Linux
        return False
    return not FAST_BFLOAT16.isdisjoint(words)
