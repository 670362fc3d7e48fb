"""A run from data and config to scores; with a folder, started again, it goes on where it stopped."""

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rankreg.backbones import start_pretrained
from rankreg.datasets.splits import Splits
from rankreg.distributed import World, device_named, join
from rankreg.models import build_model
from rankreg.scores import Scores, mean_scores
from rankreg.terminal import progress_bar
from rankreg.train.config import TrainConfig
from rankreg.train.folder import (
    Finished,
    claim,
    locked,
    read_finished,
    read_scores,
    read_state,
    write_checkpoint,
    write_finished,
)
from rankreg.train.inference import check_model, score_together
from rankreg.train.loop import DivergenceError, Training, borrowed_randomness, load_weights
from rankreg.train.task import complete, task_of


class Interrupted(KeyboardInterrupt):
    """Somebody asked a run to stop, and it has saved itself; the message says how to go on."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: where it was saved, or None.
        config: complete: what was left to the data (loss, network, head) is filled in.
        model: the network of the best epoch, in evaluation mode.
        scores: by part.
        history: one record per epoch: rate, training losses, validation results.
        best_epoch: its number, from 0.
        diverged: how training ended too early, or None.
    """

    folder: Path | None
    config: TrainConfig
    model: nn.Module
    scores: Mapping[str, Scores]
    history: list[dict[str, Any]]
    best_epoch: int
    diverged: str | None = None


def train(
    splits: Splits,
    config: TrainConfig,
    out_dir: Path | str | None = None,
    *,
    model: nn.Module | None = None,
    weights: NDArray[np.floating] | None = None,
    score_parts: Sequence[str] | None = None,
    progress: bool | None = None,
    keep_diverged: bool = False,
    watch: Mapping[str, Sequence[str]] | None = None,
) -> Run:
    """Train on the training part, choose the epoch on the validation part, and score the other parts.

    With a folder, a finished run is read, an unfinished one goes on exactly where it stopped, and another
    run's folder is refused. The folder gets config.json, data.json, metrics.jsonl (one record per epoch),
    last.pt, best.pt and scores-PART.npz. Under torchrun every process calls this with the same arguments.

    Args:
        splits: the data; parts "train" and "validation" are needed.
        config: the settings.
        out_dir: the run's folder. Default None: in this process alone, and nothing is written.
        model: a network of your own, trained in place instead of the one `config.model` describes. It gets
            uint8 images (N, 3, H, W), for which `Pixels` is the usual first layer, or float32 rows (N, F),
            and returns (N,) scores or (N, K) logits.
        weights: one factor per training sample of its base loss. Only their ratios matter. A run with a
            folder does not remember them: give the same ones again.
        score_parts: which parts to score at the end. Default: all but "train".
        progress: show a bar. Default: when standard error is a terminal.
        keep_diverged: when training diverges after an epoch or more, keep the best epoch instead of raising.
        watch: for learning curves, unions of parts by name, such as {"test": ("test",)}. Their AUC and FPR go
            into every epoch's record; nothing is chosen by them.

    Returns:
        The run with its best network and scores.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the run is saved. Without a folder, a plain KeyboardInterrupt.
        DivergenceError: a loss or a score is not finite.
        ValueError: the data, the config and the folder do not fit together.

    >>> from rankreg.datasets import load
    >>> run = train(load("digits"), TrainConfig(epochs=2, method="rankreg"), progress=False)
    >>> len(run.history), sorted(run.scores)
    (2, ['test', 'validation'])
    """
    folder = None if out_dir is None else Path(out_dir)
    if folder is not None and weights is not None:
        raise ValueError(
            "a folder does not remember weights, so it could not be told whose run it holds: leave out_dir out"
        )
    world = join(config.device) if folder is not None else _alone(config)
    task = task_of(splits, config)
    config = complete(config, task, splits["train"], own_model=model is not None)
    with ExitStack() as stack:
        if folder is not None:
            world.first(lambda: stack.enter_context(locked(folder)))
            world.first(lambda: claim(folder, config, splits, progress=progress))
        stack.enter_context(borrowed_randomness(config.seed))
        network = _network(config, model)
        finished = world.first(lambda: read_finished(folder)) if folder is not None else None
        was_finished = finished is not None
        if finished is None:
            start_pretrained(network, config.model, splits["train"])
            training = Training(splits, config, task, network, world, weights=weights, watch=watch)
            finished = _run_to_the_end(training, folder, progress, keep_diverged=keep_diverged)
        load_weights(network.to(world.device), finished.best["model"])
        wanted = [name for name in splits.parts if name != "train"] if score_parts is None else score_parts
        scores = world.first(lambda: read_scores(folder, wanted)) if folder is not None and was_finished else {}
        for part in (part for part in wanted if part not in scores):
            scores[part] = score_together(network, splits[part], precision=config.precision, world=world)
        if folder is not None:
            world.first(lambda: write_finished(folder, finished, scores, anew=not was_finished))
    best, history, diverged = finished
    network = network.cpu() if folder is None else network
    return Run(folder, config, network.eval(), scores, history, best["epoch"], diverged)


