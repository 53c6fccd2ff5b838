"""Removals of fixes: names, addresses, times and files that a user gives, and backups of what was pruned."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

MAINTAIN = "tests/maintenance/test_maintain.py"
POLICY = "src/stratalog/maintenance/policy.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B505",
        (Edit(POLICY, 'organisation.replace("%", "%25").replace("/", "%2F")', 'organisation.replace("/", "%2F")'),),
        (f"{MAINTAIN}::test_an_exception_belongs_to_one_organisation_whatever_its_id_contains",),
    ),
    Removal(
        "B505",
        (Edit(POLICY, 'if _UNESCAPED.search(name.partition("/")[0]):', "if False:"),),
        (f"{MAINTAIN}::test_an_exception_with_a_percent_sign_of_its_own_is_refused",),
    ),
)
