"""From a network and samples to scores."""

import numpy as np
import torch
from torch import nn

from rankreg.datasets.splits import Samples
from rankreg.distributed import World
from rankreg.metrics import column_hint
from rankreg.scores import Scores
from rankreg.train.batches import as_tensor
from rankreg.train.precision import autocast, resolve_precision

VALUES_AT_ONCE = 2**18  # of one batch: 85 CIFAR images, thousands of rows; more leave the cache, at half the speed
FEWEST_AT_ONCE = 8


def score(
    model: nn.Module,
    samples: Samples,
    *,
    batch_size: int | None = None,
    precision: str = "auto",
    device: torch.device | str = "cpu",
) -> Scores:
    """The network's float32 scores (N,) or logits (N, K) of all samples, in their order.

    batch_size: by default as large as is good for speed; memory does not grow with the number of samples.
    """
    place = torch.device(device)
    dtype = resolve_precision(precision, place)
    step = batch_size or max(FEWEST_AT_ONCE, VALUES_AT_ONCE // max(1, int(np.prod(samples.source.shape[1:]))))
    was_training = model.training
    model.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(samples), step):
            inputs = as_tensor(samples.inputs(slice(start, start + step))).to(place)
            with autocast(dtype, place):
                found.append(model(inputs).float().cpu().numpy())
    model.train(was_training)
    values = np.concatenate(found) if found else np.empty(0, np.float32)
    return Scores(samples.ids, samples.labels, values, samples.units)


def score_together(model: nn.Module, samples: Samples, *, precision: str, world: World) -> Scores:
    """Scores in every process, each having computed its share."""
    own = np.array_split(np.arange(len(samples)), world.size)[world.rank]
    parts = world.collect(score(model, samples.take(own), precision=precision, device=world.device).values)
    values = np.concatenate([part for part in parts if len(part)])
    return Scores(samples.ids, samples.labels, values, samples.units)


def check_model(model: nn.Module, samples: Samples, classes: int, device: torch.device) -> None:
    """The network takes such samples and returns (N,) scores, or (N, K) logits; said before training, not after."""
    probe = samples.take(np.arange(min(2, len(samples))))
    try:
        values = score(model, probe, precision="float32", device=device).values
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
