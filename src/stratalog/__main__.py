"""``python -m stratalog`` runs the command ``stratalog``."""

from stratalog.cli import main

if __name__ == "__main__":
    main(prog_name="stratalog")
