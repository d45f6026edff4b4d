"""Ranks, recalls, pools and intervals."""
