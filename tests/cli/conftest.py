"""A table of scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Two thousand samples, in scores.csv under odd column names."""
    generator = np.random.default_rng(23)
    labels = np.repeat([1, 0], [400, 1600])
    frame = pd.DataFrame(
        {
            "sample no": [f"{row:05d}" for row in range(2000)],
            "truth": labels,
            "model output": generator.standard_normal(2000) + 2 * labels,
            "answer": np.where(labels == 1, "yes", "no"),
            "class": 1 + labels,
            "sex": np.where(np.arange(2000) % 2, "f", "m"),
            "when": np.arange(2000)[::-1],
            "unread": "x",
        }
    ).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "scores.csv", index=False)
    return frame