def epochs(splits: Splits, config: TrainConfig) -> Generator[dict[str, Any]]:
    """Train as `train` does, without a folder, and yield the record of every epoch.

    Close the generator to stop early.
    """
    task = task_of(splits, config)
    config = complete(config, task, splits["train"], own_model=False)
    with borrowed_randomness(config.seed):
        network = _network(config, None)
        start_pretrained(network, config.model, splits["train"])
        yield from _epochs(Training(splits, config, task, network, _alone(config)), None, False)


def _epochs(training: Training, folder: Path | None, progress: bool | None) -> Iterator[dict[str, Any]]:
    """The loop over epochs, the only one: train from where it stands to the end, a record per epoch.

    With a folder there is a checkpoint after every epoch, and at once when somebody asks to stop.
    """
    config, world, steps = training.config, training.world, training.batches.steps
    check_model(training.network, training.splits["train"], training.task.classes, world.device)
    state = world.first(lambda: read_state(folder / "last.pt")) if folder is not None else None
    if state is not None:
        training.load_state_dict(state)
    visible = progress if training.world.rank == 0 else False
    with _stop_requests(folder is not None) as requests, progress_bar(shown=visible) as bar:
        shown = bar.add_task("", total=config.epochs * steps)
        bar.update(shown, completed=training.epoch * steps + training.steps_done)
        while not training.over:
            training.start_epoch()
            for batch in training.batches.epoch(training.epoch, start=training.steps_done):
                training.step(batch)
                bar.advance(shown)
                if folder is not None and world.any(bool(requests)):
                    _save(training, folder)
                    raise Interrupted(
                        f"stopped in epoch {training.epoch + 1} after step {training.steps_done} of {steps},"
                        f" and saved: the same command again goes on from {folder}"
                    )
            record = training.end_epoch()
            if folder is not None:
                _save(training, folder)
            bar.update(shown, description=epoch_summary(record, config))
            yield record


def _run_to_the_end(
    training: Training, folder: Path | None, progress: bool | None, *, keep_diverged: bool
) -> Finished:
    diverged = None
    try:
        for _ in _epochs(training, folder, progress):
            pass
    except DivergenceError as error:
        if not keep_diverged or not training.history:
            raise
        diverged = str(error)
    assert training.best is not None  # there is at least one epoch
    return Finished(training.best, training.history, diverged)


def _save(training: Training, folder: Path) -> None:
    state = training.state_dict()
    training.world.first(lambda: write_checkpoint(folder, state))


def _network(config: TrainConfig, model: nn.Module | None) -> nn.Module:
    network = build_model(config.model) if config.model is not None else model
    assert network is not None  # `complete` left one of the two
    return network


def _alone(config: TrainConfig) -> World:
    """This process without others, also under torchrun."""
    return World(device=device_named(config.device, 0))


@contextmanager
def _stop_requests(heeded: bool) -> Iterator[list[int]]:
    """A list that gets the number of the first SIGINT or SIGTERM; a second one acts at once, as usual.

    It is not a `threading.Event`: a signal may interrupt its `set`, and the handler would wait for itself.
    """
    requests: list[int] = []
    if not heeded or threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield requests
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def epoch_summary(record: dict[str, Any], config: TrainConfig) -> str:
    """What an epoch came to, in a line."""
    found = record["validation"]
    return (
        f"epoch {record['epoch'] + 1}/{config.epochs}, validation AUC {100 * found['auc']:.1f},"
        f" FPR at {100 * config.tpr:g} % TPR {100 * found['fpr']:.1f}"
    )


def train_in_memory(splits: Splits, config: TrainConfig, **options: Any) -> Run:
    """The old name of `train` without a folder."""
    warnings.warn("train_in_memory(splits, config) is now train(splits, config)", FutureWarning, stacklevel=2)
    return train(splits, config, score_parts=(), **options)


def train_ensemble(
    splits_of: Callable[[int], Splits], config: TrainConfig, out_dir: Path | str, *, members: int = 10
) -> dict[str, Scores]:
    """Train a network on each of several splits and average their scores.

    Member k trains in out_dir/member-k with seed config.seed + k. Finished members are not repeated.

    Args:
        splits_of: the split of member k. All members must keep the same samples for testing.
        config: the training of member 0.
        out_dir: the folder of the members.
        members: how many networks, default 10.

    Returns:
        The mean scores of every part that all members share, by the part's name.

    Raises:
        ValueError: fewer than one member, or members that scored other samples.

    >>> from rankreg.datasets import load
    >>> train_ensemble(lambda k: load("digits", seed=k), TrainConfig(), "runs", members=0)
    Traceback (most recent call last):
    ValueError: members must be at least 1, got 0
    """
    if members < 1:
        raise ValueError(f"members must be at least 1, got {members}")
    runs = {}
    for k in range(members):
        own = config.model_copy(update={"seed": config.seed + k})
        runs[f"member-{k}"] = train(splits_of(k), own, Path(out_dir) / f"member-{k}").scores
    shared = set.intersection(*(set(scores) for scores in runs.values()))
    return {part: mean_scores({name: scores[part] for name, scores in runs.items()}) for part in sorted(shared)}
