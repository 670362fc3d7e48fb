"""Image files, the decoded cache and image folders."""

import errno
import io
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from PIL import Image

from rankreg.datasets import images as module
from rankreg.datasets.images import cache_folder, decode, image_folder, image_size, read_image, walk_images


def save(path: Path, value: int, size: tuple[int, int] = (20, 12), **options: Any) -> Path:
    """A one-coloured image file; another value gives other bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value % 256, value // 256, 90)).save(path, **options)
    return path


def make_folder(home: Path, **counts: int) -> Path:
    """One folder per class with so many distinct images."""
    value = 0
    for kind, count in counts.items():
        for k in range(count):
            save(home / kind / f"{k}.png", value)
            value += 1
    return home


def test_images_come_out_in_rgb_and_in_the_size_asked_for(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", 200, (40, 30))
    image = read_image(path, (16, 24))
    assert image.shape == (16, 24, 3)
    assert image.dtype == np.uint8
    assert (image == (200, 0, 90)).all()


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_any_colour_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.tiff"
    suffix = ".png" if mode in ("P", "LA") else ".tiff"
    grey = Image.new("L", (10, 10), 255).convert(mode)
    grey.save(path.with_suffix(suffix))
    assert (read_image(path.with_suffix(suffix), (10, 10)) == 255).all()


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((10, 10), 32768, dtype=np.uint16)).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png", (10, 10)) == 128).all()


def test_sixteen_bit_tiffs_of_either_byte_order_are_scaled(tmp_path: Path) -> None:
    pixels = np.linspace(0, 65535, 100).astype(np.uint16).reshape(10, 10)
    for kind in ("<u2", ">u2"):
        Image.fromarray(pixels.astype(kind)).save(tmp_path / "a.tiff")
        found = read_image(tmp_path / "a.tiff", (10, 10))
        np.testing.assert_array_equal(found, np.repeat((pixels >> 8).astype(np.uint8)[..., None], 3, axis=2))


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_without_a_range_are_refused_and_not_turned_black(tmp_path: Path, kind: Any) -> None:
    Image.fromarray(np.full((10, 10), 1, dtype=kind)).save(tmp_path / "a.tiff")
    with pytest.raises(ValueError, match="save the image with 8 or 16 bits"):
        read_image(tmp_path / "a.tiff", (10, 10))
    home = make_folder(tmp_path / "home", negative=12, positive=12)
    shutil.copy(tmp_path / "a.tiff", home / "negative" / "wide.tiff")
    with pytest.raises(ValueError, match=r"negative/wide\.tiff .*8 or 16 bits"):
        image_folder(home)


def test_a_drawing_program_is_not_started_for_what_is_called_an_image(tmp_path: Path) -> None:
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "a.png").write_bytes(drawing)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "EPS"  # Pillow would hand it to Ghostscript
    with pytest.raises(ValueError, match="not an image"):
        read_image(tmp_path / "a.png", (10, 10))


def test_exif_orientation_is_respected(tmp_path: Path) -> None:
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[:, 16:] = 255  # black left, white right
    exif = Image.Exif()
    exif[0x0112] = 6  # to be seen upright, turn by 90° clockwise: black on top
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    upright = read_image(tmp_path / "a.jpg", (32, 16))
    assert upright[:12].mean() < 10
    assert upright[20:].mean() > 245


def test_a_large_jpeg_is_close_to_its_careful_resize(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    smooth = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((1200, 900))
    smooth.save(tmp_path / "a.jpg", quality=95)
    careful = np.asarray(smooth.resize((64, 48), Image.Resampling.BOX), dtype=float)
    assert np.abs(read_image(tmp_path / "a.jpg", (48, 64)) - careful).mean() < 3


@pytest.mark.parametrize("size", [4, (64, 2), (1, 2, 3), 6.5])
def test_a_size_that_makes_no_sense_is_refused(size: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        image_size(size)


@pytest.mark.parametrize("size", [100_000, (64, 4097), (4097, 64)])
def test_a_size_that_would_fill_the_memory_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="at most 4096 pixels: got"):
        image_size(size)
    assert image_size(4096) == (4096, 4096)


def test_the_cache_gives_the_same_pixels_and_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [save(tmp_path / f"{k}.png", k) for k in range(5)]
    names = [path.name for path in paths]
    in_memory = decode(paths, names, (9, 10))
    np.testing.assert_array_equal(decode(paths, names, (9, 10), cache=tmp_path / "cache"), in_memory)
    monkeypatch.setattr(module, "read_image", lambda *_: pytest.fail("decoded again"))
    mapped = decode(paths, names, (9, 10), cache=tmp_path / "cache")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, in_memory)


def test_a_changed_image_is_decoded_afresh(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", 1)
    decode([path], ["a.png"], (9, 9), cache=tmp_path / "cache")
    save(path, 77)
    os.utime(path, ns=(1, 1))
    assert (decode([path], ["a.png"], (9, 9), cache=tmp_path / "cache")[..., 0] == 77).all()


@pytest.mark.parametrize("torn_bytes", [0, 5, 700])
def test_an_interrupted_decoding_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn_bytes: int
) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    paths = [save(tmp_path / f"{k:02}.png", k) for k in range(18)]
    names, cache, read = [path.name for path in paths], tmp_path / "cache", module.read_image

    def interrupted(source: Path, size: tuple[int, int]) -> Any:
        if source.name == "10.png":
            raise KeyboardInterrupt
        return read(source, size)

    monkeypatch.setattr(module, "read_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode(paths, names, (8, 8), cache=cache)
    assert not list(cache.glob("*.npy"))
    (unfinished,) = cache.glob("*.unfinished")
    with unfinished.open("ab") as file:  # a write that a kill cut short
        file.write(b"\1" * torn_bytes)

    seen: list[str] = []

    def noted(source: Path, size: tuple[int, int]) -> Any:
        seen.append(source.name)
        return read(source, size)

    monkeypatch.setattr(module, "read_image", noted)
    found = decode(paths, names, (8, 8), cache=cache)
    np.testing.assert_array_equal(found[:, 0, 0, 0], np.arange(18))
    assert sorted(seen)[0] == "08.png"  # two chunks of four were kept
    assert not list(cache.glob("*.unfinished"))


def test_a_full_disk_is_an_error_and_leaves_no_half_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    paths = [save(tmp_path / "a.png", 1)]
    with pytest.raises(OSError, match="No space left"):
        decode(paths, ["a.png"], (8, 8), cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.npy"))


def test_a_read_only_data_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    assert cache_folder(None, tmp_path) == tmp_path / "decoded"
    home = tmp_path / "shared"
    home.mkdir(mode=0o555)
    assert cache_folder(None, home) == tmp_path / "cache" / "rankreg" / "decoded"
    assert cache_folder(tmp_path / "given", home) == tmp_path / "given"


def test_unreadable_images_are_named(tmp_path: Path) -> None:
    home = make_folder(tmp_path / "data", negative=12, positive=12)
    whole = (home / "negative" / "3.png").read_bytes()
    (home / "negative" / "3.png").write_bytes(whole[: len(whole) // 2])
    (home / "positive" / "5.png").write_text("no image")
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(
            ValueError, match=r"cannot read negative/3.png \(.+\), positive/5.png \(not an image\): repair"
        ):
            image_folder(home, cache=cache)
    for k in range(12):
        (home / "positive" / f"{k}.png").write_bytes(b"x%d" % k)
    with pytest.raises(ValueError, match=r"positive/11.png .* and more: repair"):
        image_folder(home)


def test_two_folders_become_stratified_parts(tmp_path: Path) -> None:
    splits = image_folder(make_folder(tmp_path / "lesions", negative=100, positive=20), size=(8, 12))
    assert {name: (len(part), int(part.labels.sum())) for name, part in splits.parts.items()} == {
        "train": (72, 12),
        "validation": (12, 2),
        "calibration": (18, 3),
        "test": (18, 3),
    }
    assert splits.name == "lesions"
    assert splits["train"].source.shape == (120, 8, 12, 3)
    assert splits.preprocessing == {"kind": "image", "height": 8, "width": 12}
    for part in splits.parts.values():
        values = part.inputs()[:, 0, 0, 0].tolist()
        for name, label, value in zip(part.ids, part.labels, values, strict=True):
            kind, number = name.removesuffix(".png").split("/")
            assert (kind == "positive") == label
            assert value == int(number) + (100 if label else 0)


def test_one_folder_per_class_needs_to_know_which_is_critical(tmp_path: Path) -> None:
    home = make_folder(tmp_path, nv=40, mel=10, df=12)
    with pytest.raises(ValueError, match=r"say which folder of .* is the positive class: df, mel, nv"):
        image_folder(home)
    with pytest.raises(ValueError, match="did you mean 'mel'"):
        image_folder(home, positive="mell")
    with pytest.raises(ValueError, match=r"'nv' \(40\), 'df' \(12\), 'mel' \(10\)"):
        image_folder(home, positive="mel", negative=["nv"])
    for named in ({"negative": ["nv", "df"]}, {"rest_negative": True}):
        splits = image_folder(home, positive="mel", **named)
        assert splits.classes == ("other", "mel")
        assert sum(int(part.labels.sum()) for part in splits.parts.values()) == 10
        assert {key: splits.preprocessing.get(key) for key in named} == named


def test_copies_of_an_image_stay_in_one_part(tmp_path: Path) -> None:
    home = make_folder(tmp_path, negative=40, positive=20)
    for kind in ("negative", "positive"):
        for k in range(15):
            shutil.copy(home / kind / f"{k}.png", home / kind / f"copy of {k}.png")
    for seed in range(5):
        parts = image_folder(home, size=8, seed=seed).parts
        home_of = {name: part for part, samples in parts.items() for name in samples.ids}
        assert len(home_of) == 90
        for kind in ("negative", "positive"):
            for k in range(15):
                assert home_of[f"{kind}/{k}.png"] == home_of[f"{kind}/copy of {k}.png"]


def test_folders_are_searched_deeply_and_only_for_images(tmp_path: Path) -> None:
    for name in ("b/c/2.JPG", "a.webp", ".hidden/3.png", ".4.png"):
        save(tmp_path / name, 1)
    (tmp_path / "notes.txt").write_text("no image")
    assert [path.relative_to(tmp_path).as_posix() for path in walk_images(tmp_path)] == ["a.webp", "b/c/2.JPG"]


def test_too_few_folders_or_images_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds 1 folders with images"):
        image_folder(make_folder(tmp_path / "one", positive=3))
    with pytest.raises(ValueError, match="only 2 positive samples: at least 8 are needed"):
        image_folder(make_folder(tmp_path / "two", negative=30, positive=2))


def test_bytes_are_read_like_files(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", 50)
    np.testing.assert_array_equal(read_image(path.read_bytes(), (9, 9)), read_image(path, (9, 9)))
    with pytest.raises(ValueError, match="not an image"):
        read_image(io.BytesIO(b"nothing").getvalue(), (9, 9))
