"""The research wing: data sets, systems, training, evaluation, published tables and studies.

It may import the product; the product never imports it. What the product uses of it, commands and trained
runs, it registers as entry points in ``pyproject.toml``.
"""
