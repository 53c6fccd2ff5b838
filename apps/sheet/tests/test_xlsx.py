"""A sheet imports a workbook as a browser does, stores the file unchanged, and exports it.

An import refuses ZIP bombs, and files that are too large.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog
from apps.sheet.tests.browser import imported
from apps.sheet.tests.packages import package, rows
from apps.sheet.tests.workbooks import LARGE, large, workbooks
from stratalog import Invalid, LimitExceeded, NotFound
from stratalog_sheet import EnginePool, Sheet, Sheets
from stratalog_sheet.state import count_cells
from stratalog_sheet.xlsx_export import write_workbook
from stratalog_sheet.xlsx_import import Workbook, read_workbook

pytestmark = pytest.mark.slow

SMALL = "loadPivotTables.xlsx"


@pytest.fixture(scope="module")
def books() -> dict[str, Workbook]:
    """Return the real workbooks by file name, as Python reads them."""
    return {path.name: read_workbook(path.read_bytes()) for path in workbooks()}


@pytest.fixture(scope="module")
def large_sheet(engines: EnginePool) -> Iterator[Sheet]:
    """Return a sheet that was imported from the large workbook. The import takes 10 s of CPU."""
    with stratalog.open("memory:") as store:
        yield Sheets(store, engines).import_file("acme", "large", large(), file_name=LARGE)


def small() -> bytes:
    return next(path for path in workbooks() if path.name == SMALL).read_bytes()


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, body in files.items():
            opened.writestr("[Content_Types].xml" if name == "types" else name, body)
    return packed.getvalue()


def test_a_workbook_with_a_document_type_is_refused_before_the_engine_reads_it() -> None:
    declaring = {"types": b"<Types/>", "xl/workbook.xml": b'<!DOCTYPE w [<!ENTITY a "b">]><w>&a;</w>'}
    with pytest.raises(Invalid, match=r"document type file='xl/workbook.xml'"):
        read_workbook(archive(**declaring))


def test_the_server_imports_the_same_cells_as_a_browser(
    books: dict[str, Workbook], large_sheet: Sheet, engines: EnginePool, tmp_path: Path
) -> None:
    files = {name: book.files for name, book in books.items()}
    for name, there in zip(files, imported(list(files.values()), tmp_path), strict=True):
        if name == LARGE:
            here = json.loads(large_sheet.state(1))
        else:
            here = engines.call("importXlsx", key="workbook", files=files[name], client="workbook")
        assert [sheet["cells"] for sheet in here["sheets"]] == [sheet["cells"] for sheet in there["sheets"]], name
        assert [sheet["name"] for sheet in here["sheets"]] == [sheet["name"] for sheet in there["sheets"]], name


def test_the_original_of_an_imported_workbook_is_returned_unchanged_after_an_edit(sheets: Sheets) -> None:
    sheet = sheets.import_file("acme", "pivots", small(), file_name=SMALL, author="ann")
    assert (sheet.title, sheet.version) == ("loadPivotTables", 1)
    assert sheet.get("A1").formatted == "Sepal Length"
    sheet.set("A1", "changed")
    assert sheet.original() == (SMALL, small())


def test_the_large_workbook_has_an_app_snapshot_that_shares_parts_with_the_next_one(large_sheet: Sheet) -> None:
    sheet = large_sheet
    snapshot = sheet.log.app_snapshot(1)
    assert snapshot is not None
    assert count_cells(sheet.load().data) == 91_399
    first = sum(map(len, sheet.log.read_snapshot(snapshot)))
    sheet.set("B7", "changed")
    before = _stored(sheet)
    sheet.log.save_snapshot(2, _parts(sheet))
    assert _stored(sheet) - before < first / 20, "a snapshot after a small edit writes only the changed parts"


def _parts(sheet: Sheet) -> list[bytes]:
    from stratalog_sheet.state import split_state

    return split_state(sheet.state())


def _stored(sheet: Sheet) -> int:
    return sum(
        stat.stored_bytes for stat in sheet.log.environment.blobs.list(f"{sheet.log.record.owner}/app-snapshots/")
    )


def test_an_export_can_be_imported_again(sheets: Sheets) -> None:
    sheet = sheets.create("acme", "plan")
    sheet.set("A1", "7")
    sheet.set("A2", "=A1*6")
    first = sheet.export()
    sheet.set("A1", "8")
    again = sheets.import_file("acme", "again", sheet.export())
    assert (again.get("A2").content, again.get("A2").value) == ("=A1*6", 48)
    assert sheets.import_file("acme", "first", first).get("A2").value == 42
    assert sheet.export(at=3) == first, "the same version gives the same bytes"


def test_a_sheet_that_was_not_imported_has_no_original_file(sheet: Sheet) -> None:
    with pytest.raises(NotFound):
        sheet.original()


@pytest.mark.parametrize(
    "body", [b"", b"no archive", archive(other=b"x"), archive(types=b"\xff\xfe")], ids=["empty", "text", "zip", "bytes"]
)
def test_a_file_that_is_not_a_workbook_is_refused(sheets: Sheets, body: bytes) -> None:
    with pytest.raises(Invalid):
        sheets.import_file("acme", "plan", body)
    assert list(sheets.list("acme")) == []


def test_a_zip_bomb_is_refused_before_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.xlsx_archive.SHEET_XLSX_UNPACKED_BYTES_MAX", 1_000_000)
    bomb = archive(types=bytes(2_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("a part is unpacked"))
    with pytest.raises(LimitExceeded, match="unpacked"):
        read_workbook(bomb)


def test_a_file_larger_than_its_zip_header_declares_is_refused() -> None:
    body, name = bytearray(package({"S": rows('<c r="A1"><v>1</v></c>')})), b"xl/worksheets/sheet1.xml"
    assert read_workbook(bytes(body)).cells == 1
    # The size of a file comes 8 bytes before its name in the header, and 22 bytes before its name in the directory.
    for at in (body.index(name) - 8, body.rindex(name) - 22):
        body[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(Invalid, match="CRC"):
        read_workbook(bytes(body))


def test_too_many_files_and_too_large_a_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.xlsx_archive.SHEET_XLSX_FILES_MAX", 1)
    with pytest.raises(LimitExceeded):
        read_workbook(archive(types=b"", more=b""))
    monkeypatch.setattr("stratalog_sheet.xlsx_archive.SHEET_XLSX_BYTES_MAX", 10)
    with pytest.raises(LimitExceeded):
        read_workbook(archive(types=b""))


def test_a_workbook_with_too_many_cells_is_refused_before_the_engine_sees_it(
    sheets: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_sheet.sheets.SHEET_CELLS_MAX", 100)
    monkeypatch.setattr(sheets.engines, "lend", None)
    with pytest.raises(LimitExceeded, match="too many cells"):
        sheets.import_file("acme", "plan", small())


def test_the_count_of_filled_cells_never_exceeds_the_cells_of_the_workbook(books: dict[str, Workbook]) -> None:
    for book in books.values():
        assert book.cells <= sum(text.count("<c ") for text in book.files.values() if isinstance(text, str))


def test_writing_the_same_workbook_twice_gives_equal_bytes(sheet: Sheet) -> None:
    with sheet._lent() as models:
        written = models.query(sheet._model(models, 1), "exportXlsx", limit=0, columns=9, rows=9)
    assert write_workbook(written) == write_workbook(json.loads(json.dumps(written)))
