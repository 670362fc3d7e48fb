"""A bundle on disk: model.safetensors, bundle.json, files of trees and a model card, there whole or not at all."""

import glob
import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from rankreg.backbones import TimmShape, empty_backbone
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
from rankreg.bundle.ensemble import Ensemble, FrozenBackbone, ImageViews, TableViews
from rankreg.bundle.ensemble_files import LARGEST_TREES, check_types, largest_size, pack, tree_file, unpack
from rankreg.bundle.model_card import FILE as MODEL_CARD
from rankreg.bundle.model_card import model_card
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.models import Backbone, BackboneShape, build_model
from rankreg.notation import json_value
from rankreg.safe_files import read_json, read_within, write_whole
from rankreg.train import score

CARD = "bundle.json"
WEIGHTS = "model.safetensors"
ABANDONED = 3600  # seconds: nobody writes a bundle for so long
LARGEST_NUMBER, LARGEST_NAME = 8, 1000  # bytes of one weight, and of the name and shape of an array of them
INNER = "bundle"  # the folder that `rankreg fit` puts it into
BACKBONE = "backbone."  # how names of its weights start


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
            write_whole(unfinished / CARD, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
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
    if not (home / WEIGHTS).is_file():
        what = f"{home / WEIGHTS} is not a file" if (home / WEIGHTS).exists() else f"{home} has no {WEIGHTS}"
        raise ValueError(f"{what}: the bundle is not whole; copy all of its files")
    if card.model is None:
        return _load_ensemble(home, card)
    try:
        with torch.device("meta"):  # no memory for a network that the weights do not fill
            model = build_model(card.model)
    except ValueError as error:
        raise ValueError(f"{home}: {error}") from error
    values = model.state_dict()
    most = sum(LARGEST_NUMBER * value.numel() + LARGEST_NAME for value in values.values())
    packed = _read_checked(home / WEIGHTS, card.weights.sha256, most)
    try:
        weights: Mapping[str, Tensor] = load(packed)
        check_types(weights, model)
        model.load_state_dict(weights, assign=True)
    except (SafetensorError, RuntimeError, ValueError) as error:
        why = shorten(" ".join(str(error).split("\n")[:2]), 300)  # torch lists every weight there is
        raise ValueError(f"{home}: the weights do not fit the network that {CARD} describes: {why}") from error
    bad = [name for name, value in weights.items() if not bool(value.isfinite().all())]
    if bad:
        raise ValueError(f"{home}: the weights {bad[0]} are not finite; the bundle cannot be used")
    if card.preprocessing["kind"] == "image":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Bundle(model.eval(), card)


def _load_ensemble(home: Path, card: BundleCard) -> Bundle:
    inputs = read_inputs(card.preprocessing)
    features = inputs.features if isinstance(inputs, TableInputs) else None
    try:
        frozen = None if card.backbone is None else empty_backbone(card.backbone)
        most = largest_size(card.learners, features or (frozen.width if frozen is not None else None))
        if frozen is not None:
            most += sum(LARGEST_NUMBER * value.numel() + LARGEST_NAME for value in frozen.state_dict().values())
    except ValueError as error:
        raise ValueError(f"{home}: {error}") from error
    packed = _read_checked(home / WEIGHTS, card.weights.sha256, most)
    expected = {
        tree_file(learner.name, fold)
        for learner in card.learners
        if learner.kind == "trees"
        for fold in range(learner.members)
    }
    if expected != card.trees.keys():
        raise ValueError(f"{home / CARD} does not list the files of its trees; get the bundle again")
    try:
        arrays = load(packed)
        texts = {}
        for name, sha256 in card.trees.items():
            if not (home / name).is_file():
                raise ValueError(
                    f"it has no {name}: it is not whole; copy all of its files, or get the bundle again"
                )
            texts[name] = _read_checked(home / name, sha256, LARGEST_TREES).decode("ascii")
        width = features if frozen is None else frozen.width
        learners = [unpack(learner, width, arrays, texts) for learner in card.learners]
        backbone = None if card.backbone is None or frozen is None else _frozen(frozen, card.backbone, arrays)
        places = [f"{learner.name}.{fold}." for learner in card.learners for fold in range(learner.members)]
        known = (*places, *([BACKBONE] if card.backbone is not None else []))
        extra = [name for name in arrays if not name.startswith(known)]
        if extra:
            raise ValueError(f"{WEIGHTS} holds {extra[0]!r:.40}, which belongs to no member")
    except (SafetensorError, UnicodeDecodeError, RuntimeError) as error:
        raise ValueError(
            f"{home}: the files are damaged: {shorten(str(error), 300)}; get the bundle again"
        ) from error
    except ValueError as error:
        advice = "" if "get the bundle again" in str(error) else "; get the bundle again"
        raise ValueError(f"{home}: {error}{advice}") from error
    return Bundle(Ensemble(learners, backbone), card)


def _frozen(network: Backbone, shape: BackboneShape | TimmShape, arrays: Mapping[str, Tensor]) -> FrozenBackbone:
    start = BACKBONE
    state = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
    check_types(state, network)
    network.load_state_dict(state, assign=True)
    if not all(bool(value.isfinite().all()) for value in state.values()):
        raise ValueError("the weights of the backbone are not finite")
    return FrozenBackbone(network.eval(), shape)


def _read_checked(path: Path, sha256: str, most: int) -> bytes:
    """The file, unless it is larger than what the card describes, or another one."""
    try:
        content = read_within(path, most)
    except ValueError as error:
        raise ValueError(
            f"{error}: the weights do not fit the network that {CARD} describes; get the bundle again"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is not the file that {CARD} describes (sha256 {found[:12]}… instead of {sha256[:12]}…): it is"
            " truncated or was changed; get the bundle again"
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
    again = "get the bundle again"
    content = read_json(path, f": {again}")
    try:
        found = digest(content) if isinstance(content, dict) else ""
    except UnicodeEncodeError as error:
        raise ValueError(f"{path} holds text that is none ({error.reason}): {again}") from error
    if not isinstance(content, dict) or content.get("format") != "rankreg-bundle":
        raise ValueError(f"{path} does not describe a rankreg bundle")
    if content.get("version") not in FORMAT_VERSIONS:
        known = " and ".join(map(str, FORMAT_VERSIONS))
        raise ValueError(
            f"{path} is of format version {content.get('version')!r}, this rankreg reads {known}:"
            " use the version of rankreg named in it"
        )
    if content.pop("sha256", None) != found:
        raise ValueError(f"{path} was changed after it was written (its sha256 does not match): {again}")
    try:
        return BundleCard.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{path} is damaged: {first_fault(error)}; {again}") from error


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
