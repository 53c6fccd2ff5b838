"""Removals of fixes: verifications that must write nothing and must name lost blobs."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

READ_ONLY = "tests/maintenance/test_read_only.py"
REBUILD = "src/stratalog/documents/rebuild.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
POSITIONS = "tests/maintenance/test_damaged_positions.py"
VERIFICATION = "tests/maintenance/test_verification.py"
SNAPSHOTS = "src/stratalog/documents/snapshots.py"
UPTO = (
    "tests/maintenance/test_inspection.py::test_an_inspection_up_to_a_version_before_its_fork_point_or_floor_is_refused"
)
DELETED = "tests/cli/test_deleted_meanwhile.py::test_a_command_over_the_store_skips_a_log_that_is_deleted_meanwhile"
LOSES_NONE = "tests/cli/test_commands.py::test_an_error_during_verify_loses_no_result"
CONTINUES = "tests/cli/test_commands.py::test_verify_of_a_store_continues_after_a_history_whose_version_is_forgotten"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B303",
        (
            Edit(
                REBUILD,
                "rebuilt = Chunks(ScratchBlobs(log.environment.blobs, scratch), log.record.owner)",
                "rebuilt = Chunks(log.environment.blobs, log.record.owner)",
            ),
        ),
        (f"{READ_ONLY}::test_each_lost_chunk_is_reported_and_not_rebuilt", f"{READ_ONLY}::test_a_read_writes_nothing"),
    ),
    Removal(
        "B303",
        (Edit(REBUILD, "        _require_stored(log, rebuilt, verified, named)\n", ""),),
        (
            f"{READ_ONLY}::test_each_lost_chunk_is_reported_and_not_rebuilt",
            f"{READ_ONLY}::test_quick_verification_reports_a_lost_chunk_exactly_if_the_base_snapshot_needs_it",
        ),
    ),
    Removal(
        "B303",
        (Edit(REBUILD, "verify_tree(self._stored, root)", "verify_tree(self._chunks, root)"),),
        (f"{READ_ONLY}::test_the_snapshot_after_a_redacted_version_is_read_from_the_store",),
    ),
    Removal(
        "B303",
        (Edit(REBUILD, "if names_chunk(rebuilt, roots, address):", "if True:"),),
        (f"{READ_ONLY}::test_chunks_that_another_process_deletes_during_verification_are_not_damage",),
    ),
    Removal(
        "B303",
        (Edit(SNAPSHOTS, "return tree_roots(state, lambda chunks: None)", "return tree_roots(state)"),),
        (f"{READ_ONLY}::test_a_read_writes_nothing",),
    ),
    Removal(
        "B354",
        (
            Edit(
                "src/stratalog/maintenance/document_check.py",
                "entry_key(self._environment.index, self._log.record, rebuild.version + 1)",
                "f'{self._log.record.prefix} {rebuild.version + 1:016}'",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_an_entry_that_cannot_be_applied_is_named_by_the_key_of_its_item",),
    ),
    Removal(
        "B355",
        (
            Edit(
                "src/stratalog/cli/stores.py",
                "        except NotFound:\n            continue",
                "        except ZeroDivisionError:\n            continue",
            ),
        ),
        ("tests/cli/test_commands.py::test_a_log_that_is_deleted_between_two_reads_ends_neither_a_list_nor_a_sweep",),
    ),
    Removal(
        "B355",
        (
            Edit(
                "src/stratalog/cli/maintenance.py",
                'self._noted(f"{organisation}/{log}"), suppress(NotFound):',
                'self._noted(f"{organisation}/{log}"):',
            ),
        ),
        ("tests/cli/test_commands.py::test_a_log_that_is_deleted_between_two_reads_ends_neither_a_list_nor_a_sweep",),
    ),
    Removal(
        "B356",
        (Edit("src/stratalog/cli/verification.py", "        if value is not None:\n", "        if value == 0:\n"),),
        ("tests/cli/test_commands.py::test_an_option_that_would_be_ignored_is_refused",),
    ),
    Removal(
        "B357",
        (Edit("src/stratalog/cli/verification.py", 'lines.open("x", encoding', 'lines.open("w", encoding'),),
        ("tests/cli/test_commands.py::test_the_list_of_a_checkpoint_overwrites_no_file",),
    ),
    Removal(
        "B359",
        (Edit("examples/verify_export.py", "    except (LookupError, TypeError, ValueError):", "    except OSError:"),),
        ("tests/test_verify_export.py::test_the_example_refuses_a_truncated_export",),
    ),
    Removal(
        "B359",
        (Edit("examples/verify_export.py", "        except InvalidSignature:\n", "        except OSError:\n"),),
        ("tests/test_verify_export.py::test_the_example_refuses_a_note_of_another_history_or_with_a_wrong_signature",),
    ),
    Removal(
        "B359",
        (Edit("examples/verify_export.py", "    except Exception as error:", "    except OSError as error:"),),
        ("tests/test_verify_export.py::test_the_example_refuses_a_line_without_a_field",),
    ),
    Removal(
        "B438",
        (
            Edit(
                "src/stratalog/records/verification.py",
                "yield _gap(after + 1, version - 1)",
                "yield from (_gap(each, each) for each in range(after + 1, version))",
            ),
        ),
        (f"{VERIFICATION}::test_a_huge_gap_is_verified_in_few_steps",),
    ),
    Removal(
        "B438",
        (
            Edit(
                "src/stratalog/log/verification.py", "last=_last_of_gap(log, step.version, upto))", "last=step.version)"
            ),
        ),
        (
            f"{VERIFICATION}::test_a_huge_gap_is_verified_in_few_steps",
            f"{VERIFICATION}::test_a_name_record_with_a_huge_segment_is_verified_in_few_steps",
        ),
    ),
    Removal(
        "B438",
        (
            Edit(
                "src/stratalog/maintenance/damage.py",
                "range(first, min(last + 1, first + DAMAGES_OF_GAP_MAX - 1))",
                "range(first, last + 1)",
            ),
        ),
        (f"{VERIFICATION}::test_a_huge_gap_is_verified_in_few_steps",),
    ),
    Removal(
        "B438",
        (
            Edit(
                "src/stratalog/log/archive.py",
                "    if not is_gapless(items, segment.first, last):\n",
                "    if [parse_number(item.sort) for item in items] != list(range(segment.first, last + 1)):\n",
            ),
        ),
        (f"{VERIFICATION}::test_a_segment_record_with_a_huge_end_is_damage",),
        raises=("MemoryError",),
    ),
    Removal(
        "B467",
        (
            Edit(
                "src/stratalog/maintenance/recording_ports.py",
                "            if asked is None or read < asked:\n                return\n",
                "            return\n",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_damaged_items_do_not_count_towards_the_limit_of_a_query",),
    ),
    Removal(
        "B476",
        (Edit("src/stratalog/log/verification.py", "upto is None or upto >= start:", "True:"),),
        (
            "tests/documents/test_snapshots.py::test_a_verification_up_to_a_forgotten_version_is_refused",
            "tests/documents/test_snapshots.py::test_a_verification_up_to_a_version_before_the_fork_is_refused",
        ),
    ),
    Removal(
        "B494",
        (
            Edit(
                "src/stratalog/maintenance/inspection.py",
                "    check_history_upto(store.environment, history, upto)\n",
                "",
            ),
        ),
        (UPTO,),
    ),
    Removal(
        "B494",
        (Edit("src/stratalog/log/verification.py", "    check_upto(log, upto, start)\n", ""),),
        (UPTO,),
    ),
    Removal(
        "B495",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "            if not is_deleted(store, history):\n                raise\n",
                "            raise\n",
            ),
        ),
        (DELETED,),
    ),
    Removal(
        "B496",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "            if not of_store or not is_deleted(store, history):\n                raise\n",
                "            raise\n",
            ),
        ),
        (DELETED,),
    ),
    Removal(
        "B496",
        (
            Edit(
                "src/stratalog/maintenance/repair.py",
                "if not of_store or not is_deleted(store, history):",
                "if history:",
            ),
        ),
        (DELETED,),
    ),
    Removal(
        "B556",
        (
            Edit(
                "src/stratalog/maintenance/document_check.py",
                "            self._intact.add(value)\n",
                "            self._intact = set()\n",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_an_inspection_reads_a_value_of_entries_and_snapshots_once",),
    ),
    Removal(
        "B710",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "        except VersionForgotten as exc:\n",
                "        except ZeroDivisionError as exc:\n",
            ),
        ),
        (CONTINUES,),
    ),
    Removal(
        "B710",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "    finally:\n        if results.rows:\n",
                "    else:\n        if results.rows:\n",
            ),
        ),
        (LOSES_NONE,),
    ),
    Removal(
        "B710",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "            raise Failed(code) from exc\n        raise\n",
                "            raise\n        raise\n",
            ),
        ),
        (LOSES_NONE,),
    ),
    Removal(
        "B711",
        (
            Edit(
                "src/stratalog/records/verification.py",
                "        if certain is not None:\n            return certain\n",
                "        if certain is report:\n            return certain\n",
            ),
        ),
        (f"{VERIFICATION}::test_damage_above_a_floor_that_rises_during_each_attempt_is_reported",),
        raises=("Unavailable",),
    ),
    Removal(
        "B713",
        (
            Edit(
                "src/stratalog/maintenance/inspection.py",
                "            except VersionForgotten:  # the floor rose above versions before they were read\n",
                "            except MemoryError:\n",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_a_log_whose_floor_rises_during_each_reading_is_intact",),
    ),
    Removal(
        "B721",
        (
            Edit(
                "src/stratalog/maintenance/record_check.py",
                "        if finding.key:\n            _read_body(environment, name, finding.version, damages)\n",
                "",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_an_inspection_names_each_damaged_part_of_a_record_s_body",),
    ),
    Removal(
        "B741",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "            if session.json and line.damages:\n",
                "            if False:\n",
            ),
        ),
        ("tests/cli/test_commands.py::test_a_resumed_verification_reports_the_damage_of_finished_histories_again",),
    ),
    Removal(
        "B742",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "    except ValueError as exc:\n        raise Invalid(\"a checkpoint's hash",
                "    except LookupError as exc:\n        raise Invalid(\"a checkpoint's hash",
            ),
        ),
        ("tests/maintenance/test_checkpoint.py::test_the_root_of_a_store_checkpoint_must_be_a_hash_in_base64",),
    ),
    Removal(
        "B743",
        (
            Edit(
                "src/stratalog/maintenance/verification.py",
                "    except DAMAGE_ERRORS as exc:\n        if isinstance(exc, NotFound)",
                "    except LookupError as exc:\n        if isinstance(exc, NotFound)",
            ),
        ),
        (
            "tests/cli/test_commands.py::test_damage_of_one_history_does_not_end_the_verification_of_the_others",
            "tests/maintenance/test_verification.py::test_a_damaged_name_record_is_a_finding",
        ),
    ),
    Removal(
        "B743",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "    except DAMAGE_ERRORS:\n",
                "    except NotFound:\n",
            ),
        ),
        (
            "tests/maintenance/test_checkpoint.py::test_a_damaged_hash_of_the_checkpoint_s_version_is_a_finding_and_no_contradiction",
        ),
    ),
    Removal(
        "B744",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "    return any(finding.version <= version <= finding.last for finding in chain.findings)",
                "    return False",
            ),
        ),
        (
            "tests/maintenance/test_checkpoint.py::test_a_damaged_hash_of_the_checkpoint_s_version_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_damaged_origin_of_a_record_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_damaged_hash_at_the_floor_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_checkpoint_is_proven_below_a_damaged_head_and_is_not_provable_above",
        ),
    ),
    Removal(
        "B744",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "if not hash or _is_damaged(chain, max(checkpoint.version, first)):",
                "if False:",
            ),
        ),
        (
            "tests/maintenance/test_checkpoint.py::test_a_damaged_hash_of_the_checkpoint_s_version_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_missing_version_between_others_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_damaged_hash_at_the_floor_is_a_finding_and_no_contradiction",
            "tests/maintenance/test_checkpoint.py::test_a_checkpoint_is_proven_below_a_damaged_head_and_is_not_provable_above",
        ),
    ),
    Removal(
        "B743",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "    if chain.origin and chain.origin != checkpoint.origin",
                "    if chain.origin != checkpoint.origin",
            ),
        ),
        ("tests/cli/test_commands.py::test_damage_of_one_history_does_not_end_the_verification_of_the_others",),
    ),
    Removal(
        "B745",
        (
            Edit(
                "src/stratalog/log/verification.py",
                "        yield from _links(log, start, last, head, visit)\n",
                "        if damage is None:\n            yield from _links(log, start, last, head, visit)\n",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_versions_below_a_damaged_head_are_verified",),
    ),
    Removal(
        "B746",
        (
            Edit(
                "src/stratalog/maintenance/checkpoint.py",
                "    if not isinstance(origin, str):\n",
                '    if not isinstance(origin := origin or "", str):\n',
            ),
        ),
        ("tests/maintenance/test_checkpoint.py::test_a_record_without_a_readable_origin_has_no_checkpoint",),
    ),
    Removal(
        "B747",
        (
            Edit(
                "src/stratalog/maintenance/scrub.py",
                "        position.total_bytes += stat.stored_bytes\n",
                "",
            ),
        ),
        ("tests/maintenance/test_scrub.py::test_the_first_round_of_a_large_store_ends_within_the_configured_days",),
    ),
    Removal(
        "B747",
        (
            Edit(
                "src/stratalog/maintenance/scrub.py",
                'list("", after=position.counted)',
                'list("")',
            ),
        ),
        ("tests/maintenance/test_scrub.py::test_a_count_of_the_blobs_that_is_stopped_resumes",),
    ),
    Removal(
        "B758",
        (
            Edit(
                "src/stratalog/maintenance/signed_note.py",
                "    public = _ed25519().Ed25519PublicKey.from_public_bytes(key.public)\n",
                "    from cryptography.hazmat.primitives.asymmetric import ed25519\n\n"
                "    public = ed25519.Ed25519PublicKey.from_public_bytes(key.public)\n",
            ),
        ),
        ("tests/maintenance/test_checkpoint.py::test_a_signature_cannot_be_verified_without_the_extra",),
    ),
    Removal(
        "B759",
        (
            Edit(
                "src/stratalog/maintenance/signed_note.py",
                "            is_signed = True\n",
                "            return True\n",
            ),
        ),
        (
            "tests/maintenance/test_checkpoint.py::test_a_note_with_an_invalid_signature_beside_the_valid_one_is_refused",
        ),
    ),
    Removal(
        "B768",
        (
            Edit(
                "src/stratalog/maintenance/verification.py",
                "if isinstance(exc, NotFound) and not has_line(store, history):",
                "if isinstance(exc, NotFound):",
            ),
        ),
        (
            "tests/maintenance/test_verification.py::test_a_listed_log_without_a_name_record_is_a_finding_and_not_provable",
            "tests/cli/test_deleted_meanwhile.py::test_a_listed_log_without_a_name_record_is_not_skipped",
        ),
    ),
    Removal(
        "B769",
        (
            Edit(
                "src/stratalog/ports/stored_attributes.py",
                "    except msgspec.ValidationError as exc:\n",
                "    except KeyError as exc:\n",
            ),
        ),
        (
            "tests/maintenance/test_verification.py::test_a_value_of_another_type_damages_its_version",
            "tests/maintenance/test_verification.py::test_a_name_record_with_a_value_of_another_type_or_range_is_a_finding_and_not_provable",
            "tests/maintenance/test_verification.py::test_a_record_floor_with_a_value_of_another_type_or_range_is_a_finding",
            "tests/maintenance/test_verification.py::test_a_snapshot_with_a_value_of_another_type_is_a_finding",
        ),
        raises=("ValidationError",),
    ),
    Removal(
        "B769",
        (
            Edit(
                "src/stratalog/log/verification.py",
                '    return value if isinstance(value, bytes) else b""\n',
                "    return value  # type: ignore[return-value]\n",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_a_value_of_another_type_damages_its_version",),
    ),
    Removal(
        "B770",
        (
            Edit(
                "src/stratalog/maintenance/verification.py",
                "last = None if upto is None else min(upto, log.head().version)",
                "last = upto",
            ),
            Edit(
                "src/stratalog/maintenance/verification.py",
                "        if isinstance(exc, VersionForgotten):\n",
                "        if isinstance(exc, NotFound):\n",
            ),
        ),
        (
            "tests/maintenance/test_verification.py::test_a_document_is_verified_up_to_its_head_if_the_wanted_version_is_beyond",
        ),
    ),
    Removal(
        "B771",
        (
            Edit(
                "src/stratalog/maintenance/shapes.py",
                "attribute.numbers is not None and value not in attribute.numbers",
                "value is None",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_a_name_record_whose_numbers_are_no_versions_is_named",),
    ),
    Removal(
        "B772",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                """            is_finished = True
        finally:
