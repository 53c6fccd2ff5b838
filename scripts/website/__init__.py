"""The documentation site: `python -m scripts.website build/site`, or `make docs`. See docs/decisions/0053.

The program writes the repository's Markdown pages and the generated reference into a source folder next to the site.
Sphinx makes HTML from this folder. A warning of Sphinx makes the build fail. Then the program checks every link
within the site and every fetched file of the HTML. It does not check links to other hosts.

Modules
-------
conf               the settings of Sphinx
navigation         the groups of pages and their order
pages              the repository's pages, with links to pages of the site
markup             tables and text of generated pages
python_reference   pages of the public Python modules
http_reference     pages of the HTTP API, from its OpenAPI document
command_reference  pages of the commands
docstrings         docstrings in the markup of Sphinx
sidebar            the list of pages beside each page
links              checks of the built HTML
"""
