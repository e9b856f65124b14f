"""Data sets: generated atomically, reproducible, reused, and rejected if they are not the one requested."""

import hashlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tpcds import data, generator
from tpcds.errors import GenerationError, IncompleteDataError
from tpcds.generator import TABLES, Progress
from yarn_plugin.errors import BadInputError

SCALE = 0.01


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.generate(SCALE, tmp_path_factory.mktemp("tpcds") / "set").path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "set"))


COPYING = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in --output-dir) folder=$2 ;; --tables) table=$2 ;; esac
    shift
done
cp -r '{made}'/"$table" "$folder"
"""


@pytest.fixture
def quick(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that copies the tables that the real one has made."""
    program = tmp_path / "copying"
    program.write_text(COPYING.format(made=made))
    program.chmod(0o755)
    monkeypatch.setattr(generator, "_program", lambda: str(program))


def contents(path: Path) -> dict[str, str]:
    files = sorted(path.rglob("*.parquet"))
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize(("text", "scale"), [("1", 1.0), ("0.1", 0.1), ("1e2", 100.0), ("0.001", 0.001)])
def test_scales(text: str, scale: float) -> None:
    assert data.parse_scale(text) == scale


@pytest.mark.parametrize("text", ["-1", "0", "abc", "nan", "inf", "", "0.0001", "200000"])
def test_invalid_scales_are_rejected(text: str) -> None:
    with pytest.raises(BadInputError, match=r"--scale .*100,000"):
        data.parse_scale(text)


def test_each_table_has_a_folder(made: Path) -> None:
    assert {path.name for path in made.iterdir() if path.is_dir()} == set(TABLES)
    assert data.open_data(made).scale == SCALE


def test_types_are_those_of_the_specification(made: Path) -> None:
    sales = parquet.read_schema(made / "store_sales" / "store_sales.1.parquet")
    assert str(sales.field("ss_sales_price").type) == "decimal128(7, 2)"
    assert str(sales.field("ss_sold_date_sk").type) == "int32"
    item = parquet.read_schema(made / "item" / "item.1.parquet")
    assert str(item.field("i_rec_start_date").type) == "date32[day]"
    assert str(item.field("i_item_id").type) in ("string", "string_view")


def test_the_same_scale_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = data.generate(SCALE, tmp_path / "again")
    assert not again.reused
    assert contents(again.path) == contents(made)


def test_large_tables_are_split_into_parts(tmp_path: Path) -> None:
    path = data.generate(SCALE, tmp_path / "parts", parts=3).path
    assert len(list((path / "customer_demographics").iterdir())) == 3
    assert len(list((path / "store").iterdir())) == 1


def test_a_complete_data_set_is_reused(copy: Path) -> None:
    before = data.open_data(copy).fingerprint()
    assert data.generate(SCALE, copy).reused
    assert data.open_data(copy).fingerprint() == before


@pytest.mark.usefixtures("quick")
def test_an_incomplete_data_set_is_generated_again(made: Path, copy: Path) -> None:
    before = data.open_data(copy).fingerprint()
    (copy / "store" / "store.1.parquet").unlink()
    assert not data.generate(SCALE, copy).reused
    assert contents(copy) == contents(made)
    assert data.open_data(copy).fingerprint() != before


@pytest.mark.usefixtures("quick")
def test_a_truncated_file_is_detected(copy: Path) -> None:
    file = copy / "item" / "item.1.parquet"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(IncompleteDataError, match=r"item/item.1.parquet"):
        data.open_data(copy)
    assert not data.generate(SCALE, copy).reused


def test_another_scale_in_the_same_directory_is_rejected(copy: Path) -> None:
    with pytest.raises(BadInputError, match=r"scale 0\.01 in 1 part by .*, not scale 0\.02 in 1 part"):
        data.generate(0.02, copy)
    with pytest.raises(BadInputError, match=r"scale 0\.01 in 1 part by .*, not scale 0\.01 in 2 parts"):
        data.generate(SCALE, copy, parts=2)
    assert data.generate(SCALE, copy).reused


