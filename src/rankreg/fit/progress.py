"""What a fit that was stopped goes on from: every learner that was finished, as data."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from rankreg.bundle.card import LearnerCard, tree_file
from rankreg.bundle.ensemble import LARGEST_TREES, Member, learner_card, pack, unpack
from rankreg.fit.crossfit import OutOfFold
from rankreg.fit.learners import Folds, Learner, shape_of
from rankreg.fit.sources import OwnData, PreparedData
from rankreg.safe_files import read_json, read_within, write_whole
from rankreg.train.folder import write_json

NAME = "fit.json"


@dataclass(frozen=True, eq=False)
class FinishedLearners:
    """Learners that were cross-fitted on the same rows and folds; folder: theirs alone."""

    folder: Path
    features: int | None

    @classmethod
    def open(
        cls, home: Path, data: OwnData, prepared: PreparedData, rows: NDArray[np.int64], folds: Folds
    ) -> "FinishedLearners":
        """The folder for such a fit; the fit of other data is refused.

        Raises:
            ValueError: home holds the fit of other data.
        """
        of_data = _digest(np.ascontiguousarray(data.labels), np.asarray(data.ids.astype(str)))
        place = home / NAME
        if place.exists():
            before = read_json(place, ": remove the folder, or choose another --out")
            if not isinstance(before, dict) or before.get("data") != of_data:
                raise ValueError(
                    f"{home.parent} holds the fit of other data: choose another --out, or remove that folder"
                )
        home.mkdir(parents=True, exist_ok=True)
        write_json(place, {"data": of_data, "name": data.name})
        inputs = prepared.inputs
        this = _digest(np.ascontiguousarray(inputs), rows, folds.of_row, np.array([folds.seed, folds.count]))
        features = int(inputs.shape[1]) if prepared.preparation is not None else None
        if prepared.features is not None:
            features = int(prepared.features.shape[1])
        return cls(home / this[:16], features)

    def members(self, name: str, learner: Learner) -> list[Member] | None:
        """The members of a learner that was finished with the same settings; None if there are none."""
        place = self.folder / f"{name}.json"
        if not place.exists():
            return None
        try:
            content = read_json(place)
            card = LearnerCard.model_validate(content["card"])
            if card.settings != json.loads(json.dumps(dict(learner.settings))):
                return None
            arrays = load(read_within(self.folder / f"{name}.safetensors", LARGEST_TREES))
            texts = {}
            for fold in range(card.members if card.kind == "trees" else 0):
                file = tree_file(name, fold)
                texts[file] = read_within(self.folder / file, LARGEST_TREES).decode("ascii")
            return list(unpack(card, self.features, arrays, texts).members)
        except (ValueError, KeyError, TypeError, OSError, SafetensorError):
            return None  # whatever is wrong with it: train again

    def keep(self, name: str, learner: Learner, found: OutOfFold) -> OutOfFold:
        """Write a finished learner; one that was kept before has its time from then."""
        place = self.folder / f"{name}.json"
        if place.exists() and found.seconds < 1e-3:
            return replace(found, seconds=float(read_json(place).get("seconds", 0.0)))
        self.folder.mkdir(parents=True, exist_ok=True)
        fitted = found.fitted(np.ones(len(found.members)))
        arrays, texts = pack(fitted)
        write_whole(self.folder / f"{name}.safetensors", save(arrays))
        for file, text in texts.items():
            write_whole(self.folder / file, text.encode())
        card = learner_card(fitted, model=shape_of(fitted), settings=learner.settings)
        write_json(place, {"card": card.model_dump(mode="json"), "seconds": found.seconds})
        return found


def _digest(*arrays: NDArray[np.generic]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(str((array.dtype.str, array.shape)).encode())
        content.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return content.hexdigest()
