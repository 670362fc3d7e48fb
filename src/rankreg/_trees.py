"""Nested mappings, lists and tuples of tensors whose first axis counts samples. Mappings become plain dicts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def map_rows(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    """Apply `function` leaf by leaf; the result has the structure of `tree`."""
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


def plain(tree: Any) -> Any:
    """The same tree of dicts, lists and tuples only, which `torch.load` reads without executing anything."""
    if isinstance(tree, Mapping):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(plain(part) for part in tree)
    return tree


def check_rows(tree: Any, rows: int, *, like: Any = None, where: str = "inputs") -> None:
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
        check_rows(part, rows, like=None if like is None else like[key], where=f"{where}[{key!r}]")


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
