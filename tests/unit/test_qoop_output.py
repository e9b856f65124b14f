"""A result as files: what is stored is seen only when it is complete."""

from types import SimpleNamespace

import pytest

from qoop.engine import output
from qoop.engine.output import OutputFiles
from qoop.errors import QoopError


class Folder:
    """A temporary folder on a file system that is a set of paths. `taken`: another query renames its rows first."""

    taken, again = False, 0

    def __init__(self, spark, prefix, name):
        self.path, self.paths = prefix + name, spark

    def exists(self, path):
        return path in self.paths

    def create(self):
        self.paths.add(self.path)

    def move(self, name, path):
        if f"{self.path}/{name}" not in self.paths:
            return False
        if self.taken:
            self.paths.add(path)
        self.paths.remove(f"{self.path}/{name}")
        self.paths.add(f"{path}/{name}" if path in self.paths else path)
        return True

    def remove(self, path):
        self.paths.remove(path)

    def delete_again(self):
        self.again += 1

    def delete(self):
        self.paths -= {path for path in self.paths if path.startswith(self.path)}


class Frame:
    """Rows that are written by adding a path."""

    def __init__(self, paths):
        self.paths, self.options = paths, {}
        self.write = self

    def option(self, name, value):
        self.options[name] = value
        return self

    def format(self, name):
        return SimpleNamespace(save=self.paths.add)


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(output, "QueryFolder", Folder)
    return set()


def test_what_the_last_attempt_stored_is_published_and_the_rest_deleted(paths):
    with OutputFiles(paths, "/rows/", "parquet") as files:
        first, second = files.store(Frame(paths)), files.store(Frame(paths))
        assert first != second, "a cancelled attempt may still write"
        assert "/rows" not in paths
        files.publish(second)
    assert paths == {"/rows"}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_only_csv_has_a_header(paths, form):
    frame = Frame(paths)
    with OutputFiles(paths, "/rows", form) as files:
        files.store(frame)
    assert frame.options == ({"header": "true"} if form == "csv" else {})
    assert paths == set()


def test_a_path_that_exists_is_refused_before_anything_is_created(paths):
    paths.add("/rows")
    with pytest.raises(QoopError, match="--output '/rows': already exists"):
        OutputFiles(paths, "/rows", "csv")
    assert paths == {"/rows"}


def test_a_path_that_was_taken_meanwhile_is_left_as_it_is(paths):
    with (
        pytest.raises(QoopError, match="could not be renamed to this path and was discarded"),
        OutputFiles(paths, "/rows", "csv") as files,
    ):
        name = files.store(Frame(paths))
        paths.add("/rows")
        files.publish(name)
    assert paths == {"/rows"}


def test_of_two_queries_that_write_to_one_path_one_fails(paths, monkeypatch):
    monkeypatch.setattr(Folder, "taken", True)
    with OutputFiles(paths, "/rows", "parquet") as files, pytest.raises(QoopError, match="choose another path"):
        files.publish(files.store(Frame(paths)))
    assert paths == {"/rows"}, "what the other one wrote"


def test_what_a_stopped_query_still_writes_is_deleted(paths):
    files = OutputFiles(paths, "/rows", "parquet")
    files.store(Frame(paths))
    assert files._draft.again == 1
