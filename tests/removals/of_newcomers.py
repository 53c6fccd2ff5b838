"""Removals of the fixes of bugs that people meet who install the library, and who type odd arguments."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

EXTRAS = "tests/test_extras.py"
UNDECODABLE = "tests/cli/test_undecodable_names.py"

REMOVALS = (
    Removal(
        "B611",
        (Edit("pyproject.toml", "litestar>=2.23", "litestar>=2.21"),),
        (f"{EXTRAS}::test_the_lowest_allowed_litestar_has_each_name_that_the_server_imports",),
    ),
    Removal(
        "B612",
        (Edit("src/stratalog/extras.py", "except ModuleNotFoundError as exc:", "except NotImplementedError as exc:"),),
        (f"{EXTRAS}::test_an_import_without_its_extra_names_the_extra",),
    ),
    Removal(
        "B613",
        (Edit("src/stratalog/cli/output.py", "    except UnicodeEncodeError:\n", "    except NotImplementedError:\n"),),
        (
            f"{UNDECODABLE}::test_the_json_error_has_the_escape_of_an_argument",
            f"{UNDECODABLE}::test_a_result_in_json_has_the_escape_of_a_file_name",
        ),
        raises=("UnicodeEncodeError",),
    ),
    Removal(
        "B614",
        (
            Edit("src/stratalog/homes.py", "    check_path(str(folder / INDEX_FILE))\n", ""),
            Edit("src/stratalog/client/file.py", "        if path != MEMORY:\n            check_path(path)\n", ""),
        ),
        (
            f"{UNDECODABLE}::test_a_store_in_a_folder_that_is_not_utf_8_is_refused_and_makes_no_folder",
            f"{UNDECODABLE}::test_a_path_that_sqlite_cannot_open_is_invalid_for_a_store_and_for_a_client",
            f"{UNDECODABLE}::test_a_store_in_memory_needs_no_path",
        ),
        raises=("UnicodeEncodeError", "ValueError"),
    ),
    Removal(
        "B615",
        (Edit("src/stratalog/cli/documents.py", "min(limit, sys.maxsize)", "limit"),),
        ("tests/cli/test_option_values.py::test_a_limit_above_every_count_shows_all_keys",),
        raises=("ValueError",),
    ),
)
