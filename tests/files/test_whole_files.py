"""Writing: whole or not at all, and nothing but a regular file is ever replaced."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from rankreg.bundle import load_bundle, predict
from rankreg.bundle.storage import save_bundle
from rankreg.models import build_model
from rankreg.safe_files import is_stream, whole_file, write_whole
from rankreg.scores import Scores
from tests.bundle.test_storage import contents
from tests.conftest import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, sockets and devices are files on Unix")


def received(pipe: Path, found: list[bytes]) -> threading.Thread:
    """Someone who reads the pipe to its end."""
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    return reader


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    for content in (b"new", b"newer"):  # the first one makes the file
        write_whole(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real/file").read_bytes() == content
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["file"]


def test_a_link_in_place_of_the_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "file.unfinished").symlink_to("precious")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = received(pipe, found)
    write_whole(pipe, b"content")
    reader.join(60)
    assert found == [b"content"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_null_device_behind_a_link_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "nothing").symlink_to(os.devnull)
    write_whole(tmp_path / "nothing", b"content")
    assert (tmp_path / "nothing").is_symlink()
    assert is_stream(tmp_path / "nothing")


def test_sockets_foreign_devices_and_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    master, terminal = os.openpty()  # a terminal, but not that of this process
    try:
        for place in (Path("socket"), Path(os.ttyname(terminal)), tmp_path):
            with pytest.raises(ValueError, match=r"is a (device or a socket|folder): give the name of a file"):
                write_whole(place, b"content")
        assert stat.S_ISSOCK(Path("socket").stat().st_mode)
    finally:
        server.close()
        os.close(master)
        os.close(terminal)


def test_the_standard_output_is_written_into_even_if_it_is_a_file(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from rankreg.safe_files import write_whole; print('first');"
        " write_whole(Path('link'), b'second\\n'); print('third')"
    )
    (tmp_path / "link").symlink_to("/proc/self/fd/1" if Path("/proc/self/fd/1").exists() else "/dev/fd/1")
    (tmp_path / "out").write_bytes(b"before\n")
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stdout=out, check=True)
    assert (tmp_path / "out").read_text().splitlines() == ["before", "first", "second", "third"]
    piped = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines() == ["first", "second", "third"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def test_predictions_go_into_a_pipe_or_through_a_link(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bundle = save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    (tmp_path / "new.csv").write_text("age,site\n50,arm\n60,leg\n")
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = received(tmp_path / "pipe", found)
    predict(bundle, tmp_path / "new.csv", tmp_path / "pipe")
    reader.join(60)
    (tmp_path / "link").symlink_to("scores.csv")
    predict(bundle, tmp_path / "new.csv", tmp_path / "link")
    assert found == [(tmp_path / "scores.csv").read_bytes()]
    assert found[0].count(b"\n") == 3
    assert (tmp_path / "link").is_symlink()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_scores_and_bundles_keep_links(tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "link.npz").symlink_to("real.npz")
    Scores(np.arange(3), np.array([0, 1, 0]), np.ones(3)).save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert len(Scores.load(tmp_path / "real.npz")) == 3
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for name in ("first", "second"):
        save_bundle(tmp_path / "link", build_model(contents()["model"]), **contents(name=name))
        assert (tmp_path / "link").is_symlink()
        assert load_bundle(tmp_path / "real").card.name == name


def test_a_report_is_not_written_over_a_socket(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("y,s\n" + "1,2\n0,1\n1,3\n0,0\n" * 100)
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    status, out, error = run("report", "scores.csv", "--label", "y", "--score", "s", "--out", "socket")
    server.close()
    assert (status, out) == (2, "")
    assert "socket" in error
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)


def test_a_full_disk_names_the_file_that_was_not_written(tmp_path: Path) -> None:
    place = tmp_path / "scores.csv"
    place.write_text("older")
    with pytest.raises(OSError, match="No space") as full, whole_file(place):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(place)
    assert place.read_text() == "older"
    assert list(tmp_path.iterdir()) == [place]
