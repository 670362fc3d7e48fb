"""What a search may look at: training and validation samples, over several splits, and nothing else."""

import hashlib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rankreg.datasets import load
from rankreg.datasets.partitions import SHARES
from rankreg.datasets.splits import Splits
from rankreg.fit import Source, load_source
from rankreg.names import look_up
from rankreg.train.folder import fingerprint


class _Kind(NamedTuple):
    """Which option draws another split, and which sets the imbalance; the images' side, None for rows; classes."""

    another: str
    imbalance: str | None
    side: int | None
    classes: int = 2


NAMED: dict[str, _Kind] = {
    "digits": _Kind("seed", "ratio", None),
    "cifar10": _Kind("seed", "ratio", 32),
    "cifar100": _Kind("seed", "ratio", 32),
    "cifar10-lt": _Kind("seed", "imbalance", 32, classes=10),
    "ham10000": _Kind("seed", "ratio", 64),
    "elpv": _Kind("seed", "ratio", 96),
    "melanoma": _Kind("member", None, 256),
}


@dataclass(frozen=True)
class SourceData:
    """Your own table or folder of images."""

    source: Source
    cache: Path
    classes: ClassVar[int] = 2

    @property
    def side(self) -> int | None:
        """Of the images, in pixels; None for a table."""
        return self.source.side

    def seeded(self, seed: int) -> "SourceData":
        """The same data cut by that seed."""
        return replace(self, source=replace(self.source, seed=seed))

    def load(self, split: int) -> Splits:
        """All parts. Another split deals training and validation samples anew; calibration and test stay."""
        return load_source(replace(self.source, member=split), self.cache)

    def train_command(self, config: Path, out: Path, tpr: float) -> str:
        """The command that trains with a config, and tests on the part that the search left out."""
        source = self.source
        words = ["rankreg", "fit", str(source.path), "--config", str(config), "--out", str(out), "--tpr", repr(tpr)]
        words += [*source.command_line(), "--test", repr(SHARES["test"])]
        words += ["--learner", "network"] * source.is_images  # what was searched, alone
        share = None if source.calibration == Source.calibration else source.calibration
        for option, value in {"--groups": source.groups, "--size": source.size, "--calibration": share}.items():
            words += [] if value is None else [option, str(value)]
        return shlex.join(words)


@dataclass(frozen=True)
class NamedData:
    """A data set of `rankreg.datasets`.

    ratio: training negatives per positive; by default the data set's own.
    """

    name: str
    ratio: float | None = None
    seed: int = 0
    data_dir: Path | None = None

    @property
    def classes(self) -> int:
        """Two, or more."""
        return look_up(NAMED, self.name, "data set").classes

    @property
    def side(self) -> int | None:
        """Of the images, in pixels; None for rows."""
        return look_up(NAMED, self.name, "data set").side

    def seeded(self, seed: int) -> "NamedData":
        """The same data set cut by that seed."""
        return replace(self, seed=seed)

    def load(self, split: int) -> Splits:
        """All parts. Another split is another draw of the training samples."""
        another = look_up(NAMED, self.name, "data set").another
        options = self._options() | {another: (self.seed if another == "seed" else 0) + split}
        return load(self.name, **options, **({} if self.name == "digits" else {"data_dir": self.data_dir}))

    def train_command(self, config: Path, out: Path, tpr: float) -> str:
        """The Python call that trains with a config on the first split."""
        options = "".join(f", {key}={value:g}" for key, value in self._options().items())
        return f"train(load({self.name!r}{options}), TrainConfig.from_toml({str(config)!r}), {str(out)!r})"

    def _options(self) -> dict[str, float]:
        options: dict[str, float] = {"seed": self.seed}
        if self.ratio is not None:
            imbalance = NAMED[self.name].imbalance
            if imbalance is None:
                raise ValueError(f"{self.name} has a ratio of its own: leave --ratio out")
            options[imbalance] = self.ratio
        return options


Data = SourceData | NamedData


def tune_data(
    data: Path | str, out: Path, *, ratio: float | None = None, data_dir: Path | None = None, **options: Any
) -> Data:
    """Name the data of a search.

    Args:
        data: a table, a folder of images, or the name of a data set such as "digits".
        out: folder of the search; decoded images go there.
        ratio: for data sets known by name: training negatives per positive.
        data_dir: for data sets known by name: the data folder.
        options: for your own data: `target`, `positive` and the other options of `rankreg fit`.

    Returns:
        `SourceData` for a path that exists, else `NamedData`.

    Raises:
        ValueError: an option is for the other kind of data.
        FileNotFoundError: there is neither such a file nor such a data set.

    >>> tune_data("digits", Path("search"), ratio=50).ratio
    50
    """
    path = Path(data)
    if path.exists():
        if ratio is not None or data_dir is not None:
            raise ValueError(f"--ratio and --data-dir are for data sets known by name, {path} is your own")
        return SourceData(Source(path=path, **options), out / "decoded")
    if str(path) not in NAMED:
        raise FileNotFoundError(f"no file or folder {path}, nor a data set of that name: {', '.join(NAMED)}")
    given = sorted(key for key, value in options.items() if value != getattr(Source, key, None))
    if given:
        raise ValueError(f"the data set {path} is cut already: {', '.join(given)} is for data of your own")
    return NamedData(str(path), ratio=ratio, data_dir=data_dir)


def judged_parts(splits: Splits) -> Splits:
    """The training part and the one that judges: validation, with the tuning part where a data set has one."""
    judges = [name for name in ("validation", "tuning") if name in splits.parts]
    if "validation" not in judges:
        raise ValueError(f"{splits.name} has no validation part: it has {', '.join(splits.parts)}")
    return replace(splits, parts={"train": splits["train"], "validation": splits.join(*judges)})


def load_parts(data: Data, splits: int) -> list[Splits]:
    """What may be looked at, of every split."""
    return [judged_parts(data.load(split)) for split in range(splits)]


def identity(data: Data, parts: list[Splits]) -> dict[str, Any]:
    """What tells these samples from others.

    A table's inputs depend on how a machine rounds means, so there the file is hashed: other machines may help.
    """
    found: dict[str, Any] = {"splits": [fingerprint(split) for split in parts]}
    if isinstance(data, SourceData) and not data.source.is_images:
        for split in found["splits"]:
            del split["inputs"], split["preprocessing"]
        with data.source.path.open("rb") as file:
            found["file"] = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return found
