"""The buffer against a plain Python list that does what the paper says, one step after the other."""

import copy
import io
import pickle
from collections import OrderedDict, UserDict
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rankreg import PositiveBuffer
from rankreg.buffer import POLICIES


class Oracle:
    """Samples are (name, score) pairs in order of entry."""

    def __init__(self, capacity: int, policy: str) -> None:
        self.capacity, self.policy = capacity, policy
        self.held: list[tuple[int, float]] = []

    def first_to_leave(self, candidates: list[tuple[int, float]]) -> tuple[int, float]:
        if self.policy == "fifo":
            return candidates[0]
        pick = max if self.policy == "dequeue-max" else min
        return pick(candidates, key=lambda candidate: candidate[1])

    def update(self, new: list[tuple[int, float]]) -> None:
        while len(self.held) + len(new) > self.capacity:
            candidates = self.held or new  # what is held makes room first
            candidates.remove(self.first_to_leave(candidates))
        self.held += new


def score_of(names: Tensor, step: int) -> Tensor:
    """Any fixed mapping without ties that changes from step to step."""
    return torch.sin(names * (7.0 + step))


batches = st.lists(st.lists(st.booleans(), min_size=1, max_size=7), min_size=1, max_size=8)


@given(batches, st.sampled_from(sorted(POLICIES)), st.integers(0, 6))
def test_every_policy_does_what_the_plain_list_does(steps: list[list[bool]], policy: Any, capacity: int) -> None:
    buffer, oracle = PositiveBuffer(capacity, policy), Oracle(capacity, policy)
    name = 1
    for step, positives in enumerate(steps):
        inputs = torch.arange(name, name + len(positives), dtype=torch.float64)
        name += len(positives)
        labels = torch.tensor(positives).long()
        all_inputs, all_labels = buffer.extend(inputs, labels)
        assert all_inputs[len(inputs) :].tolist() == [held for held, _ in oracle.held]
        assert all_labels[len(inputs) :].tolist() == [1] * len(oracle.held)
        scores = score_of(all_inputs, step).float()
        buffer.update(all_inputs, all_labels, scores)
        oracle.held = [(held, float(score_of(torch.tensor(float(held)), step))) for held, _ in oracle.held]
        oracle.update([(int(n), float(s)) for n, s, y in zip(inputs, scores, labels, strict=False) if y])
    assert len(buffer) <= capacity
    if len(buffer):
        assert buffer.inputs.tolist() == [held for held, _ in oracle.held]
        torch.testing.assert_close(buffer.scores, torch.tensor([score for _, score in oracle.held]))
    else:
        assert not oracle.held


def fill(buffer: PositiveBuffer, values: list[float]) -> None:
    inputs = torch.tensor(values)
    buffer.update(inputs, torch.ones(len(values)), inputs)


def test_dequeue_max_keeps_hard_positives_by_their_newest_scores() -> None:
    buffer = PositiveBuffer(3)
    fill(buffer, [1.0, 2.0, 3.0])
    inputs, labels = buffer.extend(torch.tensor([9.0, 5.0]), torch.tensor([1, 0]))
    buffer.update(inputs, labels, torch.tensor([0.5, 0.0, 8.0, 2.0, 3.0]))  # 1.0 has become the easiest
    assert buffer.inputs.tolist() == [2.0, 3.0, 9.0]


@pytest.mark.parametrize(("policy", "kept"), [("dequeue-max", [1, 2]), ("dequeue-min", [3, 4]), ("fifo", [4, 2])])
def test_more_new_positives_than_places_are_chosen_by_the_policy(policy: Any, kept: list[float]) -> None:
    buffer = PositiveBuffer(2, policy)
    fill(buffer, [0.0])
    fill(buffer, [3.0, 1.0, 4.0, 2.0])
    assert sorted(buffer.inputs.tolist()) == sorted(kept)


def test_a_sample_may_be_held_twice_unless_ids_forbid_it() -> None:
    twice, once = PositiveBuffer(8), PositiveBuffer(8)
    inputs, labels, ids = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1, 1, 1]), torch.tensor([7, 7, 3])
    for _ in range(2):
        twice.update(inputs, labels, inputs)
        once.update(inputs, labels, inputs, ids)
    assert twice.inputs.tolist() == [1, 1, 2, 1, 1, 2]
    assert once.inputs.tolist() == [1, 2]
    _, _, extended = once.extend(inputs, labels, ids)
    assert extended.tolist() == [7, 7, 3, 7, 3]


class Pair(NamedTuple):
    image: Tensor
    age: Tensor


def test_inputs_may_be_nested() -> None:
    buffer = PositiveBuffer(4)
    inputs = {"pair": Pair(torch.randn(3, 2, 2), torch.tensor([30, 40, 50])), "rest": [torch.zeros(3, 1)]}
    labels = torch.tensor([0, 1, 1])
    buffer.update(inputs, labels, torch.randn(3))
    extended, extended_labels = buffer.extend(inputs, labels)
    assert isinstance(extended["pair"], Pair)
    assert extended["pair"].age.tolist() == [30, 40, 50, 40, 50]
    assert torch.equal(extended["pair"].image[3:], inputs["pair"].image[1:])  # type: ignore[attr-defined]
    assert extended["rest"][0].shape == (5, 1)
    assert extended_labels.tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", [OrderedDict, UserDict])
def test_any_mapping_may_hold_the_inputs(kind: Any) -> None:
    buffer = PositiveBuffer(4)
    labels = torch.tensor([0, 1])
    for _ in range(3):
        inputs, extended = buffer.extend(kind(x=torch.arange(2.0)), labels)
        buffer.update(inputs, extended, inputs["x"])
    assert buffer.inputs["x"].tolist() == [1, 1, 1]


