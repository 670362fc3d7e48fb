"""Bad files for every reader: `python -m tests.files.fuzz_readers SEED CASES` prints what went wrong, as JSON.

Small valid files are damaged in every way that a cut download, a slip or a stranger might. A reader may accept one
or raise a ValueError or an OSError with a message. Anything else is a fault: another exception, a wait without an
end, memory out of proportion, a pickle that is executed.
"""

import gzip
import io
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image

from rankreg import score_files
from rankreg.bundle import load_bundle
from rankreg.bundle.card import TableInputs, digest, read_inputs
from rankreg.bundle.prediction import read_chunks
from rankreg.bundle.storage import save_bundle
from rankreg.datasets import load
from rankreg.datasets.cifar import read_cifar
from rankreg.datasets.image_sets import _read_labels, _read_npz, _read_official
from rankreg.datasets.images import read_image
from rankreg.estimators import RankRegClassifier
from rankreg.labels import LabelRule
from rankreg.models import build_model
from rankreg.operating import certify
from rankreg.report.model_files import images_in, rows_of
from rankreg.score_files import column_names, saved_point
from rankreg.scores import Scores
from rankreg.train import TrainConfig
from rankreg.train.folder import read_state, write_state
from rankreg_bench.grids import plans_of
from rankreg_bench.records import RecordFolder, plan_of
from tests.bench import handmade
from tests.bundle.ensembles import table_ensemble
from tests.bundle.test_storage import contents
from tests.datasets.test_cifar import archive_of, small_files
from tests.estimators.rare_data import cancer
from tests.files.fuzz_damage import (
    broken,
    broken_json,
    broken_pickle,
    broken_text,
    broken_toml,
    broken_trees,
    gzipped,
    odd_parquet,
    packed,
    repacked_arrays,
    resealed,
    tarred,
    unpack_tar,
    unpack_zip,
    zipped,
)
from tests.own_data import write_table

SECONDS = 30  # for one file, on a busy machine
ADDRESSES = 4_000_000_000  # bytes beyond what is in use at the start, so that the machine survives a fault
MEMORY = 1_500_000_000  # bytes beyond the start that may be used: Pillow decodes up to 179 million pixels


class HangError(BaseException):
    """A reader did not come to an end."""


@dataclass(frozen=True)
class Reader:
    """A folder with a valid file in it, how to damage the file, and who reads it."""

    home: Path
    file: str
    read: Callable[[Path], object]
    damage: Callable[[bytes, random.Random], bytes]


