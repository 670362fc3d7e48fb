"""A bundle on disk: model.safetensors, bundle.json, files of trees and a model card, there whole or not at all."""

import glob
import hashlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from rankreg.backbones import empty_backbone
from rankreg.bundle.card import (
    FORMAT_VERSIONS,
    BundleCard,
    LearnerCard,
    TableInputs,
    Weights,
    digest,
    first_fault,
    read_inputs,
)
from rankreg.bundle.ensemble import (
    LARGEST_TREES,
    Ensemble,
    FrozenBackbone,
    ImageViews,
    TableViews,
    empty_network,
    fill_network,
    first_lines,
    largest_ensemble,
    largest_file,
    pack,
    unpack,
    weights_below,
)
from rankreg.bundle.model_card import FILE as MODEL_CARD
from rankreg.bundle.model_card import model_card
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.models import ModelShape
from rankreg.notation import json_value
from rankreg.safe_files import read_json, read_within, write_json, write_whole
from rankreg.train import score

CARD = "bundle.json"
WEIGHTS = "model.safetensors"
ABANDONED = 3600  # seconds: nobody writes a bundle for so long
INNER = "bundle"  # the folder that `rankreg fit` puts it into
BACKBONE = "backbone."  # how names of its weights start
AGAIN = "get the bundle again"
UNFIT = f"do not fit the network that {CARD} describes"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model ready to score, and what is known about it.

    Args:
        model: a network in eval mode, or an ensemble.
        card: everything else: preprocessing, classes, threshold, training, metrics.
    """

    model: nn.Module | Ensemble
    card: BundleCard

    def score(self, inputs: NDArray[Any], *, device: str = "cpu") -> NDArray[np.float32]:
        """One raw score per sample, higher = more critical, always computed in float32.

        Args:
            inputs: prepared rows (N, F), or uint8 images (N, H, W, 3).
            device: where a single network computes; ensembles use the CPU.
        """
        if isinstance(self.model, nn.Module):
            return score(self.model, inputs, precision="float32", device=device)
        if self.card.preprocessing["kind"] == "image":
            return self.model.score(ImageViews(inputs, self.model.backbone))
        return self.model.score(TableViews(inputs, self._preparation))

    @cached_property
    def _preparation(self) -> TablePreprocessor:
        return TablePreprocessor.from_dict(self.card.preprocessing)


def save_bundle(folder: Path, network: nn.Module, **card: Any) -> Bundle:
    """Write a network and its card, and read them back.

    A bundle that is there already is replaced once the new one is whole.
    """
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    return _save(folder, weights, {}, card)


def save_ensemble(folder: Path, ensemble: Ensemble, learners: Sequence[LearnerCard], **card: Any) -> Bundle:
    """Write an ensemble and its card, and read them back; learners: the card of each."""
    arrays: dict[str, Tensor] = {}
    texts: dict[str, str] = {}
    for fitted in ensemble.learners:
        numbers, trees = pack(fitted)
        arrays |= numbers
        texts |= trees
    frozen = ensemble.backbone
    if frozen is not None:
        arrays |= {f"{BACKBONE}{name}": value.contiguous() for name, value in frozen.network.state_dict().items()}
        card |= {"backbone": frozen.shape}
    return _save(folder, arrays, texts, card | {"version": 2, "learners": tuple(learners)})


def _save(folder: Path, arrays: Mapping[str, Tensor], texts: Mapping[str, str], card: Mapping[str, Any]) -> Bundle:
    packed = save(dict(arrays))
    trees = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    sealed = {"trees": trees, "weights": Weights(sha256=hashlib.sha256(packed).hexdigest())}
    made = BundleCard(**{**card, **sealed})
    content = json_value(made.model_dump(mode="json"))
    content["sha256"] = digest(content)
    folder = folder.resolve()  # a link to a folder stays a link
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is there and is not a folder: choose another name for the bundle")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _unfinished_folder(folder) as unfinished:
            write_whole(unfinished / WEIGHTS, packed)
            for name, text in texts.items():
                write_whole(unfinished / name, text.encode())
            write_json(unfinished / CARD, content)
            write_whole(unfinished / MODEL_CARD, model_card(made).encode())
            saved = load_bundle(unfinished)
            _put_in_place(unfinished, folder)
    except OSError as error:
        kept = "the bundle that was there is untouched" if (folder / CARD).exists() else "nothing was left behind"
        raise OSError(
            error.errno, f"could not save the bundle {folder} ({error.strerror}); {kept}: make room and try again"
        ) from error
    return saved


@contextmanager
def _unfinished_folder(folder: Path) -> Iterator[Path]:
    """A folder beside it to write into, removed in the end unless it was renamed; what kills left goes first."""
    for left in folder.parent.glob(f".{glob.escape(folder.name)}-*.unfinished"):
        if left.stat().st_mtime < time.time() - ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    unfinished = folder.with_name(f".{folder.name}-{uuid4().hex}.unfinished")
    unfinished.mkdir()
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def load_bundle(folder: Path | str) -> Bundle:
    """Read a bundle; nothing in it is executed.

    Args:
        folder: the bundle, or the folder around it, which `rankreg fit --out` named.

    Returns:
        The network, ready to score, and its card.

    Raises:
        ValueError: if it is truncated, edited, foreign or of another version; says what is wrong.
        FileNotFoundError: if there is no such folder.

    >>> load_bundle("nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no bundle at nowhere: give the folder that `rankreg fit --out` wrote
    """
    home = _home(Path(folder))
    card = _read_card(home / CARD)
    for name in (WEIGHTS, *card.trees):
        if not (home / name).is_file():
            what = f"{home / name} is not a file" if (home / name).exists() else f"{home} has no {name}"
            raise ValueError(f"{what}: the bundle is not whole; copy all of its files, or {AGAIN}")
    try:
        model = _read_ensemble(home, card) if card.model is None else _read_network(home, card, card.model)
    except (SafetensorError, UnicodeDecodeError, RuntimeError) as error:
        why = first_lines(error)
        raise ValueError(f"{home}: the weights {UNFIT}, or are damaged: {why}; {AGAIN}") from error
    except ValueError as error:
        lacks_a_package = isinstance(error.__cause__, ModuleNotFoundError)  # then the bundle is whole
        advice = "" if lacks_a_package or AGAIN in str(error) else f"; {AGAIN}"
        where = "" if str(error).startswith(str(home)) else f"{home}: "
        raise ValueError(f"{where}{error}{advice}") from error
    return Bundle(model, card)


def _read_network(home: Path, card: BundleCard, shape: ModelShape) -> nn.Module:
    network = empty_network(shape)
    weights = load(_read_checked(home / WEIGHTS, card.weights.sha256, largest_file(network)))
    fill_network(network, weights)
    if card.preprocessing["kind"] == "image":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _read_ensemble(home: Path, card: BundleCard) -> Ensemble:
    inputs = read_inputs(card.preprocessing)
    features = inputs.features if isinstance(inputs, TableInputs) else None
    backbone, most = None, 0
    if card.backbone is not None:
        network = empty_backbone(card.backbone)
        features, most = network.width, largest_file(network)
        backbone = FrozenBackbone(network, card.backbone)
    most += largest_ensemble(card.learners, features)
    arrays = load(_read_checked(home / WEIGHTS, card.weights.sha256, most))
    texts = {
        name: _read_checked(home / name, sha256, LARGEST_TREES).decode("ascii")
        for name, sha256 in card.trees.items()
    }
    learners = [unpack(learner, features, arrays, texts) for learner in card.learners]
    if backbone is not None:
        fill_network(backbone.network, weights_below(BACKBONE, arrays))
    places = [f"{learner.name}.{fold}." for learner in card.learners for fold in range(learner.members)]
    known = (*places, BACKBONE) if backbone is not None else tuple(places)
    for name in arrays:
        if not name.startswith(known):
            raise ValueError(f"{WEIGHTS} holds {name!r:.40}, which belongs to no member")
    return Ensemble(learners, backbone)


def _read_checked(path: Path, sha256: str, most: int) -> bytes:
    """The file, unless it is larger than what the card describes, or another one."""
    try:
        content = read_within(path, most)
    except ValueError as error:
        raise ValueError(f"{error}: the weights {UNFIT}; {AGAIN}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is not the file that {CARD} describes (sha256 {found[:12]}… instead of {sha256[:12]}…): it is"
            f" truncated or was changed; {AGAIN}"
        )
    return content


def _home(folder: Path) -> Path:
    for place in (folder, folder / INNER):
        if (place / CARD).is_file():
            return place
    if not folder.is_dir():
        raise FileNotFoundError(f"no bundle at {folder}: give the folder that `rankreg fit --out` wrote")
    raise ValueError(f"{folder} is not a bundle: it has no {CARD}; if `rankreg fit` was stopped, run it again")


def _read_card(path: Path) -> BundleCard:
    content = read_json(path, f": {AGAIN}")
    try:
        found = digest(content) if isinstance(content, dict) else ""
    except UnicodeEncodeError as error:
        raise ValueError(f"{path} holds text that is none ({error.reason}): {AGAIN}") from error
    if not isinstance(content, dict) or content.get("format") != "rankreg-bundle":
        raise ValueError(f"{path} does not describe a rankreg bundle")
    if content.get("version") not in FORMAT_VERSIONS:
        known = " and ".join(map(str, FORMAT_VERSIONS))
        raise ValueError(
            f"{path} is of format version {content.get('version')!r}, this rankreg reads {known}:"
            " use the version of rankreg named in it"
        )
    if content.pop("sha256", None) != found:
        raise ValueError(f"{path} was changed after it was written (its sha256 does not match): {AGAIN}")
    try:
        return BundleCard.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{path} is damaged: {first_fault(error)}; {AGAIN}") from error


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename; an older bundle steps aside first, and comes back if the new one cannot take its place."""
    aside = folder.with_name(f".{folder.name}.before")
    if not folder.exists():
        new.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)  # a kill between two renames left it
        return
    if not (folder / CARD).exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there and is not a bundle: choose another folder")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
