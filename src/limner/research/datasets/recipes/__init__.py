"""Builds sets of illustrated recipes and guides from web pages: reads, segments, filters and splits them."""
