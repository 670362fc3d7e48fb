"""File names that suggest several images of one thing, and names that do not."""

import pytest

from rankreg.datasets.images import suspected_groups


@pytest.mark.parametrize(
    "names",
    [
        [f"mel/lesion_{k}_{view}.jpg" for k in range(9) for view in "ab"],
        [f"mel/lesion_{k}{view}.jpg" for k in range(9) for view in "ab"],
        [f"scans/patient{k}-{view}.png" for k in range(9) for view in (1, 2, 10)],
        [f"eyes/{k}_{side}.jpeg" for k in range(9) for side in ("left", "right")],
        [f"x/IMG_{k:04}{copy}.jpg" for k in range(9) for copy in (" (1)", " (2)")],
        [f"{kind}/p{k}_{view}.png" for k in range(9) for kind, view in (("sick", 1), ("well", 2))],
        [f"x/patient_{k}_2024-01-05_{view}.png" for k in range(9) for view in (1, 2)],
        [f"x/IMG_{k:04}.jpg" for k in range(100)] + [f"x/case {k} {view}.jpg" for k in range(5) for view in "AB"],
    ],
)
def test_several_images_of_one_thing_are_suspected(names: list[str]) -> None:
    warning = suspected_groups(names)
    assert warning is not None
    assert "--groups" in warning
    assert sum(name in warning for name in names) >= 2


@pytest.mark.parametrize(
    "names",
    [
        [],
        [f"x/IMG_{k:04}.jpg" for k in range(50)],
        [f"x/ISIC_{k:07}.jpg" for k in range(24306, 24400)],
        [f"x/cat.{k}.jpg" for k in range(50)],
        [f"x/img ({k}).jpg" for k in range(50)],
        [f"x/{k:03}.png" for k in range(50)],
        [f"x/photo_2024-01-{k:02}.jpg" for k in range(1, 31)],
        [f"x/IMG_20240105_{k:06}.jpg" for k in range(93015, 93060)],
        [f"x/IMG_20240105_{k:02}.jpg" for k in range(30)],
        [f"x/{label}_{k}.png" for label in range(3) for k in range(40)],  # a class and a counter
        [f"x/{k * 2654435761 % 2**32:08x}.png" for k in range(200)],
        ["x/550e8400-e29b-41d4-a716-446655440000.png", "x/550e8400-e29b-41d4-a716-446655440001.png"],
        [f"x/IMG_{k:04}.jpg" for k in range(500)] + [f"x/IMG_7777 ({k}).jpg" for k in (1, 2)],
    ],
)
def test_counters_dates_and_hashes_are_not(names: list[str]) -> None:
    assert suspected_groups(names) is None


def test_things_in_other_folders_are_other_things() -> None:
    names = [f"x/batch{batch}/lesion_{k}_a.jpg" for batch in range(2) for k in range(9)]
    assert suspected_groups(names) is None
