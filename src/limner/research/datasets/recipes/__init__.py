"""Builds sets of illustrated recipes and guides from pages: reading, cutting, filtering, splitting."""
