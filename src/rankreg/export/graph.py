"""An ONNX graph under construction: every node gets a name of its own, every array is stored once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8  # of the same release as those, so that runtimes since early 2023 take the file
BATCH = "batch"  # the axis that counts samples


def onnx_package() -> Any:
    """The onnx package, which is not there by default."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ValueError("exporting needs onnx and onnxruntime: pip install 'rankreg[onnx]'") from error
    return onnx


class Graph:
    """Nodes in the order they are computed in; a value is known by its name."""

    def __init__(self) -> None:
        self.onnx = onnx_package()
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, dtype: Any, shape: tuple[int | str, ...]) -> str:
        """An input of any number of samples of that shape; a size that is free has a name."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, [BATCH, *shape]))
        return name

    def array(self, values: NDArray[Any]) -> str:
        """A constant."""
        name = f"array_{len(self.arrays)}"
        self.arrays.append(self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        name = f"{op.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """The value as another type."""
        return self.add("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(self, outputs: dict[str, tuple[str, Any]], *, name: str, doc: str, metadata: dict[str, str]) -> Any:
        """The whole model; outputs: their value and dtype, by name, one number per sample."""
        helper = self.onnx.helper
        infos = []
        for output, (value, dtype) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [output], name=output))
            infos.append(
                helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [BATCH])
            )
        graph = helper.make_graph(self.nodes, name, self.inputs, infos, self.arrays)
        used = {"", *(node.domain for node in self.nodes)}
        opsets = [helper.make_opsetid(domain, OPSETS[domain]) for domain in sorted(used)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rankreg")
        model.doc_string = doc
        helper.set_model_props(model, metadata)
        return model
