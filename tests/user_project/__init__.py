"""A user's project on Stratalog. `tests/test_user_project.py` checks its types and runs it."""
