"""Ordinary jobs: whole texts and libraries with known answers, the yardstick of every choice of pictures.

`jobs` makes them, `boards` illustrates them, `measures` judges, and `benchmarks/ordinary_results.py` prints.
"""
