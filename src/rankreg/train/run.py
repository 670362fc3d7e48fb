"""A run from data and config to scores on disk; started again, it goes on where it stopped."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress
from torch import nn

from rankreg.datasets.splits import Splits
from rankreg.distributed import join
from rankreg.models import build_model
from rankreg.scores import Scores
from rankreg.train.bars import epoch_summary, training_bar
from rankreg.train.config import TrainConfig
from rankreg.train.folder import claim, locked, read_state, write_lines, write_state
from rankreg.train.loop import DivergenceError, Training, load_weights
from rankreg.train.randomness import borrowed_randomness
from rankreg.train.results import Results, read_finished, write_finished
from rankreg.train.scoring import check_model, score_together
from rankreg.train.signals import Interrupted, Request, stop_requests
from rankreg.train.task import complete, task_of


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: the network of the best epoch, its scores by part, one record per epoch.

    config is complete: what was left to the data (loss, network, head) is filled in. diverged: how training
    ended before its time, if it did.
    """

    folder: Path
    config: TrainConfig
    model: nn.Module
    scores: Mapping[str, Scores]
    history: list[dict[str, Any]]
    best_epoch: int
    diverged: str | None = None


def train(
    splits: Splits,
    config: TrainConfig,
    out_dir: Path | str,
    *,
    model: nn.Module | None = None,
    progress: bool | None = None,
    keep_diverged: bool = False,
    watch: Mapping[str, Sequence[str]] | None = None,
) -> Run:
    """Train on `splits`, choose the epoch on the validation part, score all parts but the training one.

    out_dir: the run's folder, with config.json, data.json, metrics.jsonl (one record per epoch), last.pt, best.pt
    and scores-PART.npz. A finished run is read, an unfinished one goes on exactly where it stopped, another run's
    folder is refused. model: a network of one's own, trained in place instead of the one config.model describes;
    it gets uint8 images (N, 3, H, W), for which `Pixels` is the usual first layer, or float32 rows, and returns
    (N,) scores or (N, K) logits. progress: show a bar; by default when standard error is a terminal. Under
    torchrun every process calls this with the same arguments. Ctrl-C saves and raises `Interrupted`, NaN raises
    `DivergenceError` (a ValueError); with keep_diverged the run ends there, if an epoch was finished before.
    watch: for learning curves, unions of parts by name, such as {"test": ("test",)}. The AUC and FPR there go into
    every epoch's record; nothing is chosen by them.
    """
    world = join(config.device)
    folder = Path(out_dir)
    task = task_of(splits, config)
    config = complete(config, task, splits["train"], own_model=model is not None)
    with ExitStack() as stack:
        world.first(lambda: stack.enter_context(locked(folder)))
        world.first(lambda: claim(folder, config, splits, progress=progress))
        stack.enter_context(borrowed_randomness(config.seed))
        network = build_model(config.model) if config.model is not None else model
        assert network is not None  # `complete` left one of the two
        finished = world.first(lambda: read_finished(folder, splits))
        if finished is not None:
            return _run(folder, config, network, finished)

        training = Training(splits, config, task, network, world, watch=watch)
        check_model(network, splits["train"], task.classes, world.device)
        state = world.first(lambda: read_state(folder / "last.pt"))
        if state is not None:
            training.load_state_dict(state)
        request = stack.enter_context(stop_requests())
        diverged = None
        with training_bar(training, progress) as bar:
            try:
                _run_epochs(training, folder, request, bar)
            except DivergenceError as error:
                if not keep_diverged or not training.history:
                    raise
                diverged = str(error)
        return _run(folder, config, network, _results(training, folder, diverged))


def _run_epochs(training: Training, folder: Path, request: Request, bar: Progress) -> None:
    """Train, with a checkpoint after every epoch, and at once when somebody asks to stop."""
    task = bar.add_task("", total=training.config.epochs * training.batches.steps)
    bar.update(task, completed=training.epoch * training.batches.steps + training.steps_done)
    for record in training.run():
        if record is not None:
            _save(training, folder)
            bar.update(task, description=epoch_summary(record, training.config))
            continue
        bar.advance(task)
        if training.world.any(request.made):
            _save(training, folder)
            raise Interrupted(
                f"stopped in epoch {training.epoch + 1} after step {training.steps_done} of"
                f" {training.batches.steps}, and saved: the same command again goes on from {folder}"
            )


def _save(training: Training, folder: Path) -> None:
    """Write the checkpoint, from which everything else can be made again, then the rest."""
    state = training.state_dict()

    def write() -> None:
        write_state(folder / "last.pt", state)
        write_lines(folder / "metrics.jsonl", training.history)
        if training.history and training.history[-1]["better"]:
            write_state(folder / "best.pt", state["best"])

    training.world.first(write)


def _results(training: Training, folder: Path, diverged: str | None) -> Results:
    """The best epoch's weights and their scores, computed and written."""
    best, world = training.best, training.world
    assert best is not None  # there is at least one epoch
    training.network.load_state_dict(best["model"])
    scores = {
        name: score_together(training.network, samples, precision=training.config.precision, world=world)
        for name, samples in training.splits.parts.items()
        if name != "train"
    }
    results = Results(best, scores, training.history, diverged)
    world.first(lambda: write_finished(folder, results))
    return results


def _run(folder: Path, config: TrainConfig, network: nn.Module, results: Results) -> Run:
    load_weights(network, results.best["model"])
    scores, history, best = results.scores, results.history, results.best["epoch"]
    return Run(folder, config, network.eval(), scores, history, best, results.diverged)
