"""A project of a user of Stratalog. `tests/test_user_project.py` checks its types and runs it."""
