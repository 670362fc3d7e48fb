"""Ways to damage a valid file: bytes, text, JSON, TOML, archives, pickles, Parquet, arrays."""

import gzip
import io
import json
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankreg.bundle.card import digest

NUMBERS = (b"9" * 400, b"-1", b"1e999", b"nan", b"0", b"99999999999999999999", b"1e-400", b"", b"\xff", b"true")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 10**299, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 5000, "\ud800"),
    *("\x1b[2J", [], {}, [[]], [1, "a", None], {"name": 3}, "../../../etc/passwd", 2**63, -(2**63) - 1, 2**64),
)
TOML = (
    'loss = {name = "w-bce", settings = {counts = 1.0}}',
    'loss = {name = "bce", settings = {name = 1.0}}',
    'loss = {name = "bce", settings = {dataset = 1.0}}',
    'model = {name = "mlp", hidden = [1000000000000]}',
    f'model = {{name = "mlp", hidden = {[8] * 100_000}}}',
    'model = {name = "resnet10", width = 1e300}',
    f"epochs = {'9' * 400}",
    f"epochs = {'9' * 5000}",
    f"seed = {10**30}",
    f"a = {'[' * 5000}{']' * 5000}",
    f"a = {'{a = ' * 5000}1{'}' * 5000}",
    f"{'a.' * 5000}b = 1",
    "".join(f"key{k} = {k}\n" for k in range(5000)),
    "learning_rate = inf",
    "learning_rate = nan",
    "method = {name = 'rankreg', reach = 1e999}",
    "model = 3",
    "optimizer = {name = 'adamw', betas = [1, 2, 3]}",
)