""",
                """                around = repair_store(store, dry_run=dry_run)
        except Unavailable:
            raise
        else:
""",
            ),
            Edit(
                "src/stratalog/cli/inspection.py",
                "from stratalog.errors import Invalid, NotFound, StratalogError, VersionForgotten\n",
                "from stratalog.errors import Invalid, NotFound, StratalogError, Unavailable, VersionForgotten\n",
            ),
        ),
        ("tests/cli/test_commands.py::test_an_error_does_not_hide_the_results_of_a_repair",),
    ),
    Removal(
        "B773",
        (
            Edit(
                "src/stratalog/maintenance/repair.py",
                "            results.unread[history] = exc\n            return\n",
                "            raise exc\n",
            ),
        ),
        ("tests/cli/test_commands.py::test_a_repair_continues_after_a_history_whose_floor_keeps_rising",),
    ),
    Removal(
        "B773",
        (
            Edit(
                "src/stratalog/records/verification.py",
                'raise VersionForgotten("the floor rose during each attempt to verify the record", record=name.id)',
                'raise RuntimeError("another process kept pruning the record during the verification", name.id)',
            ),
        ),
        (
            "tests/maintenance/test_verification.py::test_a_record_whose_damage_is_forgotten_during_each_attempt_is_not_verified",
        ),
    ),
    Removal(
        "B774",
        (
            Edit(
                "src/stratalog/records/verification.py",
                "last = max(floor.version, parse_number(latest.sort))",
                "last = parse_number(latest.sort)",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_a_record_that_lost_all_kept_versions_is_reported",),
    ),
    Removal(
        "B774",
        (Edit("src/stratalog/records/history.py", "        check_superseded(environment, name, latest)\n", ""),),
        ("tests/maintenance/test_verification.py::test_a_record_that_lost_all_kept_versions_is_reported",),
    ),
    Removal(
        "B796",
        (
            Edit(
                "src/stratalog/ports/stored_attributes.py",
                "    except msgspec.ValidationError as exc:\n",
                "    except KeyError as exc:\n",
            ),
        ),
        (
            "tests/maintenance/test_damaged_values.py::test_a_value_of_another_type_or_range_raises_only_typed_errors_and_is_named_as_damage",
            "tests/maintenance/test_damaged_values.py::test_the_error_of_a_read_of_a_log_names_the_item_and_the_fault",
        ),
    ),
    Removal(
        "B797",
        (
            Edit(
                "src/stratalog/documents/fold.py",
                "LookupError):\n                check_form(event, entry.version)\n",
                "LookupError):\n",
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_a_commit_of_another_form_is_damage_of_its_version",),
    ),
    Removal(
        "B798",
        (
            Edit(
                "src/stratalog/log/entries.py",
                "    if upcasters:\n        events = tuple(_upcast(event, upcasters) for event in events)\n",
                "    try:\n        events = tuple(_upcast(event, upcasters or {}) for event in events)\n"
                '    except KeyError as exc:\n        raise Corrupt("an item is not an entry") from exc\n',
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_an_error_of_an_upcaster_is_no_damage",),
    ),
    Removal(
        "B798",
        (
            Edit(
                "src/stratalog/log/verification.py",
                "DAMAGE_ERRORS = (Corrupt, NotFound, Invalid, LimitExceeded)",
                "DAMAGE_ERRORS = (Corrupt, NotFound, Invalid, LimitExceeded, TypeError)",
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_an_error_of_the_code_that_visits_an_entry_is_no_damage",),
        raises=("AttributeError",),
    ),
    Removal(
        "B799",
        (
            Edit(
                "src/stratalog/cli/records.py",
                'unchanged = "" if stored.write_id == own_id',
                'unchanged = "" if (stored.write_id == own_id if expected is None else stored.version != expected)',
            ),
        ),
        (
            "tests/cli/test_commands.py::test_a_put_of_the_bytes_of_the_version_after_the_expected_one_says_that_nothing_was_stored",
        ),
    ),
    Removal(
        "B800",
        (
            Edit(
                "src/stratalog/maintenance/inspection.py",
                "if not len(damages) and _prefix(store, history) == prefix:",
                "if not len(damages):",
            ),
        ),
        (
            "tests/maintenance/test_inspection.py::test_a_log_that_is_deleted_and_created_again_during_an_inspection_is_inspected_anew",
        ),
        raises=("NotFound",),
    ),
    Removal(
        "B801",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/history.py",
                "floor = self._log.above_floor(self._read_above)",
                "floor = self._read_above(self._log.floor())",
            ),
        ),
        (
            "apps/sheet/tests/test_reads_beside_retention.py::test_labels_are_read_although_the_floor_rises_three_times_during_the_read",
        ),
        raises=("VersionForgotten",),
    ),
    Removal(
        "B801",
        (Edit("src/stratalog/cli/history.py", "opened.log.above_floor(read)", "read(opened.log.floor())"),),
        ("tests/cli/test_commands.py::test_the_versions_above_a_floor_that_rises_meanwhile_are_listed",),
    ),
    Removal(
        "B802",
        (Edit("src/stratalog/cli/inspection.py", "if is_finished or repaired or remaining:", "if True:"),),
        ("tests/cli/test_commands.py::test_an_error_before_any_result_of_a_repair_is_the_whole_answer",),
    ),
    Removal(
        "B834",
        (
            Edit(
                "src/stratalog/documents/fold.py",
                "if not (type(fork_version) is int and type(fork_hash) is bytes):",
                "if fork_version is None:",
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_a_commit_of_another_form_is_damage_of_its_version",),
    ),
    Removal(
        "B834",
        (Edit("src/stratalog/documents/fold.py", "if event.type != COMMIT:", "if event.type is None:"),),
        ("tests/maintenance/test_damaged_values.py::test_another_event_of_a_document_of_another_form_is_damage",),
    ),
    Removal(
        "B834",
        (
            Edit(
                "src/stratalog/log/entries.py",
                "    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:",
                "    except (msgspec.DecodeError, UnicodeDecodeError) as exc:",
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_an_entry_that_is_nested_too_deeply_is_damage",),
    ),
    Removal(
        "B834",
        (
            Edit(
                "src/stratalog/codec.py",
                "    except RecursionError as exc:",
                "    except ZeroDivisionError as exc:",
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_arguments_that_are_nested_too_deeply_are_damage",),
    ),
    Removal(
        "B834",
        (
            Edit(
                "src/stratalog/backends/item_rows.py",
                "UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)",
                "UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, TypeError)",
            ),
        ),
        ("tests/backends/test_sqlite.py::test_an_item_that_is_nested_too_deeply_is_corrupt",),
    ),
    Removal(
        "B835",
        (
            Edit(
                "src/stratalog/maintenance/marks.py",
                'decode_attribute(item, "x", decode_body_ref, "an entry")',
                'decode_body_ref(item.attributes["x"])',
            ),
        ),
        ("tests/maintenance/test_damaged_values.py::test_a_damaged_pointer_of_an_entry_is_damage_for_a_marking",),
    ),
    Removal(
        "B849",
        (
            Edit(
                "examples/verify_export.py",
                "    for name in FIELDS if isinstance(value, dict) else ():",
                '    for name in ("id", "name") if isinstance(value, dict) else ():',
            ),
        ),
        ("tests/test_verify_export.py::test_the_example_verifies_an_export_with_other_metadata_fields",),
    ),
    Removal(
        "B874",
        (
            Edit(
                "docs/guides/verify.md",
                " that it names fewer freed versions than were freed, until the next maintenance;",
                "",
            ),
        ),
        (
            "tests/maintenance/test_inspection.py::test_the_guide_lists_every_kind_of_object_and_the_damage_that_is_not_noticed",
        ),
    ),
    Removal(
        "B884",
        (
            Edit(
                "src/stratalog/maintenance/inspection.py",
                "in list_lines(store.environment.index, organisation, shelf):\n"
                "                    if line.position is None:\n",
                "in list_lines(environment.index, organisation, shelf):\n"
                "                    if line.item is not None:\n",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_a_history_with_a_damaged_directory_line_is_inspected_too",),
    ),
    Removal(
        "B884",
        (
            Edit(
                "src/stratalog/maintenance/store_check.py",
                "    _check_unlisted_failures(environment, organisation, damages)\n\n",
                "\n",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_failures_of_a_record_without_a_version_are_inspected",),
    ),
    Removal(
        "B981",
        (
            Edit(
                "src/stratalog/maintenance/shapes.py",
                '    if kind == "pin" and not PIN.fullmatch(item.sort):\n'
                '        return "the key of the item is not a version and the prefix of a log"\n',
                "",
            ),
        ),
        (
            "tests/maintenance/test_damaged_keys.py::test_an_item_with_an_impossible_key_is_damage_and_ends_no_verification",
        ),
    ),
    Removal(
        "B1051",
        (
            Edit(
                "src/stratalog/log/usage.py",
                '    stored = read_attributes(item, StoredMeasurement, "a measurement of usage")\n',
                "    values: Any = item.attributes\n"
                "    stored = StoredMeasurement(*(values[name] for name in StoredMeasurement.__struct_fields__))\n",
            ),
        ),
        ("tests/log/test_admission.py::test_a_measurement_with_a_value_of_the_wrong_type_stops_no_write",),
    ),
    Removal(
        "B1052",
        (
            Edit(
                "src/stratalog/cli/verification.py",
                '        _refuse({"--lines": lines}, "has no effect with the checkpoint of one history")\n',
                "",
            ),
        ),
        ("tests/cli/test_commands.py::test_lines_are_refused_with_the_checkpoint_of_one_history",),
    ),
    Removal(
        "B1053",
        (Edit("src/stratalog/maintenance/store_pass.py", 'f"step {number + 1} of the', 'f"step {number} of the'),),
        (f"{MAINTAIN}::test_each_application_step_runs_once_in_a_pass_even_if_an_earlier_step_fails",),
    ),
    Removal(
        "B1054",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "if position.shelf < STEPS or is_decimal(position.id)",
                "if True",
            ),
        ),
        (f"{POSITIONS}::test_a_pass_with_steps_replaces_a_position_with_an_impossible_value",),
    ),
    Removal(
        "B1054",
        (Edit("src/stratalog/maintenance/store_pass.py", "msgspec.Meta(ge=LOGS, le=STEPS)", "msgspec.Meta()"),),
        (f"{POSITIONS}::test_a_pass_with_steps_replaces_a_position_with_an_impossible_value",),
    ),
)
