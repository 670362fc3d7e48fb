import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankreg.datasets.splits import Samples, Splits
from rankreg.train.loop import Batches, balanced


def samples(count: int) -> Samples:
    rows = np.arange(count)
    return Samples(np.arange(2 * count, dtype=np.float32).reshape(-1, 2), rows, rows % 5 // 4, rows)


def batches(count: int, size: int, rank: int = 0, processes: int = 1, sampling: str = "shuffled") -> Batches:
    return Batches(samples(count), batch_size=size, sampling=sampling, seed=7, rank=rank, processes=processes)


@given(st.integers(8, 200), st.integers(8, 64), st.integers(1, 4), st.integers(0, 5))
def test_processes_share_an_epoch_in_which_every_sample_comes_once(
    count: int, size: int, processes: int, epoch: int
) -> None:
    shares = [list(batches(count, size, rank, processes).epoch(epoch)) for rank in range(processes)]
    whole = list(batches(count, size).epoch(epoch))
    assert len({len(share) for share in shares}) == 1
    sizes = [len(batch.ids) for batch in whole]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    for parts, one in zip(zip(*shares, strict=True), whole, strict=True):
        assert torch.equal(torch.cat([part.ids for part in parts]), one.ids)
        assert all(len(part.ids) for part in parts)
    ids = torch.cat([batch.ids for batch in whole])
    assert sorted(ids.tolist()) == list(range(count))
    inputs = torch.cat([batch.inputs for batch in whole])
    assert torch.equal(inputs[:, 0], 2.0 * ids)


def test_an_epoch_can_be_entered_anywhere_and_epochs_differ() -> None:
    whole, rest = list(batches(100, 16).epoch(3)), list(batches(100, 16).epoch(3, start=4))
    assert len(whole) == 7
    for a, b in zip(whole[4:], rest, strict=True):
        assert torch.equal(a.ids, b.ids)
        assert torch.equal(a.drawings, b.drawings)
    other = torch.cat([batch.ids for batch in batches(100, 16).epoch(4)])
    assert not torch.equal(other, torch.cat([batch.ids for batch in whole]))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(0, 100))
def test_balanced_drawing_gives_classes_and_their_members_equal_shares(sizes: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = balanced(labels, np.random.default_rng(seed))
    assert len(drawn) == len(labels)
    per_class = np.bincount(labels[drawn], minlength=len(sizes))
    assert per_class.max() - per_class.min() <= 1
    times = np.bincount(drawn, minlength=len(labels))
    for label in range(len(sizes)):
        assert np.ptp(times[labels == label]) <= 1


def test_images_become_channels_last_views(images: Splits) -> None:
    loader = Batches(images["train"], batch_size=16, sampling="shuffled", seed=0, rank=0, processes=1)
    batch = next(loader.epoch(0))
    assert batch.inputs.dtype == torch.uint8
    assert batch.inputs.shape[1:] == (3, 8, 8)
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    raw = images["train"].inputs(batch.ids.numpy())
    np.testing.assert_array_equal(batch.inputs.permute(0, 2, 3, 1).numpy(), raw)


def test_more_processes_than_a_batch_has_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot share"):
        batches(100, 2, processes=3)
