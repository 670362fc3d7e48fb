"""Which number format the network computes in."""

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import torch

FAST_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # the last one is Arm's name


def resolve_precision(precision: str, device: torch.device) -> torch.dtype:
    """The format meant: "auto" is bfloat16 where the hardware multiplies in it, not where it is emulated."""
    if precision == "auto":
        fast = torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else _cpu_is_fast()
        return torch.bfloat16 if fast else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Networks inside run in that format; weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


@cache
def _cpu_is_fast(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    try:
        words = cpuinfo.read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # not Linux
        return False
    return not FAST_BFLOAT16.isdisjoint(words)
