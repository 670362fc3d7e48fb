"""Downloads, against a real server on this machine; the catalogue and its commands."""

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest
import typer
from typer.testing import CliRunner

from rankreg.cli import data
from rankreg.datasets.catalog import CATALOG, data_folder, fetch, file_md5, find, get

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


@dataclass
class Server:
    """What it serves, how it misbehaves, and what it was asked for."""

    url: str = ""
    content: bytes = CONTENT
    cut_after: int | None = None  # bytes, in the first `cuts` answers
    cuts: int = 0
    knows_ranges: bool = True
    status: int | None = None
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.knows_ranges else 0
            if state.status:
                self.send_error(state.status)
                return
            if start >= len(state.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(state.content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cuts > 0 and state.cut_after is not None:
                state.cuts -= 1
                body = body[: state.cut_after]
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_address[1]}/cifar-10-python.tar.gz"
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def test_a_download_is_whole_and_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    fetch(server.url, tmp_path / "new" / "file", MD5)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_a_cut_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cuts, server.cut_after = 2, 300_000
    fetch(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=600000-"]


def test_a_later_call_goes_on_from_the_part_that_was_kept(server: Server, tmp_path: Path) -> None:
    server.cuts, server.cut_after = 1, 300_000
    with pytest.raises(
        ValueError, match=r"broke off after 300000 of 1024000 bytes; .*\.part is kept, and the same"
    ):
        fetch(server.url, tmp_path / "file", MD5, attempts=1)
    assert not (tmp_path / "file").exists()
    fetch(server.url, tmp_path / "file", MD5)
    assert server.asked[-1] == "bytes=300000-"
    assert file_md5(tmp_path / "file") == MD5


def test_a_server_without_ranges_is_asked_for_the_whole(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    fetch(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [b"", b"too much"])
def test_a_part_that_is_complete_or_too_long_is_no_trouble(server: Server, tmp_path: Path, extra: bytes) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT + extra)
    fetch(server.url, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_md5_keeps_nothing(server: Server, tmp_path: Path) -> None:
    server.content = b"something else"
    with pytest.raises(ValueError, match=f"has md5 {hashlib.md5(b'something else').hexdigest()}, expected {MD5}"):
        fetch(server.url, tmp_path / "file", MD5)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def at_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The catalogue's CIFAR-10, at the local server."""
    monkeypatch.setitem(CATALOG, "cifar10", replace(CATALOG["cifar10"], url=server.url, md5=MD5))
    return server


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.add_typer(data.data_app, name="data")
    return app


def test_get_downloads_once(at_server: Server, app: typer.Typer, tmp_path: Path) -> None:
    for _ in range(2):
        result = CliRunner().invoke(app, ["data", "get", "cifar10", "--data-dir", str(tmp_path)])
        assert result.exit_code == 0
        assert result.stdout.strip() == str(tmp_path / "cifar-10-python.tar.gz")
    assert len(at_server.asked) == 1


def test_what_cannot_be_got_says_what_to_do_by_hand(at_server: Server, tmp_path: Path) -> None:
    at_server.status = 503
    with pytest.raises(ValueError, match=r"503 .* By hand: download cifar-10-python.tar.gz from .* put it into "):
        get("cifar10", tmp_path)
    with pytest.raises(ValueError, match="no download for HAM10000: download HAM10000_metadata"):
        get("ham10000", tmp_path)
    with pytest.raises(ValueError, match="unknown data set 'cifar11': did you mean 'cifar10'"):
        get("cifar11", tmp_path)


def test_a_damaged_archive_that_is_there_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"half a file")
    with pytest.raises(ValueError, match="is not the official file, or is damaged: remove it"):
        get("cifar10", tmp_path)


def test_no_server_at_all_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"http://127.0.0.1:1/file: .*refused"):
        fetch("http://127.0.0.1:1/file", tmp_path / "file", MD5, attempts=1)


def test_the_list_shows_what_is_there_and_what_is_missing(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python").mkdir()
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["data", "list", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    where = {line.split()[0]: lines[k + 1].strip() for k, line in enumerate(lines[:-1]) if line.startswith("  ")}
    assert re.search(r"^there: .*cifar-100-python", where["cifar100"])
    assert where["cifar10"] == "missing: rankreg data get cifar10"
    assert "kaggle.com" in where["melanoma"]
    assert where["digits"].startswith("there: ")


def test_the_folder_is_the_one_given_or_named_or_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKREG_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "named"
    monkeypatch.delenv("RANKREG_DATA")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    assert data_folder() == tmp_path / "cache" / "rankreg" / "data"


def test_a_path_may_be_the_folder_around_the_data_or_the_data_itself(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    assert find("cifar10", tmp_path) == find("cifar10", folder) == folder
    assert find("cifar100", tmp_path) is None


def test_official_addresses_and_md5s_are_the_published_ones() -> None:
    assert CATALOG["cifar10"].url == "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    assert CATALOG["cifar10"].md5 == "c58f30108f718f92721af3b95e74349a"
    assert CATALOG["cifar100"].url == "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    assert CATALOG["cifar100"].md5 == "eb9058c3a382ffc7106e4002c42a8d85"
