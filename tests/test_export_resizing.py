"""Resizing inside an ONNX file: as Pillow does it."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from PIL import Image

from rankreg.bundle import save_bundle
from rankreg.export import export_onnx
from rankreg.export.graph import Graph
from rankreg.export.resizing import add_resizing
from rankreg.models import ResNetShape, build_model
from tests.test_bundle import contents


def resized(images: NDArray[np.uint8], height: int, width: int) -> NDArray[np.int64]:
    """By the nodes alone."""
    graph = Graph()
    pixels = add_resizing(graph, graph.input("images", np.uint8, ("height", "width", 3)), height, width)
    helper = graph.onnx.helper
    output = helper.make_tensor_value_info(pixels, helper.np_dtype_to_tensor_dtype(np.dtype(np.float64)), None)
    content = helper.make_graph(graph.nodes, "resize", graph.inputs, [output], graph.arrays)
    model = helper.make_model(content, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"images": images})
    assert np.array_equal(found, found.astype(np.int64))
    return np.asarray(found, dtype=np.int64)


def by_pillow(images: NDArray[np.uint8], height: int, width: int) -> NDArray[np.int64]:
    size, filter_ = (width, height), Image.Resampling.BILINEAR
    return np.stack([np.asarray(Image.fromarray(image).resize(size, filter_)) for image in images]).astype(np.int64)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [((48, 64), (32, 32)), ((40, 90), (40, 30)), ((20, 17), (64, 50)), ((32, 32), (32, 32)), ((33, 200), (32, 64))],
)
def test_it_is_pillows_to_the_last_grey_level(given: tuple[int, int], wanted: tuple[int, int]) -> None:
    """Width shrinks at least as much as height: every version of Pillow then resizes columns first."""
    images = np.random.default_rng(0).integers(0, 256, (3, *given, 3), dtype=np.uint8)
    assert np.array_equal(resized(images, *wanted), by_pillow(images, *wanted))


@pytest.mark.parametrize(("given", "wanted"), [((151, 133), (31, 131)), ((64, 48), (32, 48)), ((30, 9), (12, 40))])
def test_whatever_comes_first_it_is_within_one_grey_level(given: tuple[int, int], wanted: tuple[int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, *given, 3), dtype=np.uint8)
    assert np.abs(resized(images, *wanted) - by_pillow(images, *wanted)).max() <= 1


def test_a_model_with_resizing_scores_images_of_any_size(tmp_path: Path) -> None:
    shape = ResNetShape(width=0.0625, classes=2, head="score")
    inputs = {"kind": "image", "height": 24, "width": 20}
    bundle = save_bundle(tmp_path / "bundle", build_model(shape), **contents(model=shape, preprocessing=inputs))
    free = onnxruntime.InferenceSession(export_onnx(bundle, tmp_path / "free.onnx", resize=True).out)
    fixed = onnxruntime.InferenceSession(export_onnx(bundle, tmp_path / "fixed.onnx").out)
    images = np.random.default_rng(0).integers(0, 256, (2, 50, 70, 3), dtype=np.uint8)
    squeezed = by_pillow(images, 24, 20).astype(np.uint8)
    (expected,) = fixed.run(["score"], {"images": squeezed})
    for given in (images, squeezed):
        np.testing.assert_allclose(free.run(["score"], {"images": given})[0], expected, rtol=0, atol=1e-5)
