"""A bundle as one ONNX file that runs without torch and without rankreg."""

from rankreg.export.writing import Exported, check_target, export_onnx

__all__ = ["Exported", "check_target", "export_onnx"]
