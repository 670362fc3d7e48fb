"""Files from strangers: memory before trust, regular files only, and sentences in place of tracebacks."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import signal
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from rankreg.bundle import load_bundle, predict
from rankreg.bundle.storage import save_bundle
from rankreg.datasets import cifar, load
from rankreg.datasets.cifar import read_cifar, read_pickle
from rankreg.datasets.images import image_folder, read_image
from rankreg.models import MLPShape, ResNetShape, build_model
from rankreg.safe_files import check_regular, read_arrays, read_json
from rankreg.score_files import ScoreColumns, read_scores, saved_point
from rankreg.table_files import read_table
from rankreg.train import TrainConfig
from tests.bundle.test_storage import contents
from tests.conftest import Run
from tests.datasets.test_cifar import python2_pickle, small_files

CERTIFY = ("--label", "y", "--score", "s", "--tpr", "0.9")
TEXT = ("y,s\n" + "".join(f"{k % 2},{k % 2 + k / 1000}\n" for k in range(400))).encode()


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """The most bytes that Python's allocators held since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def tarred(content: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        member = tarfile.TarInfo("scores.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def zipped(content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scores.csv", content)
    return sink.getvalue()


PACKED = {
    "gz": gzip.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "bz2": bz2.compress(TEXT),
    "zip": zipped(TEXT),
    "tar": tarred(TEXT),
    "tar.gz": gzip.compress(tarred(TEXT)),
    "zst": b"(\xb5/\xfd" + TEXT,
}


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("command", ["certify", "report"])
def test_a_cut_archive_of_scores_is_a_sentence(run: Run, ending: str, command: str) -> None:
    Path(f"scores.csv.{ending}").write_bytes(PACKED[ending][: len(PACKED[ending]) // 8])
    more = () if command == "certify" else ("--out", "report.html")
    status, out, error = run(command, f"scores.csv.{ending}", *CERTIFY, *more)
    assert (status, out) == (2, "")
    assert f"scores.csv.{ending}" in error


def test_the_second_half_of_a_zip_file_is_damage_and_not_a_failing_disk(tmp_path: Path) -> None:
    whole = zipped(os.urandom(1000).hex().encode())
    (tmp_path / "a.csv.zip").write_bytes(whole[len(whole) // 2 :])  # its table of contents points before the start
    with pytest.raises(ValueError, match=r"a\.csv\.zip is truncated or not a zip file"):
        read_table(tmp_path / "a.csv.zip")
    with pytest.raises(ValueError, match=r"a\.csv\.zip holds no arrays or is damaged"):
        read_arrays(tmp_path / "a.csv.zip")


@pytest.mark.parametrize("value", [[1.0, 2.0], {"a": 1.0}])
@pytest.mark.parametrize("column", ["y", "s", "g"])
def test_lists_and_records_in_parquet_are_named(run: Run, column: str, value: Any) -> None:
    table = pd.read_csv(io.BytesIO(TEXT)).assign(g="a")
    table[column] = [value] * len(table)
    table.to_parquet("scores.parquet")
    status, _, error = run("certify", "scores.parquet", *CERTIFY, "--group", "g")
    assert status == 2
    assert repr(column) in error
    with pytest.raises(ValueError, match=f"column '{column}' holds lists or records"):
        load("table", Path("scores.parquet"), target="y")


def test_lists_beside_the_columns_that_a_bundle_needs_do_not_matter(tmp_path: Path) -> None:
    bundle = save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    table = pd.DataFrame({"age": [50.0, 60.0], "site": ["arm", "leg"], "vector": [[1, 2], [3]]})
    table.to_parquet(tmp_path / "new.parquet")
    assert predict(bundle, tmp_path / "new.parquet", tmp_path / "scores.csv").samples == 2
    table.assign(age=table["vector"]).to_parquet(tmp_path / "new.parquet")
    with pytest.raises(ValueError, match="column 'age' holds lists or records"):
        predict(bundle, tmp_path / "new.parquet", tmp_path / "scores.csv")


def test_bytes_that_are_no_text_in_parquet_are_named(tmp_path: Path) -> None:
    table = pd.DataFrame({"y": [0, 1] * 40, "s": np.arange(80.0), "g": ["abc"] * 80})
    table.to_parquet(tmp_path / "a.parquet", compression=None)
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content.replace(b"abc", b"a\xffc"))
    for read in (lambda path: read_scores(path, ScoreColumns("s", "y", group="g")), read_table):
        with pytest.raises(ValueError, match=r"a\.parquet is truncated or not a Parquet file"):
            read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "content",
    [
        b'{"threshold": ' + b"9" * 400 + b', "tpr": 0.9, "confidence": 0.95}',
        b'{"threshold": ' + b"9" * 5000 + b', "tpr": 0.9, "confidence": 0.95}',
        b"[" * 100_000,
        b'{"a": ' * 5000 + b"1" + b"}" * 5000,
        b'{"threshold": "high", "tpr": 0.9, "confidence": 0.95}',
        b'{"threshold": [1], "tpr": 0.9, "confidence": 0.95}',
        b'{"threshold": true, "tpr": 0.9, "confidence": 0.95}',
        b'{"threshold": 1, "tpr": 0.9, "confidence": false}',
        b"\xff\xfe{}",
        b"3",
    ],
)
def test_a_strange_operating_point_is_a_sentence(run: Run, content: bytes) -> None:
    Path("scores.csv").write_bytes(TEXT)
    Path("point.json").write_bytes(content)
    status, out, error = run("recertify", "scores.csv", "--label", "y", "--score", "s", "--point", "point.json")
    assert (status, out) == (2, "")
    assert "not an operating point" in error


@pytest.mark.parametrize(
    "content",
    [
        'loss = {name = "w-bce", settings = {counts = 1.0}}',
        'loss = {name = "bce", settings = {name = 1.0}}',
        f"a = {'[' * 5000}{']' * 5000}",
        'model = {name = "mlp", hidden = [1000000000000]}',
        f'model = {{name = "mlp", hidden = {[8] * 1000}}}',
        'model = {name = "resnet10", width = 1e300}',
        f"seed = {10**30}",
        "".join(f"key{k} = {k}\n" for k in range(5000)),
    ],
)
def test_strange_settings_are_a_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(ValueError, match=r"a\.toml") as raised:
        TrainConfig.from_toml(tmp_path / "a.toml")
    assert len(str(raised.value)) < 6000


def test_a_network_that_no_memory_holds_cannot_be_described() -> None:
    for shape, settings in (
        (MLPShape, {"features": 10, "hidden": (65536,) * 64}),
        (MLPShape, {"features": 10**9, "hidden": (8,)}),
        (MLPShape, {"hidden": (1,) * 65}),
        (ResNetShape, {"width": 6.1}),
    ):
        with pytest.raises(ValueError, match=r"hidden|width"):
            shape.model_validate({"classes": 2, **settings})
    with torch.device("meta"):  # takes no memory
        largest = (
            build_model(ResNetShape(name="resnet18", classes=2, width=6.0)),
            build_model(MLPShape(classes=2, features=1000, hidden=(20_000, 20_000))),
        )
    assert [sum(value.numel() for value in network.parameters()) < 520_000_000 for network in largest] == [
        True,
        True,
    ]


def test_a_json_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(10**12)  # takes no place on the disk
    with pytest.raises(ValueError, match="more than 20,000,000 bytes"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps({"classes": [10**30, 2**63]}))
    assert read_json(tmp_path / "a.json") == {"classes": [10**30, 2**63]}


def test_arrays_of_absurd_size_or_of_objects_are_refused(tmp_path: Path, peak: Callable[[], int]) -> None:
    path = tmp_path / "a.npz"
    for shape in ("10000000000000000000,", "10000000000000,", "-5,"):
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("ids.npy", b"\x93NUMPY\x01\x00v\x00" + head.encode() + b"\0" * 80)
        with pytest.raises(ValueError, match="holds no arrays or is damaged"):
            read_arrays(path)
    np.savez(path, ids=np.array([Malicious(tmp_path / "executed")], dtype=object))
    with pytest.raises(ValueError, match="holds no arrays or is damaged"):
        read_arrays(path)
    assert not (tmp_path / "executed").exists()
    assert peak() < 20_000_000


class Malicious:
    """Unpickled as usual, it touches a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02Nr" + (20_000_000).to_bytes(4, "little") + b".",  # what is remembered, at that place
        b"Np20000000\n.",
        b"\x80\x03B" + (400_000_000).to_bytes(4, "little") + b"x.",  # so many bytes
        b"\x80\x04\x8e" + (400_000_000).to_bytes(8, "little") + b"x.",
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\n(tR(K\x01T\x10'\0\0" + bytes(10_000)
        + b"J\xff\xff\0\0\x86cnumpy\ndtype\nU\x02u1\x85R\x89U\x00tbs.",  # 10,000 bytes times 65,535
    ],
)  # fmt: skip
def test_a_pickle_takes_no_memory_out_of_proportion(peak: Callable[[], int], content: bytes) -> None:
    with pytest.raises(ValueError, match="a is not an official CIFAR file"):
        read_pickle(content, "a")
    assert peak() < 60_000_000


def test_a_pickle_of_many_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "MOST_STEPS", 1000)
    assert read_pickle(b"}" + b"]0" * 499 + b".", "a") == {}
    with pytest.raises(ValueError, match="too many"):
        read_pickle(b"}" + b"]0" * 500 + b".", "a")


LABELS = [1, 2, 3]
PIXELS = np.zeros((3, 3072), dtype=np.uint8)
GOOD = python2_pickle(PIXELS, LABELS)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("data_batch_2", GOOD.replace(b"](K\x01", b"](\x8a\x0d" + b"\x7f" * 13)),  # a label of 100 bits
        ("data_batch_2", GOOD.replace(b"](K\x01", b"](J\xff\xff\xff\xff")),  # -1
        ("data_batch_2", GOOD.replace(b"](K\x01", b"](\x88")),  # true
        ("data_batch_2", GOOD.replace(b"K\x01J\x03\0\0\0M\x00\x0c", b"K\x01J\xfd\xff\xff\xffJ\x00\xf4\xff\xff")),
        ("data_batch_2", GOOD.replace(b"K\x01J\x03\0\0\0M\x00\x0c", b"K\x01NN")),
        ("batches.meta", pickle.dumps({b"label_names": [1, 2, 3]}, 2)),
        ("batches.meta", pickle.dumps({b"label_names": 3}, 3)),
        ("batches.meta", pickle.dumps({b"label_names": [b"x" * 10_000] * 10}, 3)),
    ],
)
def test_absurd_labels_shapes_and_names_in_cifar_files_are_sentences(
    tmp_path: Path, file: str, content: bytes
) -> None:
    folder = small_files(tmp_path / "cifar-10-batches-py", per_class=5)
    assert len(read_pickle(GOOD, "good")[b"labels"]) == 3
    (folder / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"{file} is not an official CIFAR file"):
        read_cifar("cifar10", tmp_path)


def test_weights_larger_than_their_network_are_not_read(tmp_path: Path, peak: Callable[[], int]) -> None:
    save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    with (tmp_path / "bundle/model.safetensors").open("ab") as file:
        file.truncate(500_000_000)  # takes no place on the disk
    before = peak()
    with pytest.raises(ValueError, match="do not fit the network"):
        load_bundle(tmp_path / "bundle")
    assert peak() - before < 50_000_000


@pytest.fixture
def _no_wait() -> Iterator[None]:
    """A reader that waits for a pipe fails instead."""

    def hang(*ignored: object) -> None:
        raise AssertionError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "scores": ("a.csv", lambda path: read_scores(path, ScoreColumns("s", "y"))),
    "parquet": ("a.parquet", lambda path: read_scores(path, ScoreColumns("s", "y"))),
    "point": ("a.json", saved_point),
    "table": ("a.csv", read_table),
    "config": ("a.toml", TrainConfig.from_toml),
    "image": ("a.png", lambda path: read_image(path, (16, 16))),
    "folder": ("a.png", lambda path: image_folder(path.parents[1])),
    "arrays": ("a.npz", read_arrays),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    file, read = READERS[name]
    for kind in ("negative", "positive"):
        (tmp_path / kind).mkdir()
        for k in range(30):
            os.mkfifo(tmp_path / kind / (file if k == 0 else f"{k}.png"))
    with pytest.raises(ValueError, match="not a regular file"):
        read(tmp_path / "negative" / file)


@pytest.mark.skipif(sys.platform == "win32", reason="no such device")
@pytest.mark.usefixtures("_no_wait")
def test_a_device_is_no_input(run: Run, tmp_path: Path) -> None:
    for path in ("/dev/zero", "/dev/null"):
        with pytest.raises(ValueError, match="not a regular file"):
            check_regular(Path(path))
    os.mkfifo(tmp_path / "pipe")
    save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    for arguments in (
        ("certify", "pipe", *CERTIFY),
        ("fit", "pipe", "--target", "y", "--out", "out"),
        ("predict", "bundle", "pipe", "--out", "scores.csv"),
        ("fit", "bundle/bundle.json", "--target", "y", "--out", "out", "--config", "pipe"),
        ("monitor", "bundle/bundle.json", "--score", "s", "--point", "pipe"),
    ):
        status, _, error = run(*arguments)
        assert status == 2
        assert "not a regular file" in error
