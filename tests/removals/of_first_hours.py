"""Removals of fixes: the mistakes that a new user makes in the first hour."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

ARGUMENTS = "tests/test_arguments.py"
BAD_INPUT = "tests/test_bad_input.py"
CLIENT = "tests/client/test_client.py"
FAULTS = "tests/documents/test_faults.py"
MUTATORS = "src/stratalog/protocol/mutators.py"
REPLICA = "src/stratalog/client/replica.py"
SETTINGS = "src/stratalog/log/environment.py"

REMOVALS = (
    Removal(
        "B1141",
        (
            Edit(MUTATORS, 'str(getattr(exc, "reason", exc)) if isinstance', "exc.reason if isinstance"),
            Edit(
                MUTATORS,
                'return reason if reason.isascii() else reason.encode(errors="replace").decode()',
                "return reason",
            ),
            Edit(
                MUTATORS,
                "    except Exception:  # noqa: BLE001 - the code of the",
                "    except MemoryError:  # the code of the",
            ),
        ),
        (f"{FAULTS}::test_any_exception_of_a_mutator_becomes_a_reason_that_can_be_read_back",),
    ),
    Removal(
        "B1142",
        (Edit("src/stratalog/documents/run.py", "    if _is_running.get():\n", "    if False:\n"),),
        (
            f"{FAULTS}::test_a_mutator_that_writes_to_another_document_is_rejected",
            f"{FAULTS}::test_a_mutator_that_writes_to_its_own_document_is_rejected_and_does_not_wait_for_itself",
        ),
    ),
    Removal(
        "B1143",
        (
            Edit(SETTINGS, "Count = Annotated[int, msgspec.Meta(ge=1)]", "Count = int"),
            Edit(SETTINGS, "Seconds = Annotated[float, msgspec.Meta(ge=0)]", "Seconds = float"),
        ),
        (
            f"{ARGUMENTS}::test_log_settings_that_no_log_can_have_are_refused",
            f"{ARGUMENTS}::test_negative_log_settings_are_refused",
        ),
    ),
    Removal(
        "B1144",
        (Edit("src/stratalog/sqlite_files.py", "(exc, connection, path=connection.filename)", "(exc, connection)"),),
        (f"{BAD_INPUT}::test_the_error_for_a_file_that_is_no_database_names_the_file",),
    ),
    Removal(
        "B1145",
        (Edit(REPLICA, "        except StratalogError:  # the client", "        except KeyError:  # the client"),),
        (f"{CLIENT}::test_a_closed_client_can_be_printed",),
    ),
    Removal(
        "B1146",
        (Edit("src/stratalog/homes.py", "    if not scheme and (advice := ", "    if scheme and (advice := "),),
        (f"{BAD_INPUT}::test_a_url_that_would_make_a_folder_by_mistake_is_refused_with_advice",),
    ),
)
