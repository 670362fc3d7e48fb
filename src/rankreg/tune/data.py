"""What a search may look at: training and validation samples, over several splits, and nothing else."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rankreg._names import look_up
from rankreg.datasets import load
from rankreg.datasets.splits import Splits
from rankreg.fit import Source, load_source
from rankreg.train.folder import fingerprint


class _Kind(NamedTuple):
    """How another split of a data set is asked for, and its imbalance; its images' side, None for rows."""

    another: str
    imbalance: str | None
    side: int | None


NAMED: dict[str, _Kind] = {
    "digits": _Kind("seed", "ratio", None),
    "cifar10": _Kind("seed", "ratio", 32),
    "cifar100": _Kind("seed", "ratio", 32),
    "cifar10-lt": _Kind("seed", "imbalance", 32),
    "ham10000": _Kind("seed", "ratio", 64),
    "melanoma": _Kind("member", None, 256),
}


@dataclass(frozen=True)
class Own:
    """One's own table or folder of images, named as for `rankreg fit`; decoded images are kept in `cache`."""

    source: Source
    cache: Path

    @property
    def side(self) -> int | None:
        """Of the images, in pixels; None for a table."""
        return self.source.side

    def seeded(self, seed: int) -> "Own":
        """The same data cut by that seed."""
        return replace(self, source=replace(self.source, seed=seed))

    def load(self, split: int) -> Splits:
        """All parts; another split deals training and validation samples anew, calibration and test stay."""
        return load_source(replace(self.source, member=split), self.cache)


@dataclass(frozen=True)
class Named:
    """A data set of `rankreg.datasets`; another split is another draw of its training samples."""

    name: str
    ratio: float | None = None
    seed: int = 0
    data_dir: Path | None = None

    @property
    def side(self) -> int | None:
        """Of the images, in pixels; None for rows."""
        return look_up(NAMED, self.name, "data set").side

    def seeded(self, seed: int) -> "Named":
        """The same data set cut by that seed."""
        return replace(self, seed=seed)

    def load(self, split: int) -> Splits:
        """All parts of that split."""
        another, imbalance, _ = look_up(NAMED, self.name, "data set")
        options: dict[str, Any] = {another: (self.seed if another == "seed" else 0) + split}
        if another != "seed":
            options["seed"] = self.seed
        if self.ratio is not None:
            if imbalance is None:
                raise ValueError(f"{self.name} has a ratio of its own: leave --ratio out")
            options[imbalance] = self.ratio
        if self.name != "digits":
            options["data_dir"] = self.data_dir
        return load(self.name, **options)


Data = Own | Named


def name_data(path: Path, out: Path, *, ratio: float | None, data_dir: Path | None, **options: Any) -> Data:
    """A path that exists is one's own data, any other word a data set's name; `options` are those of `Source`."""
    if path.exists():
        if ratio is not None or data_dir is not None:
            raise ValueError(f"--ratio and --data-dir are for data sets known by name, {path} is your own")
        return Own(Source(path, **options), out / "decoded")
    if str(path) not in NAMED:
        raise FileNotFoundError(f"no file or folder {path}, nor a data set of that name: {', '.join(NAMED)}")
    given = sorted(key for key, value in options.items() if value != getattr(Source, key, None))
    if given:
        raise ValueError(f"the data set {path} is cut already: {', '.join(given)} is for data of your own")
    return Named(str(path), ratio=ratio, data_dir=data_dir)


def judged_parts(splits: Splits) -> Splits:
    """The training part and the one that judges: validation, with the tuning part where a data set has one."""
    judges = [name for name in ("validation", "tuning") if name in splits.parts]
    if "validation" not in judges:
        raise ValueError(f"{splits.name} has no validation part: it has {', '.join(splits.parts)}")
    parts = {"train": splits["train"], "validation": splits.join(*judges)}
    return replace(splits, parts=parts)


def load_parts(data: Data, splits: int) -> list[Splits]:
    """What may be looked at, of every split."""
    return [judged_parts(data.load(split)) for split in range(splits)]


def identity(data: Data, parts: list[Splits]) -> dict[str, Any]:
    """What tells these samples from others.

    A table's inputs depend on how a machine rounds means, so there the file is hashed: other machines may help.
    """
    found: dict[str, Any] = {"splits": [fingerprint(split) for split in parts]}
    if isinstance(data, Own) and not data.source.is_images:
        for split in found["splits"]:
            del split["inputs"], split["preprocessing"]
        with data.source.path.open("rb") as file:
            found["file"] = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return found
