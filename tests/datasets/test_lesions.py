"""Skin lesions: ISIC 2020 / Kaggle Melanoma and HAM10000."""

import csv
import lzma
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rankreg.datasets.image_sets import ham10000, melanoma


def overlap(groups: dict[str, set[str]]) -> set[str]:
    """Groups that are in more than one part."""
    names = list(groups)
    return {g for k, name in enumerate(names) for other in names[:k] for g in groups[name] & groups[other]}


@pytest.fixture(scope="module")
def isic(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official layout with tiny JPEGs: the patients of a slice of the real table, positives first."""
    home = tmp_path_factory.mktemp("data") / "melanoma"
    with lzma.open(shared_data / "tabular" / "isic2020_train.csv.xz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = [row for row in rows if row["target"] == "1"][:60] + rows[:540]
    rows = list({row["image_name"]: row for row in rows}.values())
    (home / "jpeg" / "train").mkdir(parents=True)
    with (home / "train.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    for k, row in enumerate(rows):
        image = Image.new("RGB", (48, 32), (k % 256, 128, 40 * (k // 256)))
        image.save(home / "jpeg" / "train" / f"{row['image_name']}.jpg", quality=95)
    return home


def test_melanoma_is_split_by_patient_with_positives_spread(isic: Path) -> None:
    with (isic / "train.csv").open(newline="") as file:
        rows = {row["image_name"]: row for row in csv.DictReader(file)}
    positives = sum(row["target"] == "1" for row in rows.values())
    for seed in range(4):
        splits = melanoma(isic.parent, size=32, seed=seed)
        patients = {name: {rows[k]["patient_id"] for k in part.ids} for name, part in splits.parts.items()}
        assert not overlap(patients)
        assert sum(map(len, splits.parts.values())) == len(rows)
        for name, share in (("train", 0.7), ("validation", 0.1), ("test", 0.2)):
            part = splits[name]
            assert part.labels.tolist() == [int(rows[k]["target"]) for k in part.ids]
            assert abs(len(part) - share * len(rows)) < 0.02 * len(rows)
            assert abs(part.labels.sum() - share * positives) <= 2


def test_melanoma_never_reads_the_columns_that_hold_the_answer(isic: Path, tmp_path: Path) -> None:
    with (isic / "train.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (tmp_path / "train").symlink_to(isic / "jpeg" / "train")  # the other official layout
    kept = ["image_name", "patient_id", "target"]
    with (tmp_path / "train.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    with_them, without = melanoma(isic, size=32), melanoma(tmp_path, size=32)
    for name in with_them.parts:
        np.testing.assert_array_equal(with_them[name].ids, without[name].ids)
        np.testing.assert_array_equal(with_them[name].inputs(), without[name].inputs())


def test_melanoma_images_are_decoded_once_and_mapped(isic: Path, tmp_path: Path) -> None:
    splits = melanoma(isic, size=40, cache=tmp_path)
    (cached,) = tmp_path.glob("40x40-*.npy")
    assert np.load(cached, mmap_mode="r").shape == splits["test"].source.shape
    assert isinstance(splits["test"].source, np.memmap)
    assert splits["test"].inputs(np.arange(3)).shape == (3, 40, 40, 3)


def test_a_melanoma_folder_that_is_incomplete_says_what_is_missing(isic: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"accept the terms at https://www.kaggle.com"):
        melanoma(tmp_path)
    (tmp_path / "train.csv").write_text("image_name,target\nISIC_1,0\n")
    with pytest.raises(ValueError, match=r"no column patient_id: it is not the official train.csv"):
        melanoma(tmp_path)
    (tmp_path / "train.csv").write_text("image_name,patient_id,target\nISIC_1,IP_1,0\n")
    with pytest.raises(FileNotFoundError, match=r"no ISIC_1.jpg in"):
        melanoma(tmp_path)
    (tmp_path / "train.csv").write_text("image_name,patient_id,target\n../../etc/x,IP_1,0\n")
    with pytest.raises(ValueError, match="a plain name"):
        melanoma(tmp_path)


@pytest.fixture(scope="module")
def lesion_of(shared_data: Path) -> dict[str, tuple[str, str]]:
    with np.load(shared_data / "ham10000" / "ham10000_64x48.npz", allow_pickle=False) as file:
        fields = (file[key].tolist() for key in ("image_id", "lesion_id", "dx"))
        return {image: (lesion, dx) for image, lesion, dx in zip(*fields, strict=True)}


@pytest.mark.slow
def test_ham10000_is_split_by_lesion_and_only_training_is_thinned(
    shared_data: Path, lesion_of: dict[str, tuple[str, str]], tmp_path: Path
) -> None:
    splits, ceiling = (ham10000(shared_data, ratio=ratio, cache=tmp_path) for ratio in (170, None))
    assert splits["train"].source.shape == (10015, 48, 64, 3)
    assert not overlap({name: {lesion_of[k][0] for k in part.ids} for name, part in ceiling.parts.items()})
    assert sum(map(len, ceiling.parts.values())) == 10015
    for part in splits.parts.values():
        assert part.labels.tolist() == [int(lesion_of[k][1] == "mel") for k in part.ids]
    negatives, positives = np.bincount(splits["train"].labels)
    assert positives == negatives // 170
    assert set(splits["train"].ids) < set(ceiling["train"].ids)
    for name, share in (("validation", 0.1), ("test", 0.2)):
        np.testing.assert_array_equal(splits[name].ids, ceiling[name].ids)
        assert abs(splits[name].labels.sum() - share * 1113) <= 2
    other = ham10000(shared_data, seed=1, cache=tmp_path)
    np.testing.assert_array_equal(other["test"].ids, splits["test"].ids)
    assert set(other["train"].ids) != set(splits["train"].ids)


def test_the_official_ham10000_layout_gives_the_same_parts_as_the_npz(
    shared_data: Path, tmp_path: Path, lesion_of: dict[str, tuple[str, str]]
) -> None:
    npz = shared_data / "ham10000" / "ham10000_64x48.npz"
    with np.load(npz, allow_pickle=False) as file:
        jpeg, offsets, ids = file["jpeg"], file["offsets"], file["image_id"]
        fields = {key: file[key] for key in ("image_id", "lesion_id", "dx")}
    chosen = np.arange(0, len(ids), 25)
    official, small = tmp_path / "official", tmp_path / "small"
    for folder in ("HAM10000_images_part_1", "HAM10000_images_part_2"):
        (official / folder).mkdir(parents=True)
    small.mkdir()
    pieces = [jpeg[offsets[k] : offsets[k + 1]] for k in chosen]
    lengths = np.cumsum([0, *map(len, pieces)])
    subset = {key: values[chosen] for key, values in fields.items()}
    np.savez(small / npz.name, jpeg=np.concatenate(pieces), offsets=lengths, **subset)
    lines = ["lesion_id,image_id,dx,dx_type,age,sex,localization"]
    for k, piece in zip(chosen[::-1], pieces[::-1], strict=True):
        part = official / f"HAM10000_images_part_{1 + k % 2}"
        (part / f"{ids[k]}.jpg").write_bytes(piece.tobytes())
        lines.append(f"{fields['lesion_id'][k]},{ids[k]},{fields['dx'][k]},histo,45,male,back")
    (official / "HAM10000_metadata.csv").write_text("\n".join(lines) + "\n")

    found, expected = (ham10000(place, ratio=10, calibration=0.2) for place in (official, small))
    assert list(found.parts) == ["train", "validation", "test", "calibration"]
    for name in expected.parts:
        np.testing.assert_array_equal(found[name].ids, expected[name].ids)
        np.testing.assert_array_equal(found[name].labels, expected[name].labels)
        np.testing.assert_array_equal(found[name].inputs(), expected[name].inputs())

    (official / "HAM10000_images_part_1" / f"{ids[0]}.jpg").unlink()
    with pytest.raises(ValueError, match=f"cannot read {ids[0]} \\(missing\\)"):
        ham10000(official, ratio=10)


def test_an_unknown_diagnosis_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown diagnosis 'melanoma'.*'akiec', 'bcc'"):
        ham10000(tmp_path, positive="melanoma")
    (tmp_path / "ham10000_64x48.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"holds no arrays or is damaged"):
        ham10000(tmp_path)