def broken(content: bytes, rng: random.Random) -> bytes:
    """Bytes cut, flipped, moved, doubled or replaced."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 4, 64, 10**9)))
        kind = rng.randrange(9)
        if kind == 0:
            content = content[:a]
        elif kind == 1:
            content = content[:a] + bytes(byte ^ (1 << rng.randrange(8)) for byte in content[a:b]) + content[b:]
        elif kind == 2:
            place = rng.randrange(len(content) + 1)
            content = content[:place] + content[a:b] + content[place:]
        elif kind == 3:
            content = content[:a] + content[b:]
        elif kind == 4:
            content = content[:a] + rng.randbytes(b - a) + content[b:]
        elif kind == 5:
            content = content[:a] + b"\0" * (b - a) + content[b:]
        elif kind == 6:
            content = content[:a] + rng.choice(NUMBERS) + content[b:]
        elif kind == 7:
            content = content[:a] + b"\xff" * min(b - a, 8) + content[min(b, a + 8) :]
        else:
            content = content + content[a:b]
        content = content[:2_000_000] or b"\n"
    return content


def broken_text(content: bytes, rng: random.Random) -> bytes:
    """The same, or a cell, a line or a quotation mark that is not what it was."""
    lines = content.split(b"\n")
    kind, place = rng.randrange(8), rng.randrange(len(lines))
    cells = lines[place].split(b",")
    if kind == 0:
        cells[rng.randrange(len(cells))] = rng.choice(
            (*NUMBERS, b'"', b"\x1b[2J", b"=1+1", b"1,2,3", b"x" * 200_000)
        )
        lines[place] = b",".join(cells)
    elif kind == 1:
        lines[place : place + 1] = [lines[place]] * rng.choice((0, 2, 500))
    elif kind == 2:
        lines[0] = rng.choice((b"", lines[-1], b",".join([b"y"] * 9), lines[0] + b"," + lines[0], b";".join(cells)))
    elif kind == 3:
        lines[place] = b'"' + lines[place]
    elif kind == 4:
        return content.decode(errors="replace").encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
    else:
        return broken(content, rng)
    return b"\n".join(lines)


def broken_json(content: bytes, rng: random.Random) -> bytes:
    """A value, anywhere, replaced, removed or added; or broken as text."""
    if rng.random() < 0.25:
        return broken(content, rng)
    if rng.random() < 0.05:
        depth = rng.choice((50, 900, 5000, 100_000))
        return b'{"threshold": ' + b"[" * depth + b"]" * depth + b"}"
    return json.dumps(edited(json.loads(content), rng)).encode()


def edited(value: Any, rng: random.Random) -> Any:
    """JSON in which something is not what it was."""
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        outer = pending.pop()
        keys = list(outer) if isinstance(outer, dict) else range(len(outer)) if isinstance(outer, list) else ()
        places += [(outer, key) for key in keys]
        pending += [outer[key] for key in keys]
    if not places or rng.random() < 0.02:
        return rng.choice(VALUES)
    outer, key = rng.choice(places)
    if rng.random() < 0.15:
        del outer[key]
    elif isinstance(outer, dict) and rng.random() < 0.1:
        outer["surprise"] = rng.choice(VALUES)
    else:
        outer[key] = rng.choice(VALUES)
    return value


def resealed(content: bytes, rng: random.Random) -> bytes:
    """A card that was edited and sealed again, as anybody can."""
    if rng.random() < 0.15:
        return broken_json(content, rng)
    card = edited(json.loads(content), rng)
    try:
        if isinstance(card, dict):
            card["sha256"] = digest(card)
    except UnicodeEncodeError:
        pass
    return json.dumps(card).encode()


def broken_toml(content: bytes, rng: random.Random) -> bytes:
    """One of the known attacks, or broken as text."""
    return rng.choice(TOML).encode() if rng.random() < 0.4 else broken_text(content, rng)


def broken_trees(content: bytes, rng: random.Random) -> bytes:
    """A number of a tree, or a line, that is not what it was; or broken as text."""
    lines = content.split(b"\n")
    numbers = [place for place, line in enumerate(lines) if b"=" in line]
    place = rng.choice(numbers)
    name, _, values = lines[place].partition(b"=")
    words = values.split(b" ")
    kind = rng.randrange(4)
    if kind == 0:
        words[rng.randrange(len(words))] = rng.choice(
            (*NUMBERS, b"7", b"-2", b"2147483648", b"-2147483649", b"1_0")
        )
    elif kind == 1:
        words = words * rng.choice((2, 1000)) if rng.random() < 0.5 else words[:-1]
    elif kind == 2:
        words = rng.sample(words, len(words))
    else:
        return broken(content, rng)
    lines[place] = name + b"=" + b" ".join(words)
    return b"\n".join(lines)


def packed(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Callable[..., bytes]:
    """Damage before or after packing, or a bomb of modest size."""

    def damage(content: bytes, rng: random.Random) -> bytes:
        kind = rng.randrange(10)
        if kind == 0:
            return pack(b"0" * 20_000_000)
        return broken(content, rng) if kind < 7 else pack(broken_text(unpack(content), rng))

    return damage


def broken_pickle(marker: Path) -> Callable[..., bytes]:
    """Broken bytes, instructions that ask for memory, or code to run."""

    class Malicious:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return (Path.touch, (marker,))

    attacks = [
        b"\x80\x02r\xff\xff\xff\xff.",
        b"\x80\x02Nr\xff\xff\xff\x7f.",
        b"\x80\x04\x8e" + b"\xff" * 8 + b".",
        b"\x80\x04\x95" + b"\xff" * 8 + b".",
        b"B\xff\xff\xff\x7f.",
        b"T\xff\xff\xff\x7f.",
        b"Np4294967295\n.",
        b"N" + b"0" * 10 + b".",
        b"(" * 100_000 + b".",
        b"]" * 600_000 + b".",
        *(pickle.dumps({b"data": Malicious(), b"labels": [1]}, protocol) for protocol in range(6)),
        *(pickle.dumps({b"data": 1, b"labels": [10**400]}, protocol) for protocol in (2, 4)),
    ]

    def damage(content: bytes, rng: random.Random) -> bytes:
        kind = rng.randrange(6)
        if kind == 0:
            return rng.choice(attacks)
        if kind == 1:  # shapes and labels of any kind; the official files write numbers as J, M and K
            old, new = rng.choice(((b"J", 4), (b"M", 2), (b"K", 1)))
            place = content.find(old, rng.randrange(300))
            number = rng.choice((b"N", b"K\xff", b"J\xff\xff\xff\xff", b"U\x01a", b"\x8a\x0d" + b"\x7f" * 13, b"]"))
            return content[:place] + number + content[place + 1 + new :]
        return broken(content, rng)

    return damage


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 6)


def zipped(content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scores.csv", content)
    return sink.getvalue()


def unpack_zip(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(archive.namelist()[0])


def tarred(content: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        member = tarfile.TarInfo("scores.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def unpack_tar(content: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        file = archive.extractfile(archive.getmembers()[0])
        assert file is not None
        return file.read()


def odd_parquet(content: bytes, rng: random.Random) -> bytes:
    """Broken bytes, or columns of types that no score, label or feature has."""
    if rng.random() < 0.6:
        return broken(content, rng)
    table = pd.read_parquet(io.BytesIO(content))
    odd: tuple[Any, ...] = ([1, 2], {"a": 1}, b"\xff\xfe", pd.Timestamp(0), None, "x", True, 10**17, float("nan"))
    name = rng.choice(list(table.columns))
    value = rng.choice(odd)
    column: list[Any] = [value] * len(table)
    if rng.random() < 0.3:
        column[0] = None
    sink = io.BytesIO()
    table.assign(**{name: pd.Series(column, index=table.index)}).to_parquet(sink)
    return sink.getvalue()


def repacked_arrays(content: bytes, rng: random.Random) -> bytes:
    """Broken bytes, or arrays of other types, lengths and shapes; one declares a size that it does not have."""
    if rng.random() < 0.5:
        return broken(content, rng)
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    name = rng.choice(list(arrays))
    choices: tuple[Any, ...] = (
        *(np.zeros(0), np.zeros((2, 3)), np.array("x"), np.array(["a", "b"]), np.array([1 + 2j]), np.arange(5)),
        *(np.array([-5, 10**9, 3]), np.array([None], dtype=object), arrays[name][:1], arrays[name].astype(str)),
    )
    sink = io.BytesIO()
    if rng.random() < 0.2:
        with zipfile.ZipFile(sink, "w") as archive:
            shape = rng.choice(("10000000000,", "10000000000000000000,", "-5,", "4000000000,2"))
            head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00v\x00" + head.encode() + b"\0" * 80)
        return sink.getvalue()
    arrays[name] = rng.choice(choices)
    np.savez(sink, **arrays)
    return sink.getvalue()