@pytest.mark.parametrize("manifest", ["", "{}", '{"scale": 1'])
@pytest.mark.usefixtures("quick")
def test_a_data_set_whose_manifest_cannot_be_read_is_generated_again(made: Path, copy: Path, manifest: str) -> None:
    (copy / data.MANIFEST).write_text(manifest)
    assert not data.generate(SCALE, copy).reused
    assert contents(copy) == contents(made)
    assert not list(copy.parent.glob(f".{copy.name}.*"))


def test_tables_that_others_made_are_never_replaced(copy: Path) -> None:
    (copy / data.MANIFEST).unlink()
    before = contents(copy)
    assert data.open_data(copy).scale is None
    with pytest.raises(GenerationError, match=r"must be a new directory; .* such as 'call_center'"):
        data.generate(SCALE, copy)
    assert contents(copy) == before


def test_other_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("mine")
    with pytest.raises(GenerationError, match=r"must be a new directory; .*'thesis.tex'"):
        data.generate(SCALE, tmp_path / "home")
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(GenerationError, match="--out"):
            data.generate(SCALE, out)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "mine"


def test_a_failed_generator_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "failing"
    program.write_text("#!/bin/sh\necho some noise >&2\necho 'no space left' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(generator, "_program", lambda: str(program))
    with pytest.raises(GenerationError, match="code 3: no space left"):
        data.generate(SCALE, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_disk_space_is_checked_before_generating(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match=r"needs about 45000\.0 GB"):
        data.generate(100_000, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("quick")
def test_a_killed_generation_leaves_no_data_set_and_the_next_one_succeeds(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = f"from pathlib import Path; from tpcds import data; data.generate(1, Path({str(out)!r}))"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.draft/*/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / ".out.draft").exists()
    assert not out.exists()
    assert not data.generate(SCALE, out).reused
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.usefixtures("quick")
def test_progress_is_reported_per_table(tmp_path: Path) -> None:
    reported: list[Progress] = []
    data.generate(SCALE, tmp_path / "out", on_progress=reported.append)
    assert [progress.finished for progress in reported] == sorted(progress.finished for progress in reported)
    assert {progress.table for progress in reported} == {*TABLES, None}
    assert reported[-1].finished == len(TABLES)
    assert reported[-1].size > 10_000_000


@pytest.mark.usefixtures("quick")
def test_ensure_stores_a_data_set_in_the_users_cache(tmp_path: Path) -> None:
    path = data.ensure(SCALE)
    assert path.is_relative_to(tmp_path / "cache")
    assert path.name.startswith("scale-0.01-tpcgen-cli-")
    before = data.open_data(path).fingerprint()
    assert data.ensure(SCALE) == path
    assert data.open_data(path).fingerprint() == before


def test_data_without_a_manifest_is_accepted_if_all_tables_exist(copy: Path) -> None:
    (copy / data.MANIFEST).unlink()
    assert data.open_data(copy).scale is None
    shutil.rmtree(copy / "reason")
    (copy / "store" / "store.1.parquet").unlink()
    with pytest.raises(IncompleteDataError, match="incomplete, missing reason, store;"):
        data.open_data(copy)
    shutil.rmtree(copy / "web_page")
    shutil.rmtree(copy / "web_site")
    with pytest.raises(IncompleteDataError, match="missing reason, store, web_page and 1 more;"):
        data.open_data(copy)


def test_a_missing_or_empty_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(IncompleteDataError, match="no such directory"):
        data.open_data(tmp_path / "nothing")
    with pytest.raises(IncompleteDataError, match="must be a TPC-DS data set"):
        data.open_data(tmp_path)


@pytest.mark.parametrize("name", [".out.old", ".out.draft"])
def test_what_others_have_beside_a_data_set_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine.txt").write_text("mine")
    with pytest.raises(GenerationError, match=rf"{name}'.*contains other files, such as 'mine\.txt'"):
        data.generate(SCALE, tmp_path / "out")
    assert (tmp_path / name / "mine.txt").read_text() == "mine"
