"""A bundle's scores of chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rankreg.datasets.splits import Samples
from rankreg.predict.reading import Chunk
from rankreg.train import score

Values = NDArray[np.float32]
NOT_FINITE = "the model's score is not a finite number"


def scored(model: nn.Module, chunks: Iterable[Chunk], device: str = "auto") -> Iterator[tuple[Chunk, Values]]:
    """Each chunk with one float32 score per sample; NaN, and a problem, where there is no finite one.

    Always in float32, like the scores that the threshold was chosen on.
    """
    place = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    model.to(place)
    for chunk in chunks:
        good = np.asarray([not problem for problem in chunk.problems])
        values = np.full(len(chunk.ids), np.nan, dtype=np.float32)
        if good.any():
            rows = np.arange(len(chunk.inputs))
            samples = Samples(chunk.inputs, rows, np.zeros_like(rows), rows)
            values[good] = score(model, samples, precision="float32", device=place).values
        if not np.isfinite(values[good]).all():
            lost = good & ~np.isfinite(values)
            values[lost] = np.nan
            problems = [NOT_FINITE if bad else said for bad, said in zip(lost, chunk.problems, strict=True)]
            chunk = replace(chunk, inputs=chunk.inputs[~lost[good]], problems=problems)
        yield chunk, values
