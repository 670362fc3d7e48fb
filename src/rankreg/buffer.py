"""The buffer: hard positives that are appended to every batch."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar, overload

import torch
from torch import Tensor, nn

from rankreg._checks import check_ids, check_scores
from rankreg.metrics import column_hint
from rankreg.names import look_up

Tree = TypeVar("Tree")
PolicyName = Literal["dequeue-max", "dequeue-min", "fifo"]

# How willingly a sample leaves: from scores in order of entry to keys, the highest leaves first.
POLICIES: dict[str, Callable[[Tensor], Tensor]] = {
    "dequeue-max": lambda scores: scores,
    "dequeue-min": torch.neg,
    "fifo": lambda scores: -torch.arange(len(scores), device=scores.device),
}


class PositiveBuffer(nn.Module):
    """Up to `capacity` positive samples, appended to every batch so that each batch has something to rank.

    It fills up first. Then every new positive takes the place of a held one, chosen by the policy.
    When a batch brings more positives than the buffer holds, the same policy chooses among them. A
    sample may be held twice, as in the paper, unless ids are given.

    Inputs are a tensor, or any nested dict, list or tuple of tensors whose first axis counts samples.
    They are kept as given, so extend before augmenting. Contents, order and scores are in
    `state_dict()`. They follow `.to(device)` and the batch's device. On a GPU, `update` waits for the
    batch's labels.

    Args:
        capacity: how many positives it holds. 0 switches it off. Default 32.
        policy: which held sample leaves: the one with the highest score ("dequeue-max", which keeps
            hard positives), the lowest ("dequeue-min") or the oldest ("fifo").
        positive: the label of a positive. Default 1; a class index in multi-class use.

    Raises:
        ValueError: the capacity is negative or the policy is unknown.

    Example:
        >>> import torch
        >>> from rankreg import PositiveBuffer
        >>> buffer = PositiveBuffer(capacity=2)
        >>> for batch in torch.randn(3, 8, 4):
        ...     inputs, labels = buffer.extend(batch, torch.tensor([1, 0, 0, 0, 0, 0, 0, 0]))
        ...     scores = inputs.sum(dim=1)  # your model, your loss, your step
        ...     buffer.update(inputs, labels, scores)
        >>> len(buffer), len(labels)
        (2, 10)

    Reference: Mohammadi et al., CVPR 2023, section 3.5.
    """

    def __init__(self, capacity: int = 32, policy: PolicyName = "dequeue-max", *, positive: int = 1) -> None:
        super().__init__()
        if not isinstance(capacity, int) or capacity < 0:
            raise ValueError(f"capacity must be a whole number of at least 0, got {capacity}: 0 switches it off")
        look_up(POLICIES, policy, "policy")
        self.capacity, self.policy, self.positive = capacity, policy, positive
        self.inputs: Any = None
        self.scores = torch.empty(0)
        self.ids: Tensor | None = None
        self._batch_size: int | None = None  # of the batch extended last, until its update

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def extend(self, inputs: Tree, labels: Tensor) -> tuple[Tree, Tensor]: ...
    @overload
    def extend(self, inputs: Tree, labels: Tensor, ids: Tensor) -> tuple[Tree, Tensor, Tensor]: ...
    def extend(self, inputs: Any, labels: Tensor, ids: Tensor | None = None) -> tuple[Any, ...]:
        """Append the whole buffer to a batch.

        Args:
            inputs: the batch, any nesting of tensors with N rows.
            labels: shape (N,).
            ids: the index of each sample in the training set. Give them always or never.

        Returns:
            Inputs, labels and, if given, ids, with the buffer at the end.

        Raises:
            ValueError: rows, structure or dtype differ from the samples held.
        """
        self._check(inputs, labels, ids)
        self._batch_size = len(labels)
        if len(self):
            self.to(labels.device)
            inputs = join_rows(inputs, self.inputs)
            labels = torch.cat([labels, labels.new_full((len(self),), self.positive)])
            ids = ids if ids is None or self.ids is None else torch.cat([ids, self.ids])
        return (inputs, labels) if ids is None else (inputs, labels, ids)

    def update(self, inputs: Any, labels: Tensor, scores: Tensor, ids: Tensor | None = None) -> None:
        """Take in the batch's positives, and give the held ones their new scores.

        Without an `extend` before it, every row is new and the held samples keep their scores.

        Args:
            inputs: what `extend` returned.
            labels: what `extend` returned.
            scores: the model's score of each of these samples, one each, shape (N,).
            ids: what `extend` returned, if it was given ids.

        Raises:
            ValueError: shapes do not fit what `extend` returned, or scores contain NaN.
        """
        self._check(inputs, labels, ids)
        if scores.shape != labels.shape:
            several = scores.ndim == 2 and scores.shape[1] > 1
            hint = ": for logits (N, K) pass positive_score(logits, positive)" if several else ""
            raise ValueError(
                f"expected one score per sample, shape {tuple(labels.shape)}, got {tuple(scores.shape)}"
                f"{hint or column_hint(tuple(scores.shape), 'scores', 'squeeze(1)')}"
            )
        check_scores(scores)
        batch_size = len(labels) if self._batch_size is None else self._batch_size
        if self._batch_size is not None and len(labels) != batch_size + len(self):
            raise ValueError(
                f"extend returned {batch_size} + {len(self)} samples, update got {len(labels)}:"
                " pass the extended inputs, labels and scores"
            )
        scores = scores.detach().float()
        if self._batch_size is not None:
            self.scores = scores[batch_size:].clone()
        self._batch_size = None
        if self.capacity:
            self._admit(inputs, scores, ids, self._new_rows(labels[:batch_size], ids))

    def _new_rows(self, labels: Tensor, ids: Tensor | None) -> Tensor:
        """Where in the batch the positives are; with ids, only those not held yet, each once."""
        rows = (labels == self.positive).nonzero().squeeze(1)
        if ids is None or not len(rows):
            return rows
        ordered, order = ids[rows].sort(stable=True)
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        if self.ids is not None:
            first &= ~torch.isin(ordered, self.ids)
        return rows[order[first].sort().values]

    def _admit(self, inputs: Any, scores: Tensor, ids: Tensor | None, rows: Tensor) -> None:
        if not len(rows):
            return
        surplus = max(0, len(self) + len(rows) - self.capacity)
        from_held = min(surplus, len(self))
        stay = self._staying(self.scores, from_held)
        enter = rows[self._staying(scores[rows], surplus - from_held)]
        arriving = map_rows(lambda leaf: leaf.detach()[enter], inputs)
        self.inputs = join_rows(map_rows(lambda leaf: leaf[stay], self.inputs), arriving) if len(self) else arriving
        if ids is not None:
            self.ids = ids[enter] if self.ids is None else torch.cat([self.ids[stay], ids[enter]])
        self.scores = torch.cat([self.scores.to(scores.device)[stay], scores[enter]])

    def _staying(self, scores: Tensor, leaving: int) -> Tensor:
        """Indices, in order of entry, of all but the `leaving` first to go."""
        keys = POLICIES[self.policy](scores)
        order = keys.argsort(descending=True, stable=True)  # the older of two equals leaves first
        return order[leaving:].sort().values

    def _check(self, inputs: Any, labels: Tensor, ids: Tensor | None) -> None:
        if labels.ndim != 1:
            raise ValueError(f"expected labels of shape (N,), got {tuple(labels.shape)}")
        _check_rows(inputs, len(labels), like=self.inputs)
        if ids is not None:
            check_ids(ids, labels)
        if len(self) and (ids is None) != (self.ids is None):
            raise ValueError(
                "pass ids always or never: the buffer holds samples "
                + ("with ids" if ids is None else "without ids")
            )

    def get_extra_state(self) -> dict[str, Any]:
        """Everything that survives a step, for `state_dict()`."""
        return {"inputs": _plain(self.inputs), "scores": self.scores, "ids": self.ids}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Hold exactly what the saved buffer held.

        Args:
            state: what `get_extra_state` returned.
        """
        if len(state["scores"]) > self.capacity:
            raise ValueError(
                f"the saved buffer holds {len(state['scores'])} samples, this one at most {self.capacity}:"
                " build it with the capacity it was saved with"
            )
        self.inputs, self.scores, self.ids = state["inputs"], state["scores"], state["ids"]
        self._batch_size = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow `.to`, `.cuda` and `.cpu`: the device only, as values are data and keep their dtype."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(self.scores).device
        move: Callable[[Tensor], Tensor] = lambda leaf: leaf.to(device)  # noqa: E731
        self.inputs = self.inputs if self.inputs is None else map_rows(move, self.inputs)
        self.scores = move(self.scores)
        self.ids = self.ids if self.ids is None else move(self.ids)
        return self

    def extra_repr(self) -> str:
        return f"{len(self)} of {self.capacity}, {self.policy!r}"


