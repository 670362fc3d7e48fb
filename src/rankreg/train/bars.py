"""How far a run is, for people who watch it."""

from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rankreg._terminal import Terminal
from rankreg.train.config import TrainConfig
from rankreg.train.loop import Training


def training_bar(training: Training, progress: bool | None) -> Progress:
    """A bar on standard error, shown by the first process if `progress` is true or, by default, to a terminal."""
    console = Terminal(stderr=True)
    shown = console.is_terminal if progress is None else progress
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console, disable=not shown or training.world.rank != 0, transient=True)


def epoch_summary(record: dict[str, Any], config: TrainConfig) -> str:
    """What an epoch came to, in a line."""
    found = record["validation"]
    return (
        f"epoch {record['epoch'] + 1}/{config.epochs}, validation AUC {100 * found['auc']:.1f},"
        f" FPR at {100 * config.tpr:g} % TPR {100 * found['fpr']:.1f}"
    )
