"""Trainable parts that the systems are built of."""
