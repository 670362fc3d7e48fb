from pathlib import Path

import pytest
from pydantic import ValidationError

from rankreg.datasets.splits import Samples, Splits
from rankreg.models import MLPShape
from rankreg.train import RankRegMethod, TrainConfig
from rankreg.train.task import complete, task_of

FULL = """
seed = 3
epochs = 25
learning_rate = 0.001
schedule = "cosine"
optimizer = {name = "adamw", weight_decay = 0.1}
selection = "fpr"
tpr = 0.9

[loss]
name = "a-fl"
settings = {gamma = 2.0}

[method]
name = "rankreg"
space = "probability"
gamma = 1.0
buffer = {capacity = 48, policy = "fifo", base_over = "batch"}

[model]
name = "resnet10"
width = 0.25
"""


def test_toml_and_json_give_the_same_config(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(FULL)
    config = TrainConfig.from_toml(tmp_path / "run.toml")
    assert isinstance(config.method, RankRegMethod)
    assert config.method.buffer.capacity == 48
    assert config.optimizer.weight_decay == 0.1
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config


def test_a_name_stands_for_its_defaults() -> None:
    config = TrainConfig.model_validate({"method": "alm", "loss": "ldam", "optimizer": "sgd", "model": "mlp"})
    assert config.method.name == "alm"
    assert config.optimizer.weight_decay == 2e-4
    assert config.model == MLPShape()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "epoch"),
        ("epochs = 0", "epochs"),
        ('method = "rankrank"', "method"),
        ('method = {name = "alm", reach = 1.0}', "reach"),
        ('method = {name = "rankreg", reach = 1.0, gamma = 1.0}', "not both"),
        ('loss = "a-fll"', "did you mean 'a-fl'"),
        ('loss = {name = "bce", settings = {gamma = 1.0}}', "no setting 'gamma'"),
        ('loss = "ldam"\nmodel = {name = "mlp", head = "score"}', "normalised last layer"),
        ('augmentation = "cifra"', "did you mean 'cifar'"),
        ("tpr = 98", "tpr"),
        ("epochs = ", "not a TOML file"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        TrainConfig.from_toml(tmp_path / "run.toml")
    assert "run.toml" in str(caught.value)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        setattr(TrainConfig(), "seed", 2)  # noqa: B010


def test_the_data_fill_in_what_the_config_leaves_open(rows: Splits, images: Splits, classes: Splits) -> None:
    def filled(splits: Splits, **settings: object) -> TrainConfig:
        config = TrainConfig.model_validate(settings)
        return complete(config, task_of(splits, config), splits["train"], own_model=False)

    plain, ldam, many = filled(rows), filled(images, loss="ldam"), filled(classes)
    assert plain.model == MLPShape(features=64, classes=2, head="score")
    assert plain.loss is not None
    assert plain.loss.name == "bce"
    assert ldam.model is not None
    assert (ldam.model.name, ldam.model.head) == ("resnet10", "cosine")
    assert many.loss is not None
    assert many.loss.name == "ce"
    assert filled(rows, model={"name": "mlp", "head": "pair"}).model == MLPShape(
        features=64, classes=2, head="pair"
    )
    for splits, settings, message in (
        (rows, {"loss": "ce"}, "does not fit 2 classes"),
        (rows, {"selection": "error"}, "use 'auc', 'fpr' or 'last'"),
        (classes, {"loss": "bce"}, "does not fit 10 classes"),
        (rows, {"model": "resnet10"}, "takes images"),
        (images, {"model": "mlp"}, "takes rows"),
        (rows, {"augmentation": "cifar"}, "is for images"),
        (rows, {"critical": 0}, "swap the labels"),
        (classes, {"critical": 10}, "0 … 9"),
        (rows, {"model": {"name": "mlp", "features": 3}}, "leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            filled(splits, **settings)


def test_data_without_positives_or_without_validation_are_refused(rows: Splits) -> None:
    train = rows["train"]
    negatives = train.take((train.labels == 0).nonzero()[0])
    with pytest.raises(ValueError, match="'train' of digits holds 0 samples of the critical class 'positive'"):
        task_of(Splits("digits", {**rows.parts, "train": negatives}), TrainConfig())
    with pytest.raises(ValueError, match="no part 'validation'"):
        task_of(Splits("digits", {"train": train}), TrainConfig())
    doubled = Samples(train.source.astype("float64"), train.rows, train.labels, train.ids)
    with pytest.raises(ValueError, match="rows float32, got float64"):
        task_of(Splits("digits", {**rows.parts, "train": doubled}), TrainConfig())