# Trees of rows: nested mappings, lists and tuples of tensors whose first axis counts samples.


def map_rows(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    """Apply `function` leaf by leaf; the result has the structure of `tree`, with plain dicts."""
    if isinstance(tree, Mapping):
        return {key: map_rows(function, value, *(other[key] for other in others)) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_rows(function, *parts) for parts in zip(tree, *others, strict=True)))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_rows(function, *parts) for parts in zip(tree, *others, strict=True))
    return function(tree, *others)


def join_rows(first: Any, second: Any) -> Any:
    """The rows of both, one after the other."""
    return map_rows(lambda a, b: torch.cat([a, b]), first, second)


def _plain(tree: Any) -> Any:
    """The same tree of dicts, lists and tuples only, which `torch.load` reads without executing anything."""
    if isinstance(tree, Mapping):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(_plain(part) for part in tree)
    return tree


def _check_rows(tree: Any, rows: int, *, like: Any = None, where: str = "inputs") -> None:
    """Every leaf is a tensor with that many rows and, if `like` is given, built and shaped like it."""
    if isinstance(tree, Mapping):
        parts, same = list(tree.items()), isinstance(like, Mapping) and tree.keys() == like.keys()
    elif isinstance(tree, (list, tuple)):
        parts, same = list(enumerate(tree)), isinstance(like, (list, tuple)) and len(tree) == len(like)
    else:
        _check_leaf(tree, rows, like, where)
        return
    if like is not None and not same:
        raise ValueError(f"{where} are built differently from the samples held so far: keep one structure")
    for key, part in parts:
        _check_rows(part, rows, like=None if like is None else like[key], where=f"{where}[{key!r}]")


def _check_leaf(leaf: Any, rows: int, like: Any, where: str) -> None:
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where} must be a tensor or a nested dict, list or tuple of tensors, got {type(leaf).__name__}:"
            " leave file names and other words out of the batch"
        )
    if leaf.ndim == 0 or len(leaf) != rows:
        raise ValueError(f"{where} must have one row per label, {rows}, got shape {tuple(leaf.shape)}")
    if like is None:
        return
    if not isinstance(like, Tensor) or leaf.shape[1:] != like.shape[1:] or leaf.dtype != like.dtype:
        held = f"{like.dtype} {tuple(like.shape[1:])}" if isinstance(like, Tensor) else type(like).__name__
        raise ValueError(
            f"{where}: samples are {leaf.dtype} {tuple(leaf.shape[1:])}, those held are {held}: keep one kind"
        )