def test_named_tuples_survive_a_checkpoint_that_executes_nothing() -> None:
    buffer, other = PositiveBuffer(4), PositiveBuffer(4)
    inputs, labels = Pair(torch.randn(2, 3), torch.tensor([30, 40])), torch.tensor([1, 1])
    buffer.update(inputs, labels, torch.zeros(2))
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    extended, _ = other.extend(inputs, labels)
    assert isinstance(extended, Pair)
    assert extended.age.tolist() == [30, 40, 30, 40]


def test_a_buffer_can_be_pickled() -> None:
    buffer = PositiveBuffer(4, "fifo")
    fill(buffer, [1.0, 2.0])
    assert pickle.loads(pickle.dumps(buffer)).inputs.tolist() == [1, 2]


def test_what_is_held_has_no_graph_and_is_not_changed_from_outside() -> None:
    buffer = PositiveBuffer(2)
    inputs = torch.ones(2, 3, requires_grad=True)
    buffer.update(inputs, torch.tensor([1, 1]), inputs.sum(1))
    with torch.no_grad():
        inputs.zero_()
    assert not buffer.inputs.requires_grad
    assert not buffer.scores.requires_grad
    assert buffer.inputs.sum() == 6


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_reloaded_buffer_goes_on_step_for_step(policy: Any, with_ids: bool) -> None:
    def step(buffer: PositiveBuffer, generator: torch.Generator) -> Tensor:
        inputs, labels = torch.randn(6, 2, generator=generator), torch.randint(2, (6,), generator=generator)
        ids = torch.randint(1000, (6,), generator=generator)
        if with_ids:
            inputs, labels, ids = buffer.extend(inputs, labels, ids)
        else:
            inputs, labels = buffer.extend(inputs, labels)
        buffer.update(inputs, labels, inputs.sum(1), ids if with_ids else None)
        return torch.cat([buffer.inputs.flatten(), buffer.scores])

    one, other = PositiveBuffer(5, policy), PositiveBuffer(5, policy)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        step(one, generator)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    copied = torch.Generator()
    copied.set_state(generator.get_state())
    for _ in range(4):
        assert torch.equal(step(one, generator), step(other, copied))


def test_an_empty_buffer_survives_saving() -> None:
    state = copy.deepcopy(PositiveBuffer(3).state_dict())
    buffer = PositiveBuffer(3)
    fill(buffer, [1.0])
    buffer.load_state_dict(state)
    assert len(buffer) == 0
    assert buffer.extend(torch.zeros(2), torch.zeros(2))[0].shape == (2,)


def test_a_state_larger_than_the_buffer_is_refused() -> None:
    large = PositiveBuffer(3)
    fill(large, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="holds 3 samples, this one at most 2"):
        PositiveBuffer(2).load_state_dict(large.state_dict())


def test_moving_the_buffer_moves_everything_and_changes_no_dtype() -> None:
    buffer = PositiveBuffer(2)
    buffer.update({"x": torch.ones(1, 2)}, torch.ones(1), torch.ones(1), torch.tensor([5]))
    buffer.to("meta")
    assert buffer.ids is not None
    assert {buffer.inputs["x"].device.type, buffer.scores.device.type, buffer.ids.device.type} == {"meta"}
    held = PositiveBuffer(2)
    fill(held, [1.0])
    assert held.half().inputs.dtype == torch.float32


def test_capacity_zero_does_nothing() -> None:
    buffer = PositiveBuffer(0)
    fill(buffer, [1.0, 2.0])
    inputs, labels = torch.zeros(2, 3), torch.tensor([0, 1])
    assert buffer.extend(inputs, labels)[0] is inputs
    assert len(buffer) == 0


def test_any_label_may_be_the_positive_one() -> None:
    buffer = PositiveBuffer(4, positive=9)
    inputs, labels = torch.arange(3.0), torch.tensor([9, 1, 9])
    buffer.update(inputs, labels, inputs)
    assert buffer.extend(inputs, labels)[1].tolist() == [9, 1, 9, 9, 9]


def test_misuse_is_refused_with_what_to_do() -> None:
    buffer = PositiveBuffer(4)
    fill(buffer, [1.0, 2.0])
    inputs, labels = torch.zeros(3), torch.tensor([0, 1, 0])
    with pytest.raises(ValueError, match="one row per label"):
        buffer.extend(torch.zeros(2), labels)
    with pytest.raises(ValueError, match="keep one kind"):
        buffer.extend(torch.zeros(3, 5), labels)
    with pytest.raises(ValueError, match="built differently"):
        buffer.extend((inputs,), labels)
    with pytest.raises(ValueError, match="got str"):
        PositiveBuffer(4).extend(["a", "b", "c"], labels)
    with pytest.raises(ValueError, match="ids always or never"):
        buffer.extend(inputs, labels, torch.arange(3))
    with pytest.raises(ValueError, match="integer ids"):
        PositiveBuffer(4).extend(inputs, labels, torch.rand(3))
    with pytest.raises(ValueError, match="positive_score"):
        buffer.update(inputs, labels, torch.zeros(3, 2))
    with pytest.raises(ValueError, match="NaN"):
        buffer.update(inputs, labels, torch.full((3,), float("nan")))
    buffer.extend(inputs, labels)
    with pytest.raises(ValueError, match=r"3 \+ 2 samples, update got 3"):
        buffer.update(inputs, labels, torch.zeros(3))
    with pytest.raises(ValueError, match="did you mean 'dequeue-max'"):
        PositiveBuffer(4, "dequeue_max")  # type: ignore[arg-type]
    for capacity in (-1, 3.5):
        with pytest.raises(ValueError, match="capacity"):
            PositiveBuffer(capacity)  # type: ignore[arg-type]
