"""CIFAR as rare-class tasks, on the official files."""

import hashlib
import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rankreg.datasets import DATASETS, Partition, Splits, load
from rankreg.datasets.cifar import cifar10, cifar10_long_tailed, cifar100

OFFICIAL = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-10-batches-py/batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
    "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "cifar-100-python/meta": "7973b15100ade9c7d40fb424638fde48",
}


def counts(splits: Splits) -> dict[str, tuple[int, int]]:
    return {
        name: (int((part.labels == 0).sum()), int((part.labels == 1).sum())) for name, part in splits.parts.items()
    }


def small_files(folder: Path, per_class: int = 40) -> Path:
    """A CIFAR-10 folder with few images, whose first pixel is the label, pickled as Python 2 did."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        labels = np.tile(np.arange(10), per_class // 5)
        pixels = generator.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        pixels[:, 0] = labels
        (folder / name).write_bytes(python2_pickle(pixels, labels.tolist()))
    names = b"".join(b"U\x07class %d" % k for k in range(10))
    (folder / "batches.meta").write_bytes(b"\x80\x02}U\x0blabel_names](" + names + b"es.")
    return folder


def python2_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    """The dictionary as numpy for Python 2 wrote it: head, pixels, tail, like the official files."""
    state = pixels.tobytes()
    return (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01J" + len(pixels).to_bytes(4, "little") + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + len(state).to_bytes(4, "little")
        + state
        + b"tbU\x06labels]("
        + b"".join(b"K" + bytes([label]) for label in labels)
        + b"eu."
    )


def archive_of(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, arcname="cifar-10-batches-py")
    return path


THREE = np.zeros((3, 3072), dtype=np.uint8)
SMALL = {"partitions": (Partition(validation=5, tuning=2), Partition(validation=5, tuning=5, extended=10))}


def test_the_files_are_byte_for_byte_the_official_ones(cifar: Path) -> None:
    for name, md5 in OFFICIAL.items():
        assert hashlib.md5((cifar / name).read_bytes()).hexdigest() == md5


def test_cifar10_has_the_counts_of_the_protocol(cifar: Path) -> None:
    splits = cifar10(cifar)
    assert splits.classes == ("automobile", "truck")
    assert counts(splits) == {
        "train": (4410, 44),
        "validation": (100, 100),
        "test": (1000, 1000),
        "tuning": (245, 900),
        "extended": (0, 3000),
    }
    assert counts(cifar10(cifar, ratio=200, seed=3))["train"] == (4410, 22)


def test_cifar100_has_the_counts_of_the_protocol(cifar: Path) -> None:
    splits = cifar100(cifar)
    assert splits.classes == ("seal or beaver or whale or dolphin or otter", "shark")
    assert counts(splits) == {
        "train": (2025, 20),
        "validation": (250, 50),
        "test": (500, 100),
        "tuning": (125, 100),
        "extended": (0, 150),
    }
    assert counts(cifar100(cifar, ratio=200))["train"] == (2025, 10)


def test_images_and_labels_are_those_of_the_official_files(cifar: Path) -> None:
    with (cifar / "cifar-10-batches-py/test_batch").open("rb") as file:
        official = pickle.load(file, encoding="bytes")
    test = cifar10(cifar)["test"]
    for position in (0, 700, 1999):
        k = int(test.ids[position]) - 50_000
        assert official[b"labels"][k] == (9 if test.labels[position] else 1)
        expected = official[b"data"][k].reshape(3, 32, 32).transpose(1, 2, 0)
        np.testing.assert_array_equal(test.inputs(np.array([position]))[0], expected)


def test_official_parts_are_disjoint_in_every_split(cifar: Path) -> None:
    judged: set[int] | None = None
    for seed in range(3):
        splits = cifar100(cifar, seed=seed)
        ids = np.concatenate([part.ids for part in splits.parts.values()])
        assert len(np.unique(ids)) == len(ids)
        held_out = {int(k) for name, part in splits.parts.items() if name != "train" for k in part.ids}
        assert judged in (None, held_out)  # the same for every split
        judged = held_out
        assert all((splits["test"].ids >= 50_000).tolist())
        assert all((splits["train"].ids < 50_000).tolist())


@pytest.mark.parametrize(("imbalance", "rarest"), [(100, 49), (200, 24)])
def test_long_tailed_cifar10_thins_classes_exponentially(cifar: Path, imbalance: float, rarest: int) -> None:
    splits = cifar10_long_tailed(cifar, imbalance=imbalance)
    found = np.bincount(splits["train"].labels, minlength=10)
    np.testing.assert_allclose(found, 4900 * imbalance ** (-np.arange(10) / 9), atol=1)
    assert found[9] == rarest
    assert splits.classes[splits.critical] == "truck"
    assert np.bincount(splits["validation"].labels).tolist() == [100] * 10
    assert np.bincount(splits["test"].labels).tolist() == [1000] * 10
    assert not np.isin(splits["train"].ids, splits["validation"].ids).any()


def test_the_critical_class_of_the_long_tail_can_be_another(tmp_path: Path) -> None:
    small_files(tmp_path / "cifar-10-batches-py")
    splits = cifar10_long_tailed(tmp_path, imbalance=5, positive="class 3", validation=5)
    assert splits.critical == 3
    assert np.bincount(splits["train"].labels)[[0, 9]].tolist() == [35, 7]


def test_any_classes_by_name_or_index(tmp_path: Path) -> None:
    small_files(tmp_path / "cifar-10-batches-py")
    splits = cifar10(tmp_path, negatives=["class 4", 2], positives=["class 7"], ratio=5, **SMALL)  # type: ignore[arg-type]
    train = splits["train"]
    assert (train.labels == 1).sum() == 62 // 5
    assert set(train.inputs()[train.labels == 1][:, 0, 0, 0]) == {7}
    assert set(train.inputs()[train.labels == 0][:, 0, 0, 0]) == {2, 4}
    with pytest.raises(ValueError, match="unknown class 'lorry': give an index in 0 … 9 or a name: class 0"):
        cifar10(tmp_path, positives=["lorry"])
    with pytest.raises(ValueError, match="each class once"):
        cifar10(tmp_path, negatives=[3], positives=[3])


def test_noise_changes_training_labels_only(tmp_path: Path) -> None:
    small_files(tmp_path / "cifar-10-batches-py")
    clean, noisy = (cifar10(tmp_path, ratio=3, noise=eta, **SMALL) for eta in (0, 0.5))  # type: ignore[arg-type]
    assert (clean["train"].labels != noisy["train"].labels).sum() == 2 * round(0.5 * clean["train"].labels.sum())
    for part in ("validation", "test", "tuning", "extended"):
        np.testing.assert_array_equal(clean[part].labels, noisy[part].labels)


def test_an_archive_is_read_in_place_like_its_folder(tmp_path: Path) -> None:
    folder = small_files(tmp_path / "unpacked" / "cifar-10-batches-py")
    archive = archive_of(folder, tmp_path / "cifar-10-python.tar.gz")
    before = sorted(tmp_path.rglob("*"))
    from_folder = cifar10(folder, ratio=4, **SMALL)  # type: ignore[arg-type]
    for place in (archive, tmp_path):
        from_archive = cifar10(place, ratio=4, **SMALL)  # type: ignore[arg-type]
        np.testing.assert_array_equal(from_archive["train"].inputs(), from_folder["train"].inputs())
    assert sorted(tmp_path.rglob("*")) == before  # nothing was unpacked


def test_a_tar_member_cannot_leave_the_archive(tmp_path: Path) -> None:
    folder = small_files(tmp_path / "cifar-10-batches-py")
    secret = tmp_path / "secret"
    secret.write_bytes(b"never read, never overwritten")
    path = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        escape = tarfile.TarInfo("../secret")
        escape.size = 4
        archive.addfile(escape, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
        for file in sorted(folder.iterdir()):
            if file.name != "data_batch_1":
                archive.add(file, arcname=f"cifar-10-batches-py/{file.name}")
    with pytest.raises(ValueError, match="lacks data_batch_1: it is not the official archive"):
        cifar10(path)
    assert secret.read_bytes() == b"never read, never overwritten"


class Malicious:
    """Unpickled as usual, it touches a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    folder = small_files(tmp_path / "cifar-10-batches-py")
    touched = tmp_path / "touched"
    evil = pickle.dumps({"data": Malicious(touched)}, protocol)
    pickle.loads(evil)
    assert touched.exists()  # the attack is real
    touched.unlink()
    (folder / "data_batch_3").write_bytes(evil)
    with pytest.raises(ValueError, match="data_batch_3 is not an official CIFAR file or is damaged: it asks for"):
        cifar10(tmp_path)
    assert not touched.exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "data_batch_2 is not an official CIFAR file or is damaged"),
        (b"not a pickle", "data_batch_2 is not an official CIFAR file or is damaged"),
        (b"\x80\x02]q\x00.", "it holds no dictionary"),
        (pickle.dumps({b"data": [1, 2], b"labels": [0, 1]}, 3), "expected rows of 3072 bytes"),
        (pickle.dumps({b"labels": [0, 1]}, 3), "it has no 'data'"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "it asks for builtins.eval, which no official file does"),
        (python2_pickle(THREE, [1, 2]), "data_batch_2 has 3 images and 2 labels"),
        (python2_pickle(THREE, [1, 2, 99]), "labels are not in 0 … 9"),
        (python2_pickle(THREE, [1, 2, 3])[:-5000], "data_batch_2 is not an official CIFAR file or is damaged"),
        (python2_pickle(THREE, [1, 2, 3]).replace(b"u1", b"O8"), "its array is not rows of bytes"),
        (b"\x80\x02}U\x04datacnumpy\nndarray\ns.", "data_batch_2 is not an official CIFAR file"),
    ],
)
def test_a_file_that_is_not_cifar_is_a_clear_error(tmp_path: Path, content: bytes, complaint: str) -> None:
    folder = small_files(tmp_path / "cifar-10-batches-py")
    (folder / "data_batch_2").write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        cifar10(tmp_path)


def test_a_truncated_archive_is_a_clear_error(tmp_path: Path) -> None:
    folder = small_files(tmp_path / "unpacked" / "cifar-10-batches-py")
    archive = archive_of(folder, tmp_path / "cifar-10-python.tar.gz")
    content = archive.read_bytes()
    for cut in (content[: len(content) // 2], b"", b"x" * 600):
        archive.write_bytes(cut)
        with pytest.raises(ValueError, match=r"cifar-10-python.tar.gz is not a tar archive or is damaged"):
            cifar10(archive)


def test_missing_data_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKREG_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CIFAR-100 is not in .*: run `rankreg data get cifar100`, or"):
        load("cifar100")
    with pytest.raises(ValueError, match="unknown data set 'cifar': did you mean 'cifar10'"):
        load("cifar")
    assert set(DATASETS) >= {
        "cifar10",
        "cifar100",
        "cifar10-lt",
        "melanoma",
        "ham10000",
        "digits",
        "folder",
        "table",
    }
