"""`rankreg demo`."""

from pathlib import Path
from typing import Annotated

import typer

from rankreg._terminal import Terminal, say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the runs; started again, finished ones are only read.")
    ] = Path("rankreg-demo"),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
) -> None:
    """Learn a rare digit with and without rankreg, and show what each part of the method adds."""
    import time

    from rankreg.demo import contrasts, result_table, results_of, run_all, verdict_lines, write_page

    start = time.perf_counter()
    console = Terminal(highlight=False)
    try:
        scores = run_all(out, workers=workers)
    except KeyboardInterrupt as stopped:
        say(f"rankreg: stopped; `rankreg demo --out {out}` goes on where it was", err=True)
        raise typer.Exit(130) from stopped
    results = results_of(scores)
    console.print(result_table(results))
    for line in verdict_lines(contrasts(results), len(next(iter(results.values())))):
        console.print(line, markup=False)
    page = write_page(out / "report.html", scores)
    console.print(f"To look at in a browser: {page.resolve()}", markup=False, soft_wrap=True)
    console.print(
        f"Runs, checkpoints and scores: {out.resolve()} ({time.perf_counter() - start:.0f} s)",
        markup=False,
        soft_wrap=True,
    )
