"""`rankreg export`: a bundle as one ONNX file."""

from pathlib import Path
from typing import Annotated

import typer

from rankreg._terminal import say
from rankreg.cli.fit import BundleFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)


def export(
    bundle: BundleFolder,
    out: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="File to write.", show_default=False)],
    resize: Annotated[bool, typer.Option("--resize", help="Images: take any size and resize inside.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a model as ONNX, to be run without torch and without rankreg.

    Inside are preprocessing, network and threshold. Outputs: score and alarm, one per sample. Inputs: images
    (uint8, resized), or numbers and texts (a table's columns; NaN and "" where missing).

    The file's metadata hold classes, threshold, certificate and what is left to the caller, each as JSON;
    examples/onnx_consumer.py reads them. Scores are compared with the model's before the file is kept.

    Needs onnx and onnxruntime, the package's extra `onnx`.
    """
    from rankreg.bundle import load_bundle
    from rankreg.export import check_target, export_onnx

    check_target(out, force=force)
    model = load_bundle(bundle)
    made = export_onnx(model, out, resize=resize, force=force)
    threshold, size = model.card.threshold, made.out.stat().st_size
    say(f"{made.out}: {size / 1000:,.0f} kB; outputs score and alarm (score ≥ {threshold.value:.6g})")
    say(f"Inputs: {made.inputs['words']}")
    say(f"Checked: scores differ from the model's by at most {made.difference:.1g} on {made.samples} samples.")
    if not threshold.certified:
        say("The threshold is uncertified: no recall is guaranteed.", err=True)