def resealed_bundle(home: Path) -> Callable[[Path], object]:
    """Reads a bundle whose files were changed by someone who wrote their checksums into the card, and uses it."""

    def read(folder: Path) -> object:
        import hashlib

        card = json.loads((home / "bundle.json").read_text())
        card["weights"]["sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        card["trees"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in card["trees"]}
        card["sha256"] = digest(card)
        (folder / "bundle.json").write_text(json.dumps(card))
        return scored_zeros(folder)

    return read


def scored_zeros(folder: Path) -> object:
    """What a bundle of a table says about rows of zeros."""
    bundle = load_bundle(folder)
    inputs = read_inputs(bundle.card.preprocessing)
    assert isinstance(inputs, TableInputs)
    return bundle.score(np.zeros((2, inputs.features), np.float32))


def readers(home: Path) -> dict[str, Reader]:
    """All of them, each with a folder of its own."""
    rng = np.random.default_rng(0)
    found: dict[str, Reader] = {}

    def add(
        name: str, file: str, content: bytes, read: Callable[[Path], object], damage: Callable[..., bytes] = broken
    ) -> None:
        folder = home / name
        folder.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
        found[name] = Reader(folder, file, read, damage)

    # Scores
    labels = np.arange(80) % 4 == 0
    scores = pd.DataFrame(
        {
            "id": [f"s{k}" for k in range(80)],
            "y": labels.astype(int),
            "s": rng.normal(size=80) + 2 * labels,
            "g": np.where(np.arange(80) % 2, "a", "b"),
            "t": pd.date_range("2025-01-01", periods=80).astype(str),
        }
    )
    text = scores.to_csv(index=False).encode()
    sink = io.BytesIO()
    scores.to_parquet(sink)

    def read_scores(name: str) -> Callable[[Path], object]:
        def read(folder: Path) -> object:
            path = folder / name
            rows = score_files.read_scores(path, score_files.ScoreColumns("s", "y", id="id", group="g", time="t"))
            certify(rows.labelled(), rows.scores, tpr=0.7, confidence=0.8)
            return column_names(path), rows_of(path, [3, 1], ["g", "t"])

        return read

    add("scores", "a.csv", text, read_scores("a.csv"), broken_text)
    add("scores-gz", "a.csv.gz", gzipped(text), read_scores("a.csv.gz"), packed(gzipped, gzip.decompress))
    add("scores-zip", "a.csv.zip", zipped(text), read_scores("a.csv.zip"), packed(zipped, unpack_zip))
    add("scores-tar", "a.csv.tar.gz", tarred(text), read_scores("a.csv.tar.gz"), packed(tarred, unpack_tar))
    for ending, module in (("xz", "lzma"), ("bz2", "bz2")):
        pack, unpack = (getattr(__import__(module), name) for name in ("compress", "decompress"))
        add(f"scores-{ending}", f"a.csv.{ending}", pack(text), read_scores(f"a.csv.{ending}"), packed(pack, unpack))
    add("scores-parquet", "a.parquet", sink.getvalue(), read_scores("a.parquet"), odd_parquet)
    sample = io.BytesIO()
    np.savez_compressed(sample, ids=np.arange(9), labels=np.arange(9) % 2, values=rng.normal(size=9))
    add("scores-npz", "a.npz", sample.getvalue(), lambda folder: Scores.load(folder / "a.npz"), repacked_arrays)
    add("pictures", "names.csv", b"\n".join([b"a.png"] * 20), read_pictures, broken_text)

    # Tables
    table = write_table(home / "table.csv", rows=200, positives=60).read_bytes()
    frame = pd.read_csv(io.BytesIO(table))
    sink = io.BytesIO()
    frame.to_parquet(sink)
    columns = {"target": "sick", "id_column": "name"}
    parts = load("table", home / "table.csv", **columns)
    shape = contents()["model"].model_copy(update={"features": parts["train"].source.shape[1]})
    card = save_bundle(
        home / "own",
        build_model(shape),
        **contents(model=shape, preprocessing=dict(parts.preprocessing), classes=parts.classes),
    ).card

    def read_rows(name: str) -> Callable[[Path], object]:
        def read(folder: Path) -> object:
            faults = []
            for attempt in (
                lambda: load("table", folder / name, **columns),
                lambda: list(read_chunks(folder / name, card)),
                lambda: list(read_chunks(folder / name, card, labels=LabelRule("1"))),
            ):
                try:
                    attempt()
                except (ValueError, OSError) as error:
                    faults.append(error)
            if faults:
                raise faults[0]
            return None

        return read

    add("table", "a.csv", table, read_rows("a.csv"), broken_text)
    add("table-gz", "a.csv.gz", gzipped(table), read_rows("a.csv.gz"), packed(gzipped, gzip.decompress))
    add("table-parquet", "a.parquet", sink.getvalue(), read_rows("a.parquet"), odd_parquet)

    # Images
    pixels = rng.integers(0, 256, (24, 20, 3), dtype=np.uint8)
    wide: tuple[NDArray[Any], ...] = (
        pixels[..., 0].astype(np.uint16) * 257,
        pixels[..., 0].astype(np.int32),
        pixels[..., 0] / np.float32(255),
    )
    pictures = {
        f"image-{kind}": (kind, Image.fromarray(pixels)) for kind in ("png", "jpeg", "gif", "bmp", "webp", "tiff")
    }
    pictures |= {f"image-tiff-{k}": ("tiff", Image.fromarray(array)) for k, array in enumerate(wide)}
    for name, (kind, image) in pictures.items():
        sink = io.BytesIO()
        image.save(sink, kind)
        add(name, "a.image", sink.getvalue(), lambda folder: read_image(folder / "a.image", (16, 16)))

    # JSON and TOML
    point = {"threshold": 0.5, "tpr": 0.9, "confidence": 0.95, "positives": 20, "fpr": {"low": 0.1}}
    add(
        "point",
        "a.json",
        json.dumps(point).encode(),
        lambda folder: saved_point(folder / "a.json"),
        broken_json,
    )
    toml = b'seed = 3\nlearning_rate = 0.01\n[method]\nname = "rankreg"\n[model]\nname = "mlp"\nhidden = [8, 8]\n'
    add("config", "a.toml", toml, lambda folder: TrainConfig.from_toml(folder / "a.toml"), broken_toml)

    # Bundles
    torch.manual_seed(0)
    for name, file, damage in (("card", "bundle.json", resealed), ("weights", "model.safetensors", broken)):
        save_bundle(home / name, build_model(contents()["model"]), **contents())
        read = load_bundle if name == "card" else resealed_bundle(home / "card")
        found[name] = Reader(home / name, file, read, damage)
    whole = home / "ensemble-card"
    table_ensemble(whole)
    found["ensemble-card"] = Reader(whole, "bundle.json", scored_zeros, resealed)
    files = (("weights", "model.safetensors", broken), ("trees", "trees-boosting-1.txt", broken_trees))
    for name, file, damage in files:
        shutil.copytree(whole, home / f"ensemble-{name}")
        found[f"ensemble-{name}"] = Reader(home / f"ensemble-{name}", file, resealed_bundle(whole), damage)
    samples, answers = cancer()
    model = RankRegClassifier(tpr=0.8, epochs=1, network__hidden=(4,), random_state=0).fit(samples, answers)
    model.save(home / "classifier")

    def read_classifier(folder: Path) -> object:
        return RankRegClassifier.load(folder).predict(samples[:3])

    found["classifier"] = Reader(home / "classifier", "bundle.json", read_classifier, resealed)
    (home / "checkpoint").mkdir()
    write_state(home / "checkpoint" / "a.pt", {"epoch": 3, "weights": {"a": torch.zeros(3)}})
    marker = home / "executed"
    found["checkpoint"] = Reader(
        home / "checkpoint", "a.pt", lambda folder: read_state(folder / "a.pt"), broken_pickle(marker)
    )

    # CIFAR, HAM10000 and the bench's records
    cifar = small_files(home / "cifar" / "cifar-10-batches-py", per_class=5)
    for name, file in (("cifar", "data_batch_2"), ("cifar-names", "batches.meta")):
        inner = f"cifar-10-batches-py/{file}"
        found[name] = Reader(
            home / "cifar", inner, lambda folder: read_cifar("cifar10", folder), broken_pickle(marker)
        )
    (home / "cifar-archive").mkdir()
    archive_of(cifar, home / "cifar-archive" / "cifar-10-python.tar.gz")
    found["cifar-archive"] = Reader(
        home / "cifar-archive", "cifar-10-python.tar.gz", lambda folder: read_cifar("cifar10", folder), broken
    )
    lesions = b"image_id,lesion_id,dx\n" + b"".join(b"i%d,l%d,mel\n" % (k, k // 2) for k in range(30))
    add("ham10000", "a.csv", lesions, lambda folder: _read_official(folder / "a.csv"), broken_text)
    sink = io.BytesIO()
    names: dict[str, Any] = {key: np.array(["a", "b", "c"]) for key in ("image_id", "lesion_id", "dx")}
    np.savez(sink, jpeg=np.arange(30, dtype=np.uint8), offsets=np.array([0, 10, 20, 30]), **names)
    add("ham10000-npz", "a.npz", sink.getvalue(), lambda folder: _read_npz(folder / "a.npz"), repacked_arrays)
    cells = b"".join(b"images/cell%04d.png  %s  mono\n" % (k, (b"0.0", b"1.0")[k % 2]) for k in range(30))
    add("elpv", "labels.csv", cells, lambda folder: _read_labels(folder / "labels.csv"), broken_text)
    (plan, *_) = plans_of("cifar10-100", "compact", splits=1)
    handmade.write(home / "record", plan, **asdict(plan))

    def read_record(folder: Path) -> object:
        record = RecordFolder.read_file(folder / f"{plan.name}.json")
        return plan_of(record), RecordFolder(folder).by_part(plan)

    found["record"] = Reader(home / "record", f"{plan.name}.json", read_record, broken_json)
    found["record-npz"] = Reader(home / "record", f"{plan.name}.npz", read_record, repacked_arrays)
    return found


def read_pictures(folder: Path) -> object:
    """Looks for pictures under the names in a file, as a report does."""
    names = (folder / "names.csv").read_bytes().decode(errors="surrogateescape").split("\n")
    return [images_in(folder, names.__getitem__)(k) for k in range(len(names))]


def fault_of(reader: Reader, folder: Path) -> str | None:
    """What is wrong with how the reader took the file: nothing if it read it; "" if it refused it as it should."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(folder)
    except (ValueError, OSError) as error:
        return "" if str(error) else f"{type(error).__name__} without a message"
    except (Exception, HangError, RecursionError):
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def main(seed: int, cases: int) -> None:
    """Damage and read, and print what was found."""
    signal.signal(signal.SIGALRM, _hang)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    outcome: Counter[str] = Counter()
    faults: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        every = readers(Path(place))
        for name, reader in every.items():
            problem = fault_of(reader, reader.home)
            if problem is not None and not name.startswith("image-tiff"):
                faults.append({"reader": name, "case": "the valid file", "fault": problem})
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        most = start
        for case in range(cases):
            name = list(every)[case % len(every)]
            reader, rng = every[name], random.Random(f"{seed} {case}")
            folder = Path(place) / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(reader.home, folder)
            path = folder / reader.file
            path.write_bytes(reader.damage(path.read_bytes(), rng))
            problem = fault_of(reader, folder)
            outcome["read" if problem is None else "refused" if not problem else "fault"] += 1
            if problem:
                faults.append({"reader": name, "case": case, "fault": problem})
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if used > start + MEMORY:
                faults.append({"reader": name, "case": case, "fault": f"{(used - start) / 1e6:.0f} MB"})
            most = max(most, used)
        executed = (Path(place) / "executed").exists()
    found = {"cases": cases, "readers": len(every), **outcome, "executed": executed, "memory": most - start}
    print(json.dumps(found | {"faults": faults}))


def _hang(*ignored: object) -> None:
    raise HangError


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
